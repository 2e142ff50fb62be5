"""The steps of a run as one series, without those that a profiler touched, and which source states them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from tools.run.kinds import TENSORBOARD_FORMAT, TRAINER_FORMAT, WANDB_FORMAT
from tools.run.model import ASCEND_FORMAT, JOB_LOG_FORMAT, MONITOR_FORMAT, OPERATIONS_FORMAT, STEP_LOG_FORMAT, Run
from tools.views.steps.levels import Level

SeriesOrigin = Literal["monitor", "step_log", "job_log", "ascend", "operations"]
FORMATS: dict[SeriesOrigin, str] = {
    **{"monitor": MONITOR_FORMAT, "step_log": STEP_LOG_FORMAT, "job_log": JOB_LOG_FORMAT},
    "ascend": ASCEND_FORMAT,
    "operations": OPERATIONS_FORMAT,
}


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


def longest_range(series: RunSeries) -> range:
    """The steps of the longest row of the slowest rank."""
    own = series.of(series.slowest_rank)
    row = own.iloc[int(own["wall_ms"].to_numpy().argmax())]
    last, span = int(row["step"]), int(row["span"]) if series.spans else 1
    return range(last - span + 1, last + 1)


def longest_steps(series: RunSeries) -> str:
    """The longest row of the slowest rank with its verb: ``step 7 takes``, ``steps 11 to 20 take on average``, ``the
    line of step 320 gives``."""
    steps = longest_range(series)
    if series.window:
        return f"the line of step {steps[-1]} gives"
    return f"step {steps[-1]} takes" if len(steps) == 1 else f"steps {steps[0]} to {steps[-1]} take on average"


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
