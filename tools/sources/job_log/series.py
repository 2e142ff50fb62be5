"""The steps of one stream of output as a series: restarts and repeated lines apart, units decided, intervals known."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.recorded.counters import SampleClock
from tools.run.recorded.job_log import DIFFERENCES, MEANS, SINGLE, STEP_COLUMNS, Epochs, Restart, StepTime
from tools.sources.job_log.bar import Bar
from tools.sources.job_log.bar_rows import bar_rows
from tools.sources.job_log.grammars.given_pattern import GRAMMAR as GIVEN
from tools.sources.job_log.grammars.step_figures import METRIC_LOGGER, Average, StepLine
from tools.sources.job_log.meter_means import COLUMNS as METERS
from tools.sources.job_log.meter_means import meter_row, of_meters
from tools.sources.job_log.prefixes import LogClock, Stamp, after
from tools.sources.job_log.running_means import apart, first_windows
from tools.sources.job_log.starts import (
    AT_ENDS,
    LEAST_ROWS,
    MISSING,
    NS_PER_S,
    ends_of_epochs,
    first_of_epochs,
    longest_of,
    named_epochs,
    over_epochs,
    restarts_of,
    starts_of,
)
from tools.sources.job_log.stated_times import held_against

MOST_ROWS = 1 << 20
SAME_STEP_LINES = 2  # from the line with the loss of a step to the one with its time
RUNNING_ROWS = 5  # rising from line to line: a clock that runs since the start, not the time of a step
RUNNING_GROWTH = 2.0
# A time without a unit, by the size of its median: nobody's step takes under 1 ms or over 10,000 s.
SECONDS_BELOW, MS_ABOVE = 1.0, 10_000.0
STAMP_STEPS = 20.0  # a difference of stamps is used where it is so many times their resolution
JOINED_STEPS = 10.0  # where neighbouring lines are too close, those so many times the resolution apart are used

LEFT_OUT = 1.5  # times the usual distance of two lines: further apart, lines between them are missing
FIGURES = (
    "samples",
    "loss_scale",
    "skipped",
    "tokens_per_s",
    "tflops",
    "mfu_pct",
    "samples_per_s",
    "data_wait_ms",
    "skipped_so_far",
)
COMPLETING = ("samples_per_s", "skipped_so_far")  # DeepSpeed states them in two lines of a step
LEAST_RATES = 4  # lines
TOKENS, TOKENS_UNIT = "tokens_per_s", "tokens/s"
SAMPLES, SAMPLES_UNIT = "samples_per_s", "samples/s"
RISING = (
    "the times of the pattern rise from line to line; where they count since the start, name its group clock_s or "
    "clock_ms"
)
FIRST_OF_EPOCHS = "one step of several is printed, and the first of each epoch: those are left out as starts of epochs"
DERIVED = "the time of a step is what the lines state that a step holds over what they state per second"


@dataclass(frozen=True, eq=False)
class Series:
    """``table`` of ``STEP_COLUMNS`` without rank and file, how its times came about, and notes about what was done."""

    table: pd.DataFrame
    step_time: StepTime
    grammar: str
    notes: tuple[str, ...] = ()
    clock: SampleClock = "none"
    restarts: tuple[Restart, ...] = ()
    epochs: Epochs | None = None
    total: int = 0  # of a progress bar
    rounding: float = 0.0  # share of a row's time that the whole seconds of a progress bar do not show
    training: int = 0
    validated: bool = False
    unnamed: bool = False  # nothing shows that the bar counts training steps
    begins: int = 0  # places at which the number of the step begins again, not as after a checkpoint
    derived: bool = False  # a time follows from what a step holds and what is done per second
    apart: tuple[Series, ...] = ()  # of lines of other forms, all before or all behind these


@dataclass
class StepRows:
    """The lines of one grammar in one stream, in the order of the log."""

    grammar: str
    tracked: bool = False  # records of a run tracker, and no lines
    of: StepTime = "step"  # what a time is of, by the last line
    of_all: bool = False  # a time is of all steps since the line before
    average: Average = ""
    rounding_ms: float = 0.0
    dropped: int = 0
    ambiguous: int = 0  # lines that state several times
    zoned: bool = True  # every time that was taken states its zone
    unit: str = ""  # what ``samples_per_s`` counts, by the first line that states it
    in_samples: bool = False  # steps are counted in samples, a batch of them at the first line
    window: int = 0  # steps of which a mean is at most, where the output states it
    training: int = 0  # of several below each other in one text, where headers tell them apart
    validated: bool = False  # times hold a validation
    derived: bool = False  # a time was derived from what a step holds and what is done per second
    _columns: dict[str, array[float]] = field(default_factory=dict)
    _stamps: list[Stamp | None] = field(default_factory=list)
    _meters: array[float] = field(default_factory=lambda: array("d"))
    _clock: LogClock = field(default_factory=LogClock)
    _resolution_s: float = 0.0  # of the coarsest stamp

    def __post_init__(self) -> None:
        names = ("step", "line", "epoch", "of_epoch", "wall_ms", "bare", "running", *FIGURES, "written_ns", "at_s")
        self._columns = {name: array("d") for name in names}

    def __len__(self) -> int:
        return len(self._stamps)

    @property
    def last_step(self) -> int:
        """The step of the last line; 0 where there is none."""
        return int(self._columns["step"][-1]) if len(self) else 0

    def add(self, line: StepLine, number: int, stamp: Stamp | None) -> None:
        """Append a line; beyond ``MOST_ROWS`` only their number is kept."""
        if len(self) >= MOST_ROWS:
            self.dropped += 1
            return
        own = (line.step, number, line.epoch, line.of_epoch, line.wall_ms, line.bare_time, line.running)
        rates = (line.tokens_per_s, line.tflops, line.mfu_pct, line.samples_per_s)
        figures = (line.samples, line.loss_scale, line.skipped, *rates, line.data_wait_ms, line.skipped_so_far)
        values = (*own, *figures, *self._when(stamp))
        timed = line.wall_ms is not None or line.bare_time is not None
        if self._completes(line, number, timed):
            for (name, column), value in zip(self._columns.items(), values, strict=True):
                column[-1] = value if value is not None and (name == "line" or math.isnan(column[-1])) else column[-1]
            self._stamps[-1] = None if timed else self._stamps[-1]
            return
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(MISSING if value is None else value)
        self._stamps.append(stamp if line.wall_ms is None or line.average else None)  # of which differences are used
        self.of = line.of
        self.ambiguous += line.ambiguous
        self.of_all |= line.of_all
        self.average, self.rounding_ms = line.average, max(self.rounding_ms, line.rounding_ms)
        if line.meters is not None:
            self._meters.extend(meter_row(line.meters))
        self.in_samples |= line.in_samples
        self.validated |= line.validated
        self.derived |= line.derived
        self.unit = self.unit or line.unit

    def _completes(self, line: StepLine, number: int, timed: bool) -> bool:
        """Whether the line states the time, or how many steps were skipped or samples done per second, of the step
        whose other figures stand in a line right before it."""
        if not len(self) or line.meters is not None:
            return False
        last = {name: column[-1] for name, column in self._columns.items()}
        if last["step"] != line.step or number - last["line"] > SAME_STEP_LINES:
            return False
        if timed:
            return math.isnan(last["wall_ms"]) and math.isnan(last["bare"])
        own = {name: getattr(line, name) for name in COMPLETING if getattr(line, name) is not None}
        return bool(own) and all(math.isnan(last[name]) for name in own)

    def _when(self, stamp: Stamp | None) -> tuple[float | None, float | None]:
        """When the line was written: ns since 1970, None without a date, and seconds of the log's clock."""
        if stamp is None:
            return None, None
        self._resolution_s = max(self._resolution_s, stamp.resolution_s)
        at_s = self._clock.seconds(stamp)
        if not stamp.dated:
            return None, at_s
        self.zoned &= stamp.zoned
        return round(stamp.seconds * NS_PER_S), at_s

    def series(self, least: int = LEAST_ROWS) -> Series | None:
        """The series of its longest start; None where it holds fewer times than ``least``."""
        table = self._table()
        notes = [f"{self.dropped} further step lines were not read"] if self.dropped else []
        notes += [DERIVED] if self.derived else []
        start, stamps = self._longest_start(table, notes)
        epochs = named_epochs(start)
        found = self._times(start, stamps, notes, least)
        if found is None and (rows := _far_apart(stamps)):
            start, stamps = start.iloc[rows].reset_index(drop=True), [stamps[row] for row in rows]
            found = self._times(start, stamps, notes, least, JOINED_STEPS)
        if found is None:
            return None
        times, kind = found
        if kind in DIFFERENCES:
            times = np.where(start["guessed"].to_numpy(), MISSING, times)  # over steps that are not counted
        start = start.assign(wall_ms=times, span=_spans(start["step"].to_numpy(), means=self.of in MEANS))
        per_step = start["wall_ms"] / (start["span"] if kind == "stamps" or self.of_all else 1.0)
        start = _skipped_between(start.assign(wall_ms=per_step))
        if set(METERS) <= set(start.columns) and kind == "step":
            start, kind = of_meters(start, start[list(METERS)], self.rounding_ms)
        elif self.average:
            start, kind = apart(start, stamps, self.average, self.rounding_ms, self.window)
        elif self.grammar == METRIC_LOGGER and kind == "window":
            start = first_windows(start)
        elif kind in SINGLE and (alone := first_of_epochs(start)).any():
            start = start[~alone]
            notes.append(FIRST_OF_EPOCHS)
        start = start[start["wall_ms"] > 0]
        if not self.tracked:  # a tracker's clock is that of its writer, and its times have names
            start, kind, changed = held_against(start, self._resolution_s, kind)
            notes += [changed] if changed else []
        if len(start) < least:
            return None
        known = bool(start["written_ns"].notna().any())
        clock: SampleClock = ("unix" if self.zoned else "local") if known else "none"
        restarts = restarts_of(table)
        begins = len(starts_of(over_epochs(table)[0], table["line"].to_numpy())[0]) - 1 - len(restarts)
        return Series(
            _typed(start),
            kind,
            self.grammar,
            tuple(notes),
            clock,
            restarts,
            epochs,
            training=self.training,
            validated=self.validated,
            begins=0 if self.tracked else begins,
            derived=self.derived,
        )

    def _times(
        self,
        start: pd.DataFrame,
        stamps: list[Stamp | None],
        notes: list[str],
        least: int,
        exact: float = STAMP_STEPS,
    ) -> tuple[NDArray[np.float64], StepTime] | None:
        """The times of the lines in ms, and what they are of; None where nothing states them."""
        if (passed := _differences(start, notes, least)) is not None:
            return passed, "block"
        if self.of == "unstated" and ends_of_epochs(start):
            notes.append(AT_ENDS)
        elif (times := _own_times(start, notes, least, self.grammar)) is not None:
            return times, self.of
        stamped = _stamp_times(stamps, least, exact)
        return None if stamped is None else (stamped, "stamps")

    def rates(self) -> tuple[pd.DataFrame, str, int] | None:
        """The throughput by step of the longest start (``RATE_COLUMNS`` without rank and file), its unit, and how many
        starts there are; None where fewer than ``LEAST_RATES`` lines state one."""
        whole = self._table()
        start, _ = self._longest_start(whole, [])
        starts = len(starts_of(over_epochs(whole)[0], whole["line"].to_numpy())[0])
        kinds = ((SAMPLES, self.unit or SAMPLES_UNIT), (TOKENS, TOKENS_UNIT))
        found = [(start[start[name] > 0], name, unit) for name, unit in kinds]
        own, name, unit = max(found, key=lambda each: len(each[0]))
        if len(own) < LEAST_RATES:
            return None
        spans = _spans(own["step"].to_numpy(), means=False)
        return pd.DataFrame({"step": own["step"], "span": spans, "line": own["line"], "per_s": own[name]}), unit, starts

    def _table(self) -> pd.DataFrame:
        table = pd.DataFrame({name: np.frombuffer(values) for name, values in self._columns.items()})
        if len(self._meters) == len(table) * len(METERS) > 0:
            table[list(METERS)] = np.frombuffer(self._meters).reshape(-1, len(METERS))
        if self.in_samples and len(table):
            # Every n batches and at the first one: batches n k + 1, of which neighbours have no common divisor.
            batch = max(math.gcd(*table["step"].astype(np.int64)), 1)
            table["step"], table["of_epoch"] = table["step"] / batch, np.ceil(table["of_epoch"] / batch)
        return table

    def _longest_start(self, table: pd.DataFrame, notes: list[str]) -> tuple[pd.DataFrame, list[Stamp | None]]:
        """The rows of the start with the most steps, which rise, and their stamps."""
        steps, guessed = over_epochs(table)
        starts, repeated = starts_of(steps, table["line"].to_numpy())
        if repeated:
            notes.append(
                f"{repeated} step lines repeat a step, of another process or with other figures; the first is used"
            )
        if len(starts) > 1:
            lines = [int(table["line"].iloc[rows[0]]) for rows in starts]
            places = "1 place" if len(starts) == 2 else f"{len(starts) - 1} places"
            notes.append(f"the step number falls at {places}: the longest of these starts is used")
            best = longest_of(starts, steps)
            notes[-1] += f", from line {lines[best]}"
            rows = starts[best]
        else:
            rows = starts[0] if starts else []
        chosen = table.assign(step=steps, counted=table["step"], guessed=guessed).iloc[rows].reset_index(drop=True)
        return chosen, [self._stamps[row] for row in rows]


