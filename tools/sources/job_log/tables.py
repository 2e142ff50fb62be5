"""Tables in a job's output: nccl-tests, Lightning's profiler, Megatron's timers over ranks, CSV."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from tools.sources.job_log.grammars.generic_lines import of_mapping, times_steps
from tools.sources.job_log.grammars.step_figures import StepLine
from tools.sources.job_log.numbers import NUMBER, in_ms, number

MOST_ROWS = 10_000
MOST_TIMERS = 1 << 20  # of one stream
TIMER_HEAD = re.compile(r"(\(min, max\)|max|min|) ?times? across ranks \((ms|s)\)\s*:")
TIMER_PAIR = re.compile(rf"\s*([\w /.-]+?) ?\.*: \(({NUMBER}), ({NUMBER})\)\s*\Z")
TIMER_ONE = re.compile(rf"\s*([\w /-]+?) ?\.*: ({NUMBER})\s*\Z")
TIMER_NAME = re.compile(r"\s*([\w /-]+?) ?\.*:\s*\Z")
TIMER_RANK = re.compile(rf"\s*rank\s+(\d+)\s*: ({NUMBER})\s*\Z")
FLAT_TIMERS = re.compile(r"time \(ms\) ?\|(.*)")
SHORT = {  # of newer versions of DeepSpeed
    **{"fwd": "forward", "bwd": "backward"},
    **{"fwd_microstep": "forward_microstep", "bwd_microstep": "backward_microstep"},
}
EXPERTS = re.compile(rf" fwd: {NUMBER} \((fwd_moe: [^)]{{1,200}})\)")
EXPERT_TIMER = re.compile(rf"(\w{{1,20}}): ({NUMBER})(?=,|\Z)")
FLAT_TIMER = re.compile(rf"([A-Za-z][\w /.-]*?)\s*:\s*({NUMBER})\s*(?:\(.*\))?\s*\Z")


@dataclass(frozen=True, slots=True)
class Timer:
    """A part of a step: least and most over ranks in ms."""

    name: str
    min_ms: float
    max_ms: float
    line: int


@dataclass
class TimerRows:
    """The timers of one stream in columns: a log of gigabytes holds a million of them."""

    names: dict[str, int] = field(default_factory=dict)
    step: array[int] = field(default_factory=lambda: array("q"))
    line: array[int] = field(default_factory=lambda: array("q"))
    name: array[int] = field(default_factory=lambda: array("l"))
    min_ms: array[float] = field(default_factory=lambda: array("d"))
    max_ms: array[float] = field(default_factory=lambda: array("d"))

    def add(self, step: int, timers: Sequence[Timer]) -> None:
        """Append timers of a step; beyond ``MOST_TIMERS`` they are left out."""
        for timer in timers[: MOST_TIMERS - len(self.step)]:
            self.step.append(step)
            self.line.append(timer.line)
            self.name.append(self.names.setdefault(timer.name, len(self.names)))
            self.min_ms.append(timer.min_ms)
            self.max_ms.append(timer.max_ms)

    def of_step(self, step: int) -> TimerRows:
        """All of them as timers of one step."""
        return replace(self, step=array("q", [step]) * len(self.step))

    def table(self) -> pd.DataFrame:
        """``TIMER_COLUMNS`` without rank and file."""
        columns: dict[str, object] = {"name": np.array(list(self.names), dtype=object)[np.frombuffer(self.name, "l")]}
        for name in ("step", "line", "min_ms", "max_ms"):
            columns[name] = np.array(getattr(self, name))
        return pd.DataFrame(columns)


def flat_timers(number_of_line: int, text: str) -> list[Timer]:
    """``time (ms) | forward-compute: 53.79 | ...`` of Megatron-LM and DeepSpeed; of a mixture of experts DeepSpeed
    prints ``time (ms) | fwd: 53.79 (fwd_moe: 30.12, 1st_a2a: 8.5, 2nd_a2a: 8.4, top_k: 2.1)`` before the same step's
    line with ``fwd`` in it (engine.py: print_forward_breakdown)."""
    found = FLAT_TIMERS.search(text)
    if found and (experts := EXPERTS.match(found[1])):
        times = ((name, number(value)) for name, value in EXPERT_TIMER.findall(experts[1]))
        return [Timer(name, ms, ms, number_of_line) for name, ms in times if ms is not None and ms >= 0]
    timers: list[Timer] = []
    for part in found[1].split("|") if found else ():
        if pair := FLAT_TIMER.match(part.strip()):
            value = number(pair[2])
            if value is not None and value >= 0:
                timers.append(Timer(SHORT.get(pair[1], pair[1]), value, value, number_of_line))
    return timers


VERL_TIMER = re.compile(rf" timing_s/(\w{{1,40}}):({NUMBER})")


def verl_timers(number_of_line: int, text: str) -> list[Timer]:
    """``timing_s/gen:20.1 - timing_s/update_actor:9.5`` of verl: parts of its step in seconds."""
    times = ((name, in_ms(value, "s")) for name, value in VERL_TIMER.findall(text) if name != "step")
    return [Timer(name, time_ms, time_ms, number_of_line) for name, time_ms in times if time_ms is not None]


CHAT_TIMER = re.compile(rf"(Gather latency|Generate time|Training time|Others)=({NUMBER})s? \(")


def chat_timers(number_of_line: int, text: str) -> list[Timer]:
    """``Generate time=2.78s (74.61%) |Training time=0.74s (19.84%) |Others=0.21 (5.55%)`` of DeepSpeed-Chat."""
    times = ((name.partition(" ")[0].lower(), in_ms(value, "s")) for name, value in CHAT_TIMER.findall(text))
    return [Timer(name, time_ms, time_ms, number_of_line) for name, time_ms in times if time_ms is not None]


@dataclass(frozen=True, slots=True)
class RankTimer:
    """A part of a step on one rank in ms."""

    name: str
    rank: int
    time_ms: float
    line: int


@dataclass
class TimerTable:
    """Rows of ``(min, max) time across ranks (ms):`` and of ``times across ranks (ms):`` with a line for each rank."""

    unit: str
    rows: list[Timer] = field(default_factory=list)
    ranks: list[RankTimer] = field(default_factory=list)
    _name: str = ""
    _line: int = 0
    _values: list[float] = field(default_factory=list)

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""
        if pair := TIMER_PAIR.match(text):
            self._add(pair[1], [in_ms(each, self.unit) or 0.0 for each in pair.group(2, 3)], number_of_line)
        elif (each := TIMER_RANK.match(text)) and self._name:
            self._values.append(in_ms(each[2], self.unit) or 0.0)
            if len(self.ranks) < MOST_ROWS:
                self.ranks.append(RankTimer(self._name.strip(), int(each[1]), self._values[-1], number_of_line))
        elif one := TIMER_ONE.match(text):
            self._add(one[1], [in_ms(one[2], self.unit) or 0.0], number_of_line)
        elif name := TIMER_NAME.match(text):
            self.close()
            self._name, self._line, self._values = name[1], number_of_line, []
        else:
            return False
        return len(self.rows) < MOST_ROWS

    def close(self) -> None:
        """End the list of ranks that is open."""
        if self._name and self._values:
            self._add(self._name, self._values, self._line)
        self._name = ""

    def _add(self, name: str, values: list[float], line: int) -> None:
        self.rows.append(Timer(name.strip(), min(values), max(values), line))


@dataclass(frozen=True, slots=True)
class Action:
    """A row of a profiler's table in the output: calls, times in ms and the share that it states (None: not stated)."""

    table: str
    action: str
    calls: float | None
    total_ms: float
    mean_ms: float | None
    line: int
    share_pct: float | None = None


