"""The time of a step by each source of a run that states one, the one that is used first, and where they disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tools.run.model import Run
from tools.run.recorded.job_log import OtherSteps

# A profiler makes steps longer, with Python frames and small operators two to three times; nothing makes them shorter
# but steps that are counted otherwise. What a script prints may hold a little more than a step: logging, the loader.
MOST_PROFILED, MOST_PRINTED = 3.0, 1.5
LEAST_STEPS = 2

# The same steps by two logs or trackers of one job: of more, one of them is of another run or counts otherwise.
MOST_APART_PCT = 10.0
LEAST_COMMON = 5  # steps that both state

StepSource = Literal["monitor", "step_log", "job_log", "tracker", "traces"]
# The better one first: measured around every step, by the training's own clock, as printed, slowed by a profiler.
REASONS: dict[StepSource, str] = {
    "monitor": "measured around every step, without a profiler",
    "step_log": "the training's own clock, for every step",
    "job_log": "as the job prints it, perhaps an average",
    "tracker": "the same steps by another log or tracker, of which the better one is used",
    "traces": "profiled steps, which take longer",
}


@dataclass(frozen=True)
class StepTime:
    """The median step of one source in ms, of how many values, and how it is named in a sentence."""

    source: StepSource
    name: str
    median_ms: float
    count: int

    @property
    def why(self) -> str:
        """What the figure is."""
        return REASONS[self.source]


def step_times(run: Run) -> tuple[StepTime, ...]:
    """The step times of all sources that state one, the better source first."""
    found = [
        _of("monitor", "the monitor", None if run.records is None else _unprofiled(run.records.steps)),
        _of("step_log", "the step log", None if run.step_log is None else run.step_log["wall_ms"]),
        _of("job_log", printed_by(run), None if run.job_log is None else run.job_log.steps["wall_ms"]),
        *(_of("tracker", each.name, each.steps["wall_ms"]) for each in others_of(run)),
        _of("traces", "the traces", pd.Series(_traced_ms(run), dtype="float64")),
    ]
    return tuple(each for each in found if each is not None)


def others_of(run: Run) -> tuple[OtherSteps, ...]:
    """The same steps by other logs and trackers of the job."""
    return () if run.job_log is None else run.job_log.other_steps


def other_disagreements(run: Run) -> Iterator[str]:
    """One sentence for each log or tracker that states other times for the same steps than the one that is used.

    Smoothed rates of progress bars are no step times, and are not held against these.
    """
    log = run.job_log
    if log is None or log.steps.empty or log.step_time == "smoothed":
        return
    for other in log.other_steps:
        same = log.steps["rank"].isin(set(other.steps["rank"])).to_numpy(dtype=bool)
        steps = log.steps[same] if same.any() else log.steps
        used = log.files[int(steps["file"].iloc[0])]
        both = None if other.step_time == "smoothed" else _common(steps, other.steps)
        if both is None:
            continue
        own_ms, other_ms = both
        apart_pct = 100.0 * (max(both) / min(both) - 1.0)
        if apart_pct > MOST_APART_PCT:
            yield (
                f"{used} states {own_ms:.4g} ms for steps that take {other_ms:.4g} ms by {other.name}, "
                f"{apart_pct:.0f} % apart (up to {MOST_APART_PCT:.0f} % is taken as the same): they count steps "
                "differently, one holds evaluations or saves too, or one is of another run; the first is used"
            )


def both_state(first: pd.DataFrame, second: pd.DataFrame) -> bool:
    """Whether two tables state the times of the same steps."""
    return _common(first, second) is not None


def _common(first: pd.DataFrame, second: pd.DataFrame) -> tuple[float, float] | None:
    """The usual time of the steps that both state: medians, or means where a row stands for several steps; None where
    they have too few in common."""
    known = [table[(table["wall_ms"] > 0).to_numpy(dtype=bool)] for table in (first, second)]
    if any(table.empty for table in known):
        return None
    begin, end = max(int(each["step"].min()) for each in known), min(int(each["step"].max()) for each in known)
    shared = [table[table["step"].between(begin, end).to_numpy(dtype=bool)] for table in known]
    if min(int(each["span"].sum()) for each in shared) < LEAST_COMMON or min(map(len, shared)) < LEAST_STEPS:
        return None
    if all(int(each["span"].max()) == 1 for each in shared):
        own, other = (float(each["wall_ms"].median()) for each in shared)
    else:
        own, other = (float(np.average(each["wall_ms"], weights=each["span"])) for each in shared)
    return own, other


def printed_by(run: Run) -> str:
    """The job's output as a sentence names it."""
    log = run.job_log
    files = () if log is None else log.files
    if log is not None and log.other_steps and not log.steps.empty:
        return files[int(log.steps["file"].iloc[0])]
    return files[0] if len(files) == 1 else "the job's output"


def disagreements(times: Sequence[StepTime]) -> Iterator[str]:
    """One sentence for each source whose steps are not those of the first one, and for printed steps against traces."""
    by_source = {each.source: each for each in times}
    traced, monitored = by_source.get("traces"), by_source.get("monitor")
    for other in (by_source.get("step_log"), by_source.get("job_log")):
        if other is None:
            continue
        held = f"{other.name} {'prints' if other.source == 'job_log' else 'holds'} steps of {other.median_ms:.4g} ms"
        if monitored is not None and not 1 / MOST_PRINTED <= other.median_ms / monitored.median_ms <= MOST_PRINTED:
            yield (
                f"{held}, the monitor measured {monitored.median_ms:.4g} ms: they count steps differently, or it is of "
                "another run"
            )
        elif traced is not None and not 1 / MOST_PRINTED <= traced.median_ms / other.median_ms <= MOST_PROFILED:
            yield (
                f"{held}, those of the traces take {traced.median_ms:.4g} ms, more than a profiler explains: they "
                "count steps differently, or it is of another run"
            )


def _of(source: StepSource, name: str, walls_ms: pd.Series[float] | None) -> StepTime | None:
    walls = np.zeros(0) if walls_ms is None else walls_ms.dropna().to_numpy(dtype=np.float64)
    if len(walls) < LEAST_STEPS or (median_ms := float(np.median(walls))) <= 0:
        return None
    return StepTime(source, name, median_ms, len(walls))


def _unprofiled(steps: pd.DataFrame) -> pd.Series[float]:
    touched = steps["captured"].astype(bool) | steps["written"].astype(bool) | steps["first"].astype(bool)
    return steps.loc[~touched, "wall_ms"]


def _traced_ms(run: Run) -> list[float]:
    """The steps that a trace marks."""
    return [step.wall_ns / 1e6 for rank in run.ranks if rank.step_origin != "window" for step in rank.steps]