def _skipped_between(table: pd.DataFrame) -> pd.DataFrame:
    """Lines that state how many steps were skipped so far, with those since the line before; at the start of a job
    since its first step, else not known of the first line."""
    so_far = table["skipped_so_far"]
    if so_far.isna().all():
        return table
    between = so_far.diff()
    if table["step"].iloc[0] <= table["span"].iloc[0]:
        between.iloc[0] = so_far.iloc[0]
    return table.assign(skipped=between.where(between >= 0))


def _spans(steps: NDArray[np.float64], means: bool) -> NDArray[np.int64]:
    """The steps that each row stands for: those since the row before it, at the start as many as usual."""
    between = np.diff(steps)
    usual = float(np.median(between)) if len(between) else 1.0
    first = min(usual, max(steps[0], 1.0)) if means and len(steps) else usual
    if means:  # over the usual number of steps also where lines between two of them are left out
        between = np.where(between > LEFT_OUT * usual, usual, between)
    spans: NDArray[np.int64] = np.maximum(np.append(first, between), 1.0).astype(np.int64)
    return spans


def _differences(table: pd.DataFrame, notes: list[str], least: int) -> NDArray[np.float64] | None:
    """The time of a step in ms by lines that state the time since the start; None where they state another one."""
    walls = table["wall_ms"].to_numpy()
    stated = np.isfinite(walls)
    if not stated.any():
        walls = 1e3 * table["bare"].to_numpy()  # a clock without a unit counts seconds
        stated = np.isfinite(walls)
    clock = stated.sum() >= least and (table["running"].to_numpy()[stated] > 0).all() and _runs(walls[stated])
    if not clock:
        return None
    notes.append("the lines state the time since the start: differences are used")
    passed = np.diff(walls, prepend=MISSING)
    return passed / np.maximum(np.diff(table["step"].to_numpy(), prepend=MISSING), 1.0)


