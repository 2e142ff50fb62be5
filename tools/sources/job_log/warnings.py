"""The warnings that carry a cause, by the words of their lines."""

from __future__ import annotations

import re
from collections.abc import Callable

from tools.run.recorded.job_log import (
    WarningKind,
)

# As a title of an issue quotes it: without the head of the line and without the rank.
UNNAMED_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: Work[NHX]CCL\(SeqNum=\d{1,15}, OpType=\w{1,40}.*?"
    r"Timeout\(ms\)=\d{1,15}\)(?: ran for (\d{1,15}) milliseconds)?"
)
# Before the message of XLA that names what was slow.
XLA_TOOK = re.compile(r"\bThe operation took (?:(\d{1,3})h)?(?:(\d{1,5})m)?(\d{1,9}(?:\.\d{1,12})?)s\s*\Z")
FLUSHES = re.compile(r"(\d{1,9}) pytorch allocator cache flushes since last step")
NOT_FINITE = re.compile(
    r"(?:loss|grad[ _]?norm)['\"]?\s{0,3}[:=]?\s{0,3}['\"]?[-+]?(?:nan|inf)(?:inity)?\b"
    r"|number of nan iterations:\s{1,9}[1-9]",
    re.I,
)
ON_CPU = re.compile(
    r"\b(?:[Tt]rain(?:ing)?|[Rr]un(?:ning)?)\s(?:\w+\s){0,3}on (?:the )?(?:CPU|cpu)\b(?![ _-]?(?:offload|adam))"
    r"|\b[Dd]evice(?:_type)?['\"]?\s?[:=]\s?(?:torch\.device\()?['\"]?cpu\b"
    r"|\b[Uu]sing (?:device:? )?(?:the )?['\"]?(?:CPU|cpu)\b['\"]?(?:[.,;!]| device|\s*\Z)"
)
# Before such words: source code that a job prints names devices as arguments and in comments, and single operators fall
# back to it.
NOT_ON_CPU = re.compile(
    r"\b(?:torch|np|jnp|self|tf)\.\w+|\.to\(|\bdef \w+\(|back to \Z|[Oo]ffload|map_location|\A\s*\"\Z|(?<!#)#(?!#)"
)
LOOKED_BEFORE = 200  # characters


def _on_cpu(text: str) -> re.Match[str] | None:
    """Where a line says that the training runs on the CPU; None for code that names a device, and for fall-backs."""
    found = ON_CPU.search(text)
    if found is None or NOT_ON_CPU.search(text, max(found.start() - LOOKED_BEFORE, 0), found.start()):
        return None
    return found


