"""The steps of a run from monitor records or step logs, without those that a profiler touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import InputError
from tools.run.kinds import TENSORBOARD_FORMAT, TRAINER_FORMAT, WANDB_FORMAT
from tools.run.model import ASCEND_FORMAT, JOB_LOG_FORMAT, MONITOR_FORMAT, OPERATIONS_FORMAT, STEP_LOG_FORMAT, Rank, Run
from tools.run.recorded.job_log import DIFFERENCES, MEANS, SINGLE, JobLog, StepTime
from tools.views.steps.levels import Level, level_at
from tools.views.steps.shape import LEAST_STEPS as LEVEL_STEPS
from tools.views.steps.shape import StepSeries

ALIKE = 0.1  # of a step: a script's own clock and the profiler's span of a step differ by less
COMPARED = 16  # steps of a trace; more are no surer


UNTRACED = int(np.iinfo(np.int64).min)  # no step of a trace has this number


def traced_in_log(run: Run, table: pd.DataFrame) -> NDArray[np.int64]:
    """For each row of the log (rank, wall_ms; in order) the step of a trace that it is, ``UNTRACED`` for the others.

    A profiler counts its own steps, so durations decide: the one place at which consecutive steps last equally long.
    """
    found = np.full(len(table), UNTRACED, dtype=np.int64)
    numbers = table["rank"].to_numpy()
    walls = table["wall_ms"].to_numpy(dtype=np.float64)
    for rank in run.profiled_ranks:
        rows = np.flatnonzero(numbers == rank.rank)
        place = _place(rank, walls[rows]) if rank.step_origin == "profiler_step" else None
        if place is not None:
            found[rows[place : place + len(rank.steps)]] = [step.number for step in rank.steps]
    return found


def _place(rank: Rank, walls_ms: NDArray[np.float64]) -> int | None:
    """The place at which the trace's steps begin in the rank's log; None where nowhere or several places fit."""
    traced = np.array([step.wall_ns / 1e6 for step in rank.steps])
    begins = len(walls_ms) - len(traced) + 1
    compared = traced[:COMPARED]
    if not len(compared) or begins < 1:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(walls_ms, len(compared))[:begins]
    off = np.abs(windows / np.maximum(compared, 1e-6) - 1.0).max(axis=1)
    fitting = np.flatnonzero(off <= ALIKE)
    if not len(fitting) or fitting[-1] - fitting[0] >= len(compared):
        return None
    return int(fitting[np.argmin(off[fitting])])


SeriesOrigin = Literal["monitor", "step_log", "job_log", "ascend", "operations"]
FORMATS: dict[SeriesOrigin, str] = {
    **{"monitor": MONITOR_FORMAT, "step_log": STEP_LOG_FORMAT, "job_log": JOB_LOG_FORMAT},
    "ascend": ASCEND_FORMAT,
    "operations": OPERATIONS_FORMAT,
}
LEAST_STEPS = 5  # fewer usual steps than this are no series
LEAST_LINES = 2  # of a job's output, which may print few lines of long steps
SETTLING_SHARE = 0.1  # of the steps, at most SETTLING_STEPS: caches fill, allocators grow, workers start
SETTLING_STEPS = 10
LONGEST_MS = 1e9  # a step of eleven days is a damaged record
NS_PER_MS = 1e6


@dataclass(frozen=True, eq=False)
class RunSeries:
    """Steps of the run. ``usual`` are those that no profiler touched, after the first ones; ``captured`` the profiled
    ones that were chosen of the traces. Where the run changed on its way both are of the ``level`` of the last traced
    step, and ``every`` holds the usual steps of all levels.

    Columns: rank, step, wall_ms and, from the monitor, begin_unix_ns, end_unix_ns, data_wait_ms, own_ms, waiting_ms,
    gc_ms, gc_longest_ms, thread_cpu_ms, switches, queue depths (see ``MonitorRecords.steps``), of a job's output those
    of ``JobLog.steps``.
    """

    usual: pd.DataFrame
    captured: pd.DataFrame
    origin: SeriesOrigin
    notes: tuple[str, ...] = ()  # what was left out or assumed, one sentence each
    level: Level = field(default_factory=Level)
    every: pd.DataFrame | None = None
    averaged: str = ""  # why a row is not the time of one step, as a sentence says it; "" where it is
    spans: bool = False  # a row is the mean over ``span`` steps, and counts for as many in a mean
    start: str = ""  # how many of the first lines of a job's output are left out, as a sentence says it
    window: bool = False  # it is the mean over some of the last steps, and over how many is not known

    @property
    def whole(self) -> RunSeries:
        """The same of the whole run, its changes included."""
        return self if self.every is None else replace(self, usual=self.every, level=Level(), every=None)

    @property
    def source(self) -> str:
        """The format of the sources behind it."""
        return FORMATS[self.origin]

    def unseen(self, count: int) -> str:
        """The reason why a job's output shows no single steps, or fewer than this; "" where it shows them."""
        if self.origin not in ("job_log", "ascend", "operations"):
            return ""
        if self.averaged:
            return f"not every single step is known: {self.averaged}"
        return "too few steps were printed" if len(self.slowest_ms) < count else ""

    @cached_property
    def slowest_rank(self) -> int:
        """The rank with the longest mean step, which throughput follows; per-step maxima would count a pause twice."""
        return int(str(self.usual.groupby("rank")["wall_ms"].mean().idxmax()))

    @property
    def slowest_ms(self) -> pd.Series[float]:
        """Wall time of the slowest rank by step number."""
        return self.of(self.slowest_rank).set_index("step")["wall_ms"]

    @property
    def mean_ms(self) -> float:
        """Mean step of the slowest rank."""
        return self.mean_of(self.slowest_rank)

    def mean_of(self, rank: int) -> float:
        """Mean step of a rank."""
        own = self.of(rank)
        return float(np.average(own["wall_ms"], weights=own["span"]) if self.spans else own["wall_ms"].mean())

    @property
    def median_ms(self) -> float:
        """Median step of the slowest rank."""
        return float(self.slowest_ms.median())

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks with recorded steps, ascending."""
        return tuple(sorted(self._by_rank))

    @cached_property
    def _by_rank(self) -> dict[int, pd.DataFrame]:
        return {int(table["rank"].iloc[0]): table.sort_values("step") for _, table in self.usual.groupby("rank")}

    def of(self, rank: int) -> pd.DataFrame:
        """The usual steps of one rank, in order; empty when none are recorded."""
        return self._by_rank.get(rank, self.usual.iloc[:0])

    def first_of(self, step: int) -> int:
        """The first of the steps that the row of this step stands for."""
        if not self.spans:
            return step
        own = self.of(self.slowest_rank)
        span = own.loc[own["step"] == step, "span"]
        return step if span.empty else step - int(span.iloc[0]) + 1

    def numbers(self, rank: int | None = None) -> tuple[int, ...]:
        """Numbers of the usual steps of one rank or of all."""
        chosen = self.usual if rank is None else self.of(rank)
        return tuple(int(step) for step in sorted(chosen["step"].unique()))


P95_STEPS = 20  # of fewer values a p95 lies between the two longest ones


def longest_steps(series: RunSeries) -> str:
    """The longest row of the slowest rank with its verb: ``step 7 takes``, ``each of steps 11 to 20 takes``, ``the line
    of step 320 gives``."""
    own = series.of(series.slowest_rank)
    row = own.iloc[int(own["wall_ms"].to_numpy().argmax())]
    last, span = int(row["step"]), int(row["span"]) if series.spans else 1
    if series.window:
        return f"the line of step {last} gives"
    return f"step {last} takes" if span == 1 else f"each of steps {last - span + 1} to {last} takes"


def series_of(run: Run) -> RunSeries | None:
    """From the monitor's records, else from step logs, else from the job's output, else None.

    None too when hardly a step was left alone.
    """
    for series in (_from_records(run), _from_log(run), _from_output(run), _from_tables(run), _from_operations(run)):
        if series is not None and not series.usual.empty and len(series.slowest_ms) >= least_rows(series):
            return _at_level(series)
    return None


def least_rows(series: RunSeries) -> int:
    """The fewest usual rows that make a series."""
    return {"job_log": LEAST_LINES, "ascend": 1, "operations": 1}.get(series.origin, LEAST_STEPS)


def require_steps(run: Run, paths: Sequence[Path]) -> None:
    """Raises InputError where neither a trace nor a series holds any steps."""
    names = ", ".join(map(str, paths))
    if run.ranks and not any(step.wall_ns for rank in run.ranks for step in rank.steps):
        raise InputError(f"{names}: holds no training run: no time passes in its steps")
    parts = (
        run.job_log,
        run.ascend,
        run.counters,
        run.operations,
        run.collectives,
        run.host_stacks,
        run.snapshots or None,
        run.environments or None,
    )
    other = any(each is not None for each in parts)
    if not run.ranks and not run.cut and not other and series_of(run) is None:
        few = f"holds no trace, and records of fewer than {LEAST_STEPS} steps after the first ones"
        raise InputError(f"{names}: {few}; let the training run on, or capture some steps")


def _at_level(series: RunSeries) -> RunSeries:
    """The steps of the level that the last traced step is of; all where every rank has too few of them."""
    if series.captured.empty:
        return series
    slowest = series.slowest_ms
    steps = StepSeries(slowest.index.to_numpy(dtype=np.int64), np.asarray(slowest, dtype=np.float64))
    level = level_at(steps, int(series.captured["step"].max()))
    usual = series.usual[level.holds(series.usual["step"].to_numpy(dtype=np.int64))]
    counts = usual.groupby("rank").size().reindex(list(series.ranks), fill_value=0)
    if level.whole or counts.min() < LEVEL_STEPS:
        return series
    captured = series.captured[level.holds(series.captured["step"].to_numpy(dtype=np.int64))]
    return replace(series, usual=usual, captured=captured, level=level, every=series.usual)


def _from_records(run: Run) -> RunSeries | None:
    if run.records is None or run.records.steps.empty:
        return None
    table, notes = _in_order(run.records.steps, ["attempt", "end_unix_ns"])
    begin = table["end_unix_ns"] - (table["wall_ms"] * NS_PER_MS).astype("int64")
    table = table.assign(begin_unix_ns=begin)
    traced = _traced(run, table)
    captured = table["captured"].to_numpy(dtype=bool) | (traced != UNTRACED)
    near = captured | _next_to(table["rank"], captured)
    # On every rank: where one is held up by its profiler the others wait for it.
    near = np.asarray(table["step"].isin(table["step"][near]), dtype=bool)
    usual = ~(near | table["first"].to_numpy(dtype=bool) | settling(table))
    profiled = _of_these_traces(table, captured, _chosen(run, table, traced))
    return RunSeries(table[usual], table[profiled], "monitor", notes)


def _from_log(run: Run) -> RunSeries | None:
    if run.step_log is None or run.step_log.empty:
        return None
    table, notes = _in_order(run.step_log, [])
    traced = traced_in_log(run, table)
    captured = traced != UNTRACED
    usual = ~(captured | _next_to(table["rank"], captured) | settling(table))
    return RunSeries(table[usual], table[_chosen(run, table, traced)], "step_log", notes)


OF_TRACKERS = {"W&B history": "the W&B history", "TensorBoard scalars": "the TensorBoard scalars"}  # by grammar


def stated_by(run: Run) -> str:
    """The source that states the steps of a job: its output, or the tracker whose records are read for it."""
    log = run.job_log
    if log is None or log.grammars or any(each.format == JOB_LOG_FORMAT for each in run.sources):
        grammars = () if log is None else log.grammars
        return next((OF_TRACKERS[each] for each in grammars if each in OF_TRACKERS), "the job's output")
    held = {each.format for each in run.sources}
    known = {WANDB_FORMAT: "the W&B file", TENSORBOARD_FORMAT: "the TensorBoard events"}
    known[TRAINER_FORMAT] = "trainer_state.json"
    return next((words for kind, words in known.items() if kind in held), "the job's output")


IN_WORDS: dict[StepTime, str] = {
    "step": "only one step of several is printed, and the mean of all may be another",
    "unstated": "a line stands for several steps, and does not state whether its time is their mean or that of one",
    "sum": "only one step of several is printed, as timers of its parts, and the mean of all may be another",
    "mean": "each line gives the mean over the steps since the one before it",
    "window": "each line gives a mean over some of the last steps, and does not state over how many",
    "epoch": "each line gives the mean over the steps of its epoch",
    "block": "the time since the line before is divided by the steps between, evaluations and saves there included",
    "unwound": "the lines give running means, from which the mean of the steps between two lines is computed",
    "bar": "the time between two updates of a progress bar is divided by the steps between",
    "smoothed": "a progress bar shows a smoothed rate",
    "running": "each line gives a running mean over more steps than those since the one before it",
    "stamps": "step times are differences of the time stamps or clocks of the lines, evaluations and saves between them"
    " included",
}
# The same of lines that count the steps of each epoch, of which none says how many there are.
WITHIN_EPOCHS: dict[StepTime, str] = {
    "block": "the time since the line before is divided by the steps between; what lies across the end of an epoch is"
    " left out",
    "stamps": "step times are differences of the time stamps or clocks of the lines; those across the end of an epoch"
    " are left out",
}
MISSING_LINES = "each line gives the mean over the {} steps up to it, and some steps are in none, such as {} to {}"
GAP = 1.5  # times the steps of a line: two lines further apart have had others between them
HIDDEN_SHARE = 0.05  # of the steps in lines of several: more, and the p95 of lines is not that of steps


def _averaged(log: JobLog) -> str:
    """Why a line is not the time of one step; "" where it is, but for too few lines to matter."""
    if log.step_time in ("smoothed", "running", "window"):
        return IN_WORDS[log.step_time]
    spans = log.steps["span"].to_numpy()
    if log.span == 1 and (log.step_time in SINGLE or spans[spans > 1].sum() <= HIDDEN_SHARE * spans.sum()):
        return ""
    counted = log.epochs is None or log.epochs.length_stated
    if log.step_time == "mean" and counted and (gap := _gap(log.steps)) is not None:
        return MISSING_LINES.format(log.span, *gap)
    return IN_WORDS[log.step_time] if counted else WITHIN_EPOCHS.get(log.step_time, IN_WORDS[log.step_time])


def _gap(steps: pd.DataFrame) -> tuple[int, int] | None:
    """The first and the last of the most steps in a row of a rank that no line is of; None where each is in one."""
    between = steps.groupby("rank")["step"].diff().to_numpy()
    wide = np.flatnonzero(between > GAP * steps["span"].to_numpy())
    if not len(wide):
        return None
    at = wide[np.argmax(between[wide])]
    after = int(steps["step"].iloc[at])
    return after - int(between[at]) + 1, after - int(steps["span"].iloc[at])


def _from_output(run: Run) -> RunSeries | None:
    """Step lines of the job's output, where no trace shows its steps."""
    log = run.job_log
    if log is None or log.steps.empty or run.ranks:
        return None
    table, notes = _in_order(log.steps, [])
    averaged = _averaged(log)
    if log.step_time in SINGLE and averaged:
        table, long = _without_long(table)
        notes = (*notes, *long)
    table = table.drop(columns="data_wait_ms") if table["data_wait_ms"].isna().all() else table
    walls = table["wall_ms"]
    if len(table) == LEAST_LINES and walls.max() >= LONG_START * walls.min():  # either may be the usual one
        return None
    started = _resumed(table) if _excerpt(log) else _of_start(table)
    start = ""
    if started.any():
        count = int(started.sum())
        rows = ROWS.get(log.step_time, "step lines")
        start = FIRST.format(len(table), rows) if count == 1 else START.format(count, len(table), rows)
        notes = (*notes, start)
    if log.epochs is not None and not log.epochs.length_stated:
        notes = (*notes, UNCOUNTED)
    return RunSeries(
        table[~started],
        table.iloc[:0],
        "job_log",
        notes,
        averaged=averaged,
        spans=log.step_time in (*MEANS, "stamps"),
        start=start,
        window=log.step_time == "window",
    )