def _own_times(table: pd.DataFrame, notes: list[str], least: int, grammar: str) -> NDArray[np.float64] | None:
    """The time of a step in ms as the lines state it; None where they do not."""
    walls = table["wall_ms"].to_numpy()
    if np.isfinite(walls).sum() >= least:
        notes += [RISING] if grammar == GIVEN and _runs(walls[np.isfinite(walls)]) else []
        return walls
    bare = table["bare"].to_numpy()
    known = bare[np.isfinite(bare)]
    if len(known) < LEAST_ROWS or _runs(known):
        return None  # of one alone the size does not tell the unit
    usual = float(np.median(known))
    if SECONDS_BELOW <= usual <= MS_ABOVE:
        notes.append("the step times have no unit, and their size does not tell seconds from milliseconds: left out")
        return None
    unit, factor = ("seconds", 1e3) if usual < SECONDS_BELOW else ("milliseconds", 1.0)
    notes.append(f"the step times have no unit; by their size they are {unit}")
    return bare * factor


def _runs(values: NDArray[np.float64]) -> bool:
    return (
        len(values) >= RUNNING_ROWS and bool((np.diff(values) > 0).all()) and values[-1] >= RUNNING_GROWTH * values[0]
    )


def _stamp_times(stamps: list[Stamp | None], least: int, exact: float) -> NDArray[np.float64] | None:
    """Time between the stamps of neighbouring lines in ms; None where they are too coarse, or of several kinds."""
    known = _of_one_kind(stamps)
    if len(known) <= least:
        return None
    passed = np.array([after(later, earlier) for earlier, later in pairwise(known)])
    if (passed < 0).any() or float(np.median(passed)) < exact * max(stamp.resolution_s for stamp in known):
        return None
    return np.append(MISSING, 1e3 * passed)


