"""Single lines that carry a cause or a fact of the job: watchdog time-outs, warnings, arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tools.run.recorded.job_log import (
    Cited,
    CollectiveTimeout,
    EvaluationTime,
    LogWarning,
    StepNote,
    WarningKind,
    WatchdogStatus,
)
from tools.sources.job_log.collective_reports import CollectiveReports
from tools.sources.job_log.evaluation_times import evaluation_s
from tools.sources.job_log.exhausted_memory import exhausted
from tools.sources.job_log.grammars.step_figures import UNNUMBERED
from tools.sources.job_log.memory_summary import MemorySummary
from tools.sources.job_log.numbers import in_ms, number
from tools.sources.job_log.overflows import Overflows
from tools.sources.job_log.peak_memory import COMMENTS, PeakMemories
from tools.sources.job_log.printed_config import PrintedConfig
from tools.sources.job_log.recompilations import Recompilations
from tools.sources.job_log.reported_errors import ReportedErrors
from tools.sources.job_log.side_work import evaluates, side_work
from tools.sources.job_log.warnings import NOT_FINITE, WARNINGS_BY_MARK, XLA_TOOK
from tools.sources.job_log.world_size import WorldSize

MOST_TIMEOUTS = 4096
TIMEOUT = re.compile(
    r"\[Rank (\d{1,7})\] Watchdog caught collective operation timeout: Work[NHX]CCL\(SeqNum=(\d{1,15}),"
    r" OpType=(\w{1,40}).*?Timeout\(ms\)=(\d{1,15})\)(?: ran for (\d{1,15}) milliseconds)?"
)
XLA_LINES = 4  # from the time to the message: an empty line and a row of stars
WRITTEN = re.compile(r"\[[IWEF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)")  # "[E419 10:42:28.858931807": 19 April
STATUS = re.compile(
    r"\[PG (?:ID )?(\S+)(?: PG GUID (\S+?))? Rank (\d{1,7})\](?P<said>.*?)[Ll]ast enqueued (?:[NHX]CCL )?work:"
    r" (?P<enqueued>-?\d{1,15}), last completed (?:[NHX]CCL )?work: (?P<completed>-?\d{1,15})"
)
AT_WORK = re.compile(r"(?:work|sequence id): (\d{1,15})")  # "at work: 4486", "at work sequence id: 4486"
# PyTorch puts the rank of the whole job before the line; "[Rank 1]" behind it may be the rank's number in the group.
WHOLE_RANK = re.compile(r"\[rank(\d{1,7})\]")
WORLD = re.compile(
    r"using world size: (\d+), data-parallel[- ]size: (\d+),(?: context-parallel size: \d+,?)?.*?"
    r"tensor-model-parallel size: (\d+),.*?pipeline-model-parallel size: (\d+)"
)
WORLD_NAMES = ("world_size", "data_parallel_size", "tensor_model_parallel_size", "pipeline_model_parallel_size")
ARGUMENT = re.compile(r"(?:\[[^\]]{1,60}\] ?){0,6} {0,9}([a-z_]\w{1,60}) \.{3,99} {0,9}(\S.{0,80})\Z")
ARGUMENTS = {
    *WORLD_NAMES,
    *("micro_batch_size", "global_batch_size", "virtual_pipeline_model_parallel_size", "expert_model_parallel_size"),
    *("context_parallel_size", "log_interval", "seq_length", "num_layers", "train_batch_size"),
    *("hidden_size", "num_attention_heads", "ffn_hidden_size"),
    *("gradient_accumulation_steps", "train_micro_batch_size_per_gpu", "fp16", "bf16", "num_micro_batches"),
}
# Of argparse, which prints all arguments in one line, and of HF Trainer, which prints each in one of its own.
LOADER_WORKERS = re.compile(
    r"\bNamespace\(.*?\b(?:num_)?workers=(\d{1,4})(?=[,)])|\bdataloader_num_workers=(\d{1,4})(?=[,)\s]|\Z)"
)
# The argument itself: behind other words ("patience epochs: 20", "save every n epochs: 5") it is another number.
EPOCHS = re.compile(
    r"(?:\A|[^\w\s./-]|(?<![A-Za-z])-|\b(?:INFO|DEBUG)\s|\d\s(?=\s{0,20}\w{6,16}=))\s{0,20}"
    r"(?:num_(?:train_)?|n_|max_|[Tt]otal[_ ]|train_)?epochs['\"]?\s{0,3}[=:]\s{0,3}(\d{1,9})(?![\d.])"
)
# "Gradient Accumulation steps = 4" (HF Trainer), "gradient_accumulation_steps .. 4" (DeepSpeed), or as an argument.
ACCUMULATION = re.compile(
    r"\b[Gg]radient[_ ][Aa]ccumulation[_ ]steps['\"]?\s{0,3}(?:[=:]|\.{2,40})\s{0,3}([1-9]\d{0,5})(?![\d.])"
)
MICRO_BATCHES = re.compile(r"number of micro-?batches to constant (\d{1,9})|CONFIG: micro_batches=(\d{1,9})")
# Of the main process alone, at the end of HF Trainer's ``log_metrics``: the other lines are of one rank each.
WHOLE_RUNTIME = re.compile(r"\btrain_runtime\s+=\s+(?:(\d{1,4}) days?, )?(\d{1,4}):(\d\d):(\d\d(?:\.\d{1,6})?)\s*\Z")
SUMMARY = re.compile(r"'(train_(?:runtime|samples_per_second|steps_per_second))': '?(\d[\d.]*)")
TOTALS = re.compile(r"Self (CPU|CUDA|NPU|XPU) time total: (\d{1,12}(?:\.\d{1,9})?)(us|ms|s)")
COMMENTED = re.compile(r"\s*(?:#|//)\s*[\w.]{1,64}\s?=\s?\S")  # of a configuration that is printed with what is not set
MOST_NOTES = 1 << 16
MARKS = (
    "sav",
    "Sav",
    "SAV",
    "heckpoint",
    "CHECKPOINT",
    "kpt",
    "rote",
    "rit",
    "ump",
    "tor",
    "val",
    "Val",
    "VAL",
    "Test",
)


@dataclass
class Messages:
    """Collects them, line by line."""

    file: int
    settings: dict[str, Cited] = field(default_factory=dict)
    timeouts: dict[tuple[int, int, str], CollectiveTimeout] = field(default_factory=dict)
    warnings: dict[WarningKind, LogWarning] = field(default_factory=dict)
    notes: dict[str, list[StepNote]] = field(default_factory=lambda: {"save": [], "evaluation": []})
    evaluated: list[EvaluationTime] = field(default_factory=list)
    memory: dict[str, Cited] = field(default_factory=dict)
    _status: dict[tuple[int, int | None], WatchdogStatus] = field(default_factory=dict)  # by rank and the failed work
    _lost_step: int = UNNUMBERED
    _evaluating: bool = False  # a line since the last step line says so
    _world_size: WorldSize = field(default_factory=WorldSize)
    _xla_took: tuple[int, float] = (-XLA_LINES, 0.0)  # line and seconds
    overflows: Overflows = field(default_factory=Overflows)
    _config: PrintedConfig = field(default_factory=PrintedConfig)
    errors: ReportedErrors = field(init=False)
    reports: CollectiveReports = field(init=False)
    summary: MemorySummary = field(init=False)
    peaks: PeakMemories = field(init=False)
    recompiled: Recompilations = field(init=False)

    def __post_init__(self) -> None:
        self.errors = ReportedErrors(self.file)
        self.reports = CollectiveReports(self.file)
        self.summary = MemorySummary(self.file)
        self.peaks = PeakMemories(self.file)
        self.recompiled = Recompilations(self.file)

    def take(self, line: int, text: str, at_s: float | None = None, rank: int | None = None) -> None:
        """Read a line that may hold one of them, written at ``at_s`` of the log's clock by this rank of the job."""
        if self._of_watchdog(line, text, rank) or COMMENTED.match(text):
            return
        size = self._world_size.take(line, text)
        stated = [*_stated(text), *_loader_workers(text), *self._config.take(text)]
        if stated := [*stated, *([("world_size", size)] if size else [])]:
            for name, value in stated:
                if WHOLE_RUNTIME.search(text):
                    self.settings.pop(name, None)
                self.settings.setdefault(name, Cited(value, line, self.file))
        elif self.reports.take(line, text) or (" | " in text and self.summary.take(line, text)):
            return
        elif not self.errors.take(line, text, at_s) and not self._warned(line, text):
            self.note(line, text)

    def behind(self, line: int, text: str, rank: int | None = None) -> None:
        """Read what another writer put behind a progress bar, which ends no line: a time-out or a warning."""
        self._evaluating = False
        if not self._of_watchdog(line, text, rank):
            self._warned(line, text)

    def _of_watchdog(self, line: int, text: str, rank: int | None) -> bool:
        if "atchdog" in text and (found := TIMEOUT.search(text)):
            self._timed_out(line, text, found, rank)
        elif "ast enqueued" in text and (found := STATUS.search(text)):
            self._reported_status(line, text, found, rank)
        else:
            return False
        return True

    def note(self, line: int, text: str) -> None:
        """Keep what the line says of saving, evaluating or the peak of memory, as a step line may do as well."""
        self.peaks.take(line, text)
        if (seconds := evaluation_s(text)) is not None and len(self.evaluated) < MOST_NOTES:
            self.evaluated.append(EvaluationTime(str(seconds), line, self.file))
        if not any(mark in text for mark in MARKS):
            return
        if (found := side_work(text)) is not None:
            self.noted(found.kind, StepNote(found.words, line, self.file, found.step))
        elif not self._evaluating and evaluates(text):
            self._evaluating = True  # until the next step line: an evaluation prints many
            self.noted("evaluation", StepNote("", line, self.file))

    def noted(self, kind: str, note: StepNote) -> None:
        """Keep what a line says of an evaluation or a save."""
        if len(self.notes[kind]) < MOST_NOTES:
            self.notes[kind].append(note)

    def stepped(self, line: int, text: str, step: int) -> None:
        """A step line, whose loss or gradient norm may be no finite number; a step that ranks in a row print is one."""
        self._evaluating = False
        if NOT_FINITE.search(text):
            if step != self._lost_step or step == UNNUMBERED:
                self._count("not_finite_loss", line, 1.0)
            self._lost_step = step
        elif (lost := self.warnings.get("not_finite_loss")) is not None and lost.to_the_end:
            self.warnings["not_finite_loss"] = replace(lost, to_the_end=False)

    def _timed_out(self, line: int, text: str, found: re.Match[str], marked: int | None) -> None:
        rank, sequence = _whole_rank(text[: found.start()], marked, found[1]), int(found[2])
        if len(self.timeouts) < MOST_TIMEOUTS:
            ran = int(found[5]) if found[5] else None
            each = CollectiveTimeout(
                rank, sequence, found[3], int(found[4]), line, self.file, ran, _written(text[: found.start()])
            )
            self.timeouts.setdefault((rank, sequence, found[3]), each)

    def _reported_status(self, line: int, text: str, found: re.Match[str], marked: int | None) -> None:
        if len(self._status) < MOST_TIMEOUTS:
            rank = _whole_rank(text[: found.start()], marked, found[3])
            work = AT_WORK.search(found["said"])
            at = int(work[1]) if work else None
            group, enqueued, completed = found[2] or found[1], int(found["enqueued"]), int(found["completed"])
            status = WatchdogStatus(rank, group, at, enqueued, completed, line, self.file)
            self._status.setdefault((rank, at), status)

    def _warned(self, line: int, text: str) -> bool:
        """Whether the line is a warning."""
        for mark, kind, search in WARNINGS_BY_MARK:
            if mark in text and (found := search(text)):
                if kind == "out_of_memory" and not self.memory:
                    self.memory = exhausted(text, line, self.file)
                if kind == "fp16_overflow":
                    self.overflows.take(line, text)
                self._count(kind, line, self._amount(kind, line, found))
                return True
        if "operation took" in text and (took := XLA_TOOK.search(text)):
            hours, minutes, seconds = (float(each or 0) for each in took.groups())
            self._xla_took = line, 3600 * hours + 60 * minutes + seconds
        return False

    def _amount(self, kind: WarningKind, line: int, found: re.Match[str]) -> float:
        """What is summed over the warnings of a kind: flushes, seconds where they state them (0), else lines."""
        if kind == "allocator_flush":
            return number(found[1]) or 0.0
        if kind == "unnamed_timeout":
            return float(found[1] or 0) / 1e3
        if kind == "slow_compile":
            at, seconds = self._xla_took
            return seconds if line - at <= XLA_LINES else 0.0
        return 1.0

    def _count(self, kind: WarningKind, line: int, amount: float) -> None:
        known = self.warnings.get(kind) or LogWarning(kind, 0, line, line, self.file)
        self.warnings[kind] = replace(known, count=known.count + 1, last_line=line, amount=known.amount + amount)

    def timed_out(self) -> tuple[CollectiveTimeout, ...]:
        """Every reported time-out with the last works of its rank, in the order of the log."""
        found: list[CollectiveTimeout] = []
        for each in sorted(self.timeouts.values(), key=lambda each: each.line):
            own = self._status.get((each.rank, each.sequence)) or self._status.get((each.rank, None))
            found.append(
                each
                if own is None
                else replace(each, group=own.group, last_enqueued=own.enqueued, last_completed=own.completed)
            )
        return tuple(found)

    def statuses(self) -> tuple[WatchdogStatus, ...]:
        """What ranks without a reported time-out enqueued and completed last, in the order of the log."""
        named = {each.rank for each in self.timeouts.values()}
        return tuple(each for each in self._status.values() if each.rank not in named)