# What a row is, where it is no line of a step.
ROWS: Mapping[StepTime, str] = {
    **dict.fromkeys(DIFFERENCES, "intervals between recorded steps"),
    "bar": "groups of updates of the progress bar",
    "smoothed": "updates of the progress bar",
}
FIRST = "the first of {} {} is left out as start-up"
START = "the first {} of {} {} are left out as start-up"
UNCOUNTED = (
    "steps are counted in each epoch, and no line states how many an epoch has: the numbers of steps after the first "
    "epoch are not exact"
)
# A job that begins or is resumed prints more lines than that before its steps; the first steps warm up.
EXCERPT_LINES, EXCERPT_STEP = 20, 10
MEAN_OF_MANY = 100  # steps: a mean over so many is none of the start


def _excerpt(log: JobLog) -> bool:
    """Whether the text begins in the middle of a job, so that none of its steps is of a start: its first step line is
    among the first lines and of a late step."""
    tracked = set(log.grammars) & {*OF_TRACKERS, "trainer_state.json"}
    first = log.steps.iloc[int(log.steps["line"].to_numpy().argmin())]
    if log.step_time == "bar" and first["span"] >= MEAN_OF_MANY:
        return True
    later_epoch = log.epochs is not None and log.epochs.first > 1
    if tracked:
        return False
    return late_excerpt(log.steps) or (later_epoch and bool(first["line"] <= EXCERPT_LINES))


