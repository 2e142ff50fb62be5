"""The time of a step by each source of a run that states one, the one that is used first, and where they disagree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from tools.run.model import Run

# A profiler makes steps longer, with Python frames and small operators two to three times; nothing makes them shorter
# but steps that are counted otherwise. What a script prints may hold a little more than a step: logging, the loader.
MOST_PROFILED, MOST_PRINTED = 3.0, 1.5
LEAST_STEPS = 2

StepSource = Literal["monitor", "step_log", "job_log", "traces"]
# The better one first: measured around every step, by the training's own clock, as printed, slowed by a profiler.
REASONS: dict[StepSource, str] = {
    "monitor": "measured around every step, without a profiler",
    "step_log": "the training's own clock, for every step",
    "job_log": "as the job prints it, perhaps an average",
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
        _of("traces", "the traces", pd.Series(_traced_ms(run), dtype="float64")),
    ]
    return tuple(each for each in found if each is not None)


def printed_by(run: Run) -> str:
    """The job's output as a sentence names it."""
    files = () if run.job_log is None else run.job_log.files
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