COMMUNICATION = "DeepSpeed comms"
COMM_OPERATION = re.compile(rf"comm op: (\w{{1,40}}) \| time \(ms\): ({NUMBER}) \| msg size: ([^|]{{1,30}}?) \|")
MOST_OPERATIONS = 4096


@dataclass
class CommOperations:
    """DeepSpeed's comms logger, one line for each call: digested to calls and time by operation and message size."""

    found: dict[str, Action] = field(default_factory=dict)

    def take(self, number_of_line: int, text: str) -> None:
        """Read a line that names an operation."""
        each = COMM_OPERATION.search(text)
        time_ms = None if each is None else number(each[2])
        if each is None or time_ms is None or time_ms < 0:
            return
        name = f"{each[1]} {each[3].strip()}"
        if name not in self.found and len(self.found) >= MOST_OPERATIONS:
            return
        known = self.found.get(name) or Action(COMMUNICATION, name, 0.0, 0.0, None, number_of_line)
        calls, total_ms = (known.calls or 0.0) + 1.0, known.total_ms + time_ms
        self.found[name] = replace(known, calls=calls, total_ms=total_ms, mean_ms=total_ms / calls)


SUMMARY_OPERATION = re.compile(r"([a-z_]{3,40})(?: \| \[Caller Func: (\w{1,60})\])?\s*\Z")
SUMMARY_ROW = re.compile(
    rf"\s*({NUMBER}) ?([KMGTP]?B)\s+(\d{{1,12}})\s+({NUMBER})\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}\s*\Z"
)