def late_excerpt(table: pd.DataFrame) -> bool:
    """Whether the first line (columns line, step, span) is among the first ones of a text and of a late step."""
    first = table.iloc[int(table["line"].to_numpy().argmin())]
    return bool(first["line"] <= EXCERPT_LINES and first["step"] - first["span"] >= EXCERPT_STEP)


LONG_LINE = 50  # steps: a mean over so many holds the start of a job as one of its steps
LONG_START = 2.0  # times the median of the later lines: the start is all that such a mean shows


def _of_start(table: pd.DataFrame) -> NDArray[np.bool_]:
    """The lines of the start of each rank: the first tenth; of means over many steps the first one where it is long."""
    early, first = settling(table), (table.groupby("rank").cumcount() == 0).to_numpy()
    usual = table["wall_ms"].mask(first).groupby(table["rank"]).transform("median")
    many = (table["span"] >= LONG_LINE).to_numpy()
    long = (table["wall_ms"] >= LONG_START * usual).to_numpy()
    kept: NDArray[np.bool_] = early & (~many | (first & long))
    return kept


RESUMED = 5.0  # times the median of the others: so long a first line in the middle of a run is of a job that resumed
RESUMED_LINES = 10  # of a rank: of fewer the median is not sure


def _resumed(table: pd.DataFrame) -> NDArray[np.bool_]:
    """The first line of each rank where the text begins at a late step and this line is far longer than the others."""
    first = (table.groupby("rank").cumcount() == 0).to_numpy()
    others = table["wall_ms"].mask(first).groupby(table["rank"])
    enough = (others.transform("count") >= RESUMED_LINES).to_numpy()
    long = (table["wall_ms"] >= RESUMED * others.transform("median")).to_numpy()
    chosen: NDArray[np.bool_] = first & enough & long
    return chosen