# With words one of which is in each such line: looking for them costs a tenth of the search.
WARNINGS: tuple[tuple[WarningKind, tuple[str, ...], Callable[[str], re.Match[str] | None]], ...] = (
    ("allocator_flush", ("cache flushes",), FLUSHES.search),
    (
        "fp16_overflow",
        ("verflow", "OVERFLOW"),
        re.compile(r"OVERFLOW! .*Skipping step|[Gg]radient overflow\. +Skipping step|scale overflow!").search,
    ),
    (
        "out_of_memory",
        ("out of memory", "OutOfMemoryError"),
        re.compile(r"(?:CUDA|HIP|NPU|XPU) out of memory|OutOfMemoryError:").search,
    ),
    (
        "recompile_limit",
        ("_limit",),
        re.compile(r"hit config\.(?:recompile_limit|cache_size_limit)|recompile_limit reached").search,
    ),
    ("few_loader_workers", ("many workers",), re.compile(r"train_?\s?dataloader.*does not have many workers").search),
    (
        "many_loader_workers",
        ("DataLoader will create",),
        re.compile(r"DataLoader will create \d{1,6} worker processes.*suggested max number of worker").search,
    ),
    (
        "accelerator_unused",
        ("available: True",),
        re.compile(r"\b(?:GPU|TPU|HPU) available: True\b.{0,40}\bused: False\b").search,
    ),
    (
        "operator_on_cpu",
        ("fall back to run on the CPU", "fallback to CPU", "falling back to CPU"),
        re.compile(
            r"[Oo]perator '[\w:.]+' .{0,60}not (?:currently )?supported .{0,60}"
            r"fall(?:ing)?[ _]?back to (?:run on the )?CPU"
        ).search,
    ),
    (
        "device_libraries",
        ("Skipping registering GPU",),
        re.compile(r"\bSkipping registering GPU devices").search,
    ),
    ("uncompiled", ("WON'T CONVERT",), re.compile(r"\bWON'T CONVERT \S").search),
    (
        "loader_killed",
        ("killed by signal: K",),
        re.compile(r"DataLoader worker \(pid.{0,40}\) is killed by signal: Killed").search,
    ),
    (
        "loader_shared_memory",
        ("us error", "insufficient shared memory"),
        re.compile(
            r"DataLoader worker \(pid.{0,40}\) is killed by signal: Bus error"
            r"|[Uu]nexpected bus error encountered in worker|insufficient shared memory \(shm\)"
        ).search,
    ),
    (
        "oom_kill",
        ("oom-kill", "oom_kill"),
        re.compile(r"[Dd]etected \d{1,9} oom[-_]kill event|task .{0,40}\boom[-_]kill\b").search,
    ),
    ("slow_compile", ("ery slow compile",), re.compile(r"\[Compiling .{0,400}\] Very slow compile\?").search),
    ("unnamed_timeout", ("atchdog caught",), UNNAMED_TIMEOUT.search),
    ("stuck_watchdog", ("got stuck",), re.compile(r"watchdog got stuck for \d{1,9} seconds").search),
    (
        "slow_callback",
        ("slow compared to",),
        re.compile(r"\b[Cc]allback .{0,80}is slow compared to the batch").search,
    ),
    (
        "trains_on_cpu",
        ("cpu", "CPU"),
        _on_cpu,
    ),
    (
        "job_restart",
        ("restart", "DUE TO", "equeu"),
        re.compile(
            r"\brestart_count[=: ]{1,3}[1-9]|will restart worker group|DUE TO (?:PREEMPTION|NODE FAILURE)"
            r"|\b[Jj]ob \d{1,12} (?:has been )?requeued|Requeu(?:e|ing) job"
        ).search,
    ),
    (
        "time_limit",
        ("DUE TO TIME LIMIT",),
        re.compile(r"\*\*\* (?:JOB|STEP) [\d._+]{1,30} ON \S{1,200} CANCELLED AT \S{1,40} DUE TO TIME LIMIT").search,
    ),
    (
        "terminated",
        ("SIGTERM", "killed by signal: T"),
        re.compile(
            r"\[rank: \d{1,7}\] Received SIGTERM|DataLoader worker \(pid.{0,40}\) is killed by signal: Terminated"
        ).search,
    ),
    (
        "slow_tensors",
        ("extremely slow",),
        re.compile(r"Creating a tensor from a list of numpy\.ndarrays is extremely slow").search,
    ),
    (
        "unfused_softmax",
        ("unfused kernel",),
        re.compile(r"fused softmax kernel are not met\. We default back to unfused kernel").search,
    ),
    (
        "float32_precision",
        ("float32_matmul_precision",),
        re.compile(
            r"has Tensor Cores\. To properly utilize them, you should set `torch\.set_float32_matmul_precision"
        ).search,
    ),
    (
        "cache_off",
        ("use_cache=",),
        re.compile(r"use_cache=True`? is incompatible with gradient checkpointing").search,
    ),
    (
        "accumulation_warning",
        ("tream mismatch",),
        re.compile(r"[Gg]rad(?:ient)?[ _-]?accum\w{0,20}.{0,80}[Ss]tream mismatch").search,
    ),
)

WARNINGS_BY_MARK = tuple((mark, kind, search) for kind, marks, search in WARNINGS for mark in marks)

# Which no other text than a job's output has.
CRASHES = tuple(
    search
    for kind, _, search in WARNINGS
    if kind in ("loader_killed", "loader_shared_memory", "oom_kill", "slow_compile", "unnamed_timeout", "time_limit")
)


def crashed(text: str) -> bool:
    """Whether the line alone shows that a job stopped or waited, so that a file with it is its output."""
    return any(search(text) is not None for search in CRASHES)
