"""Recognises the output of a job by its content: lines of steps, bars, NCCL, time-outs or tables in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.sources.decompress import GZIP_MAGIC, beginning, opened, unpacked_name
from tools.sources.job_log.bar_lines import bar_point, names_steps
from tools.sources.job_log.collective_reports import reports
from tools.sources.job_log.comm_tests import (
    TEST_BEGIN,
    TEST_HEAD,
    headless_row,
)
from tools.sources.job_log.grammars.column_rows import ColumnRows
from tools.sources.job_log.grammars.epoch_times import epoch_time
from tools.sources.job_log.grammars.generic_lines import DICTIONARY_LINES, FREE_LINES, GENERIC_LINES, JSON_LINES
from tools.sources.job_log.grammars.given_pattern import GivenPattern
from tools.sources.job_log.grammars.keras_lines import KERAS_EPOCHS, KERAS_LINES
from tools.sources.job_log.grammars.step_figures import StepLine
from tools.sources.job_log.grammars.step_lines import step_line
from tools.sources.job_log.lines import LineReader, line_starts
from tools.sources.job_log.memory_summary import COUNTS
from tools.sources.job_log.messages import TIMEOUT
from tools.sources.job_log.nccl import HEAD, MASKED_WARN
from tools.sources.job_log.prefixes import parse_line, stamp_within
from tools.sources.job_log.profile_tables import holds_row
from tools.sources.job_log.rank_reports import FIGURE, MARK
from tools.sources.job_log.recompilations import logs_recompilations
from tools.sources.job_log.reported_errors import HCCL, XID
from tools.sources.job_log.side_work import side_work
from tools.sources.job_log.tables import LIGHTNING_HEAD, TIMER_HEAD, csv_table, flat_timers
from tools.sources.job_log.warnings import FLUSHES, crashed

LOOKED_AT_BYTES = 1 << 18  # at the start and at the end: start-up messages may fill more than that
PARTS_BETWEEN, PART_BYTES = 8, 1 << 16  # looked at between both
MEMORY_ERROR = re.compile(r"OutOfMemoryError: (?:CUDA|HIP|NPU|XPU) out of memory|out of memory\. Tried to allocate \d")
LIGHTNING = re.compile(r"\s*(?:FIT )?Profiler Report\s*\Z")
ENOUGH_STEPS = 2  # lines: one alone may be a sentence, but for the forms of known programs
ENOUGH_STAMPS = 4  # lines that name a step each larger than the one before, and when they were written
# Programs whose lines state no time of a step, and are like no other text.
CERTAIN = ("DeepSpeed", "DeepSpeed rates", "torchtitan", "fairseq", "modded-nanogpt")
# What HF Trainer logs, without a step: next to a progress bar it is a training.
TRAINER_RECORD = re.compile(r"\A\s*\{['\"]loss['\"]: .{1,2000}['\"]epoch['\"]: ")
# Forms of any program, and bars that a prediction draws as well: one line of them shows no training.
NOT_ALONE = (GENERIC_LINES, FREE_LINES, JSON_LINES, DICTIONARY_LINES, KERAS_LINES, KERAS_EPOCHS)
STATED = re.compile(r"\bstep[ _]time(?:_(?:ms|s))?=\d[\d.]*\s?(?:ms|s)\b")  # next to a step: no sentence says it so
ENOUGH_NOTES = 3  # lines that name a step that is saved or evaluated in
# Programs, documents and settings may quote lines of a log, and are none.
NEVER = (
    *(".py", ".pyc", ".md", ".rst", ".ipynb", ".html", ".sh", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".c", ".cpp"),
    *(".cu", ".h", ".pt", ".pth", ".safetensors", ".bin", ".npy", ".npz", ".parquet", ".pkl", ".pickle", ".sqlite"),
    *(".db", ".png", ".jpg", ".jpeg", ".svg", ".pdf", ".zip", ".tar", ".whl", ".so", ".wandb", ".nsys-rep"),
)


def is_job_log(path: Path, pattern: str = "") -> bool:
    """Whether the file holds output of a job; False as well where it cannot be read."""
    if unpacked_name(path).lower().endswith(NEVER):
        return False
    try:
        start = beginning(path, LOOKED_AT_BYTES)
        if holds_records((bytes(start.data),), pattern):
            return True
        return start.more and not _packed(path) and any(holds_records((part,), pattern) for part in _further(path))
    except OSError:
        return False


def _packed(path: Path) -> bool:
    with opened(path) as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def _further(path: Path) -> Iterator[bytes]:
    """The end of a file that is longer than its looked-at start, then parts between at equal distances."""
    with opened(path) as file:
        size = file.seek(-LOOKED_AT_BYTES, os.SEEK_END) + LOOKED_AT_BYTES
        yield file.read(LOOKED_AT_BYTES)
        between = size - 2 * LOOKED_AT_BYTES
        for part in range(max(0, min(PARTS_BETWEEN, between // PART_BYTES + 1))):
            file.seek(LOOKED_AT_BYTES + part * max(PART_BYTES, between // PARTS_BETWEEN))
            yield file.read(PART_BYTES)


@dataclass
class _Seen:
    """The step lines of a text so far."""

    steps: int = 0  # with a figure
    stamped: int = 0  # with the time at which they were written, each of a later step
    free: int = 0  # of no program's form, each of a later step
    named: bool = False  # one names its time the step's, or has the form of a program that trains
    _stamped_step: int = -1
    _free_step: int = -1

    @property
    def enough(self) -> bool:
        """Whether they show that the text is a job's output."""
        return self.named or self.steps >= ENOUGH_STEPS or max(self.stamped, self.free) >= ENOUGH_STAMPS

    def take(self, found: StepLine, text: str, stamped: bool) -> None:
        """Count a step line."""
        figures = (found.wall_ms, found.bare_time, found.samples_per_s, found.tokens_per_s)
        timed = found.ambiguous or any(figure is not None for figure in figures)
        if found.grammar == FREE_LINES:
            if timed and found.step > self._free_step:
                self.free, self._free_step = self.free + 1, found.step
            return
        self.steps += timed
        self.steps += found.grammar in CERTAIN
        if found.wall_ms is not None:
            self.named |= found.grammar not in NOT_ALONE or STATED.search(text) is not None
        if stamped and found.step > self._stamped_step:
            self.stamped, self._stamped_step = self.stamped + 1, found.step