LONG_OF_PRINTED = (
    3.0  # times the median: a step that was evaluated in or saved in, which is printed more often than run
)


def _without_long(table: pd.DataFrame) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The steps without long ones where one of several is printed: these are the steps at which programs also evaluate
    and save, so that their share of the printed steps is not that of all."""
    usual = table.groupby("rank")["wall_ms"].transform("median")
    long = (table["wall_ms"] > LONG_OF_PRINTED * usual).to_numpy()
    if not long.any():
        return table, ()
    count = int(long.sum())
    text = "1 printed step is" if count == 1 else f"{count} printed steps are"
    return table[~long], (
        f"only one step of several is printed, and {text} over {LONG_OF_PRINTED:g} times as long as the median, as "
        "where a program also evaluates or saves: left out, since how many steps are so long is not known",
    )


PROFILED = "an Ascend profiler touched every step, and wrote its own account of it"


def _from_tables(run: Run) -> RunSeries | None:
    """Steps of an Ascend profiler's tables where no trace shows them: from the device's first to its last work."""
    if run.ascend is None or run.ascend.steps.empty or run.ranks:
        return None
    steps = run.ascend.steps[["rank", "step", "stage_ms"]].rename(columns={"stage_ms": "wall_ms"})
    table, notes = _in_order(steps.assign(step=steps["step"].clip(lower=0)), [])
    return RunSeries(table, table.iloc[:0], "ascend", notes, averaged=PROFILED if len(table) else "")


SELECTED = "only some of the steps were recorded"


def _from_operations(run: Run) -> RunSeries | None:
    """Steps of a table of operations where no trace shows them: until the last operation of any rank has ended."""
    if run.operations is None or run.ranks:
        return None
    table, notes = _in_order(run.operations.steps, [])
    numbers = np.unique(table["step"].to_numpy(dtype=np.int64))
    gaps = len(numbers) and numbers[-1] - numbers[0] >= len(numbers)
    return RunSeries(table, table.iloc[:0], "operations", notes, averaged=SELECTED if gaps else "")


def _in_order(steps: pd.DataFrame, order: list[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Steps of each rank in order of time, with a believable duration; numbered from 0 where numbers restart."""
    sound = steps["wall_ms"].between(0.0, LONGEST_MS, inclusive="neither")
    dropped = int((~sound).sum())
    table = steps[sound].sort_values(["rank", *order], kind="stable", ignore_index=True)
    notes = [f"{dropped} recorded steps have no believable duration and were left out"] if dropped else []
    if (table.groupby("rank")["step"].diff() <= 0).any():
        table = table.assign(step=table.groupby("rank").cumcount())
        notes.append("step numbers restart within the run: its steps are counted from 0 in order of time")
    return table, tuple(notes)