def _whole_rank(before: str, marked: int | None, stated: str) -> int:
    """The rank of the whole job where the line's head or its mark names it, else the one that the message names."""
    heads = WHOLE_RANK.findall(before)
    if heads:
        return int(heads[-1])
    return int(stated) if marked is None else marked


def _written(before: str) -> tuple[int, int, int] | None:
    """Month, day and second of the day in the head of a line of PyTorch; it holds no year and no time zone."""
    heads = WRITTEN.findall(before)
    if not heads:
        return None
    month, day, hours, minutes, seconds = map(int, heads[-1])
    return month, day, 3600 * hours + 60 * minutes + seconds


def _stated(text: str) -> list[tuple[str, str]]:
    """The arguments and figures of the whole job that a line states, by name."""
    if " ...." in text and (found := ARGUMENT.match(text)):
        return [(found[1], found[2].strip())] if found[1] in ARGUMENTS else []
    if "time total" in text and (found := TOTALS.search(text)):
        where = "cpu" if found[1] == "CPU" else "device"
        return [(f"self_{where}_time_total", str(in_ms(found[2], found[3]) or 0.0))]
    if "train_runtime" in text:
        if whole := WHOLE_RUNTIME.search(text):
            days, hours, minutes = (int(each or 0) for each in whole.groups()[:3])
            return [("train_runtime", str(round(86_400 * days + 3600 * hours + 60 * minutes + float(whole[4]), 6)))]
        return SUMMARY.findall(text)
    if "world size" in text and (found := WORLD.search(text)):
        return list(zip(WORLD_NAMES, found.groups(), strict=True))
    if "epochs" in text and (found := EPOCHS.search(text)):
        return [("epochs", found[1])]
    if "micro" in text and (found := MICRO_BATCHES.search(text)):
        return [("num_micro_batches", found[1] or found[2])]
    if "ccumulation" in text and not text.lstrip().startswith(COMMENTS) and (found := ACCUMULATION.search(text)):
        return [("gradient_accumulation_steps", found[1])]
    return []


def _loader_workers(text: str) -> list[tuple[str, str]]:
    """The number of processes that load data for one rank, by the arguments of the program."""
    found = LOADER_WORKERS.search(text) if "workers=" in text else None
    return [("loader_workers", found[1] or found[2])] if found else []