def _of_one_kind(stamps: list[Stamp | None]) -> list[Stamp]:
    """All stamps; none where a line lacks one, or they are of several kinds."""
    known = [stamp for stamp in stamps if stamp is not None]
    return known if len(known) == len(stamps) and len({stamp.kind for stamp in known}) == 1 else []


def _far_apart(stamps: list[Stamp | None]) -> list[int]:
    """Rows whose stamps are so far apart that their resolution is ``1 / JOINED_STEPS`` of it or less."""
    known = _of_one_kind(stamps)
    rows = [0]
    least_s = JOINED_STEPS * max((stamp.resolution_s for stamp in known), default=0.0)
    for row in range(1, len(known)):
        if after(known[row], known[rows[-1]]) >= least_s:
            rows.append(row)
    return rows if len(rows) >= LEAST_ROWS else []


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    columns = [name for name in STEP_COLUMNS if name not in ("rank", "file")]
    return table[columns].astype({name: STEP_COLUMNS[name] for name in columns}).reset_index(drop=True)


def series_of_bar(bar: Bar, least: int = LEAST_ROWS) -> Series | None:
    """The steps that a progress bar counts; None where it shows too few updates."""
    rows, kind = bar_rows(bar)
    if len(rows) < least:
        return None
    table = pd.DataFrame(rows).assign(**dict.fromkeys((*FIGURES, "written_ns"), MISSING))
    rounding = float(table["rounding"].median())
    return Series(_typed(table), kind, "progress bar", bar.notes, total=bar.of_job, rounding=rounding)