def _traced(run: Run, table: pd.DataFrame) -> NDArray[np.int64]:
    """The traced step of its rank in whose time a step lies, else ``UNTRACED``: a script may profile by itself."""
    found = np.full(len(table), UNTRACED, dtype=np.int64)
    if run.origin_unix_ns is None:
        return found
    for rank in run.profiled_ranks:
        if not rank.steps:
            continue
        zero = run.origin_unix_ns - rank.clock.offset_ns
        starts = np.array([step.start_ns for step in rank.steps], dtype=np.int64) + zero
        ends = np.array([step.end_ns for step in rank.steps], dtype=np.int64) + zero
        middle = ((table["begin_unix_ns"] + table["end_unix_ns"]) // 2).to_numpy(dtype=np.int64)
        at = np.searchsorted(starts, middle, side="right") - 1
        inside = (at >= 0) & (middle < ends[np.maximum(at, 0)])
        inside &= (table["rank"] == rank.rank).to_numpy()
        numbers = np.array([step.number for step in rank.steps], dtype=np.int64)
        found[inside] = numbers[at[inside]]
    return found


def _chosen(run: Run, table: pd.DataFrame, traced: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The rows that are one of the traced steps that the run was narrowed to."""
    ranks, found = table["rank"].to_numpy(), np.zeros(len(table), dtype=bool)
    for rank in run.ranks:
        found |= (ranks == rank.rank) & np.isin(traced, [step.number for step in rank.steps])
    return found


def _of_these_traces(table: pd.DataFrame, captured: NDArray[np.bool_], traced: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Profiled steps in the time of the traces that were read, else all; never those in which a trace was written."""
    profiled = captured & ~table["written"].to_numpy(dtype=bool)
    of_these = np.asarray(profiled & traced, dtype=bool)
    return of_these if of_these.any() else profiled


def _next_to(ranks: pd.Series[int], captured: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The step before a profiled one, in which a profiler warms up, and the one after, in which it may still write."""
    same = ranks.to_numpy()[1:] == ranks.to_numpy()[:-1]
    near = np.append(captured[1:] & same, False) | np.append(False, captured[:-1] & same)
    return np.asarray(near, dtype=bool)


def settling(table: pd.DataFrame) -> NDArray[np.bool_]:
    """The first steps of each rank."""
    place = table.groupby("rank").cumcount()
    count = table.groupby("rank")["step"].transform("size")
    return np.asarray(place < np.minimum(np.ceil(count * SETTLING_SHARE), SETTLING_STEPS), dtype=bool)