def holds_records(pieces: Iterable[bytes], pattern: str = "") -> bool:
    """Whether the text has lines of a job's output, or such as the user's pattern describes."""
    seen, notes = _Seen(), 0
    given = GivenPattern(pattern) if pattern else None
    for raw in LineReader(pieces, lambda: False, line_starts if given is None else given.starts):
        if given is not None and given.line(raw.data) is not None:
            return True
        line = parse_line(raw.number, raw.data)
        text = line.text
        if _unmistakable(text) or _of_table(raw.number, text):
            return True
        point = bar_point(text)
        bar = point is not None
        found = None if bar else step_line(text)
        seen.steps += bar or TRAINER_RECORD.search(text) is not None
        seen.named |= point is not None and names_steps(point)
        if found is not None:
            seen.take(found, text, stamped=line.time is not None or stamp_within(text) is not None)
        seen.steps += 0 if bar or found is not None else _epochs(text)
        notes += not bar and _names_step(text)
        if seen.enough or notes >= ENOUGH_NOTES:
            return True
    return False


def _unmistakable(text: str) -> bool:
    """Whether the line alone is of a job's errors, of NCCL, of a watchdog or of a driver."""
    if MEMORY_ERROR.search(text) or COUNTS.search(text) or FLUSHES.search(text) or TIMEOUT.search(text):
        return True
    if HEAD.search(text) or MASKED_WARN.search(text) or XID.search(text) or HCCL.search(text):
        return True
    reported = MARK in text and FIGURE.search(text) is not None
    return reported or crashed(text) or reports(text) or logs_recompilations(text)


def _of_table(line: int, text: str) -> bool:
    """Whether the line is the head or a row of a table that programs and profilers print."""
    if TIMER_HEAD.search(text) or LIGHTNING.match(text) or "out-of-place" in text or TEST_HEAD.search(text):
        return True
    if TEST_BEGIN.match(text) or headless_row(text) or ColumnRows().head(text):
        return True
    if "Mean duration" in text and LIGHTNING_HEAD.match(text):
        return True
    if "Comm. Op" in text and "Total Latency" in text:
        return True
    if "time (ms) |" in text and len(flat_timers(line, text)) >= ENOUGH_STEPS:
        return True
    return csv_table(text) is not None or holds_row(text)


def _epochs(text: str) -> int:
    """How much a line with the time of an epoch counts: bars and lists of parts are no sentence."""
    epoch = epoch_time(text)
    return 0 if epoch is None else ENOUGH_STEPS if epoch.items or epoch.parts else 1


def _names_step(text: str) -> bool:
    """Whether the line names a step in which the job saves or evaluates."""
    found = side_work(text)
    return found is not None and found.step is not None