@dataclass
class CommSummary:
    """Rows of DeepSpeed's ``log_summary()``: below each operation message size, count, total latency in ms and more.

    It counts from the start of the job on: of several tables the last holds all.
    """

    rows: list[Action] = field(default_factory=list)
    _operation: str = ""

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""
        if row := SUMMARY_ROW.match(text):
            calls, total_ms = number(row[3]), number(row[4])
            if self._operation and calls and total_ms is not None:
                name = f"{self._operation} {row[1]} {row[2]}"
                self.rows.append(Action(COMMUNICATION, name, calls, total_ms, total_ms / calls, number_of_line))
        elif operation := SUMMARY_OPERATION.match(text):
            self._operation = operation[1]
        elif text.strip():
            return False
        return len(self.rows) < MOST_ROWS


RULE = re.compile(r"\s*[-=+|\s]+\Z")
LONGEST_ACTION = 120


# Of a table of Lightning's profiler that is pasted without its title.
LIGHTNING_HEAD = re.compile(r"\s{0,9}\|?\s{0,9}Action\s{0,99}\|\s{0,99}Mean duration \(s\)\s{0,99}\|")


@dataclass
class LightningTable:
    """Rows of ``| Action | Mean duration (s) | Num calls | Total time (s) | ... |``; nested actions overlap."""

    rows: list[Action] = field(default_factory=list)
    _columns: tuple[str, ...] = ()
    _rules: int = 0

    def take(self, number_of_line: int, text: str) -> bool:
        """Read a row; False where the table has ended."""
        if RULE.match(text) or not text.strip():
            return True
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        if "Action" in cells[0]:
            self._columns = tuple(cell.lower() for cell in cells)
            return True
        if not self._columns or len(cells) != len(self._columns):
            return len(cells) > 1
        values = dict(zip(self._columns, cells, strict=True))
        total = number(next((values[name] for name in values if name.startswith("total")), ""))
        mean = number(next((values[name] for name in values if name.startswith("mean")), ""))
        calls = number(values.get("num calls", ""))
        if total is not None and cells[0] != "Total":
            mean_ms = None if mean is None else 1e3 * mean
            share = number(next((values[name] for name in values if name.startswith("percentage")), "").rstrip(" %"))
            name = cells[0][:LONGEST_ACTION]
            self.rows.append(Action("Lightning", name, calls, 1e3 * total, mean_ms, number_of_line, share))
        return len(self.rows) < MOST_ROWS


EPOCH_ACTION, BATCH_ACTION = "run_training_epoch", "run_training_batch"
LEAST_BATCHES = 2.0  # of an epoch


def lightning_epoch_ms(actions: Sequence[Action]) -> float | None:
    """The time of an epoch of several batches by Lightning's table; None where it states none."""
    found = {each.action.strip(): each for each in actions if each.table == "Lightning"}
    epoch, batch = found.get(EPOCH_ACTION), found.get(BATCH_ACTION)
    if epoch is None or batch is None or not epoch.mean_ms or not batch.mean_ms:
        return None
    return epoch.mean_ms if epoch.mean_ms >= LEAST_BATCHES * batch.mean_ms else None


FEWEST_COLUMNS, MOST_COLUMNS = 2, 1000
SEPARATORS = (",", ";", "\t")


@dataclass
class CsvTable:
    """Rows of separated values below a head that names a step and its time or a clock."""

    columns: tuple[str, ...]
    separator: str = ","

    def row(self, text: str) -> StepLine | None:
        """The figures of a row; None where the table has ended."""
        cells = _cells(text, self.separator)
        if len(cells) != len(self.columns):
            return None
        return of_mapping(dict(zip(self.columns, cells, strict=True)), "CSV")


def csv_table(text: str) -> CsvTable | None:
    """The table that a head line begins; None where it is no head of a table of timed steps."""
    if text[:1] not in '"_' and not text[:1].isalpha():
        return None
    separator = max(SEPARATORS, key=text.count)
    columns = _cells(text, separator)
    if not FEWEST_COLUMNS <= len(columns) <= MOST_COLUMNS or not times_steps(columns):
        return None
    return CsvTable(columns, separator) if all(name and not name[0].isdigit() for name in columns) else None


def _cells(text: str, separator: str) -> tuple[str, ...]:
    return tuple(cell.strip().strip('"') for cell in text.split(separator))
