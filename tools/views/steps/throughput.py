"""The throughput that a job's output states where it states no time of a step, as a series without a unit of time.

As long as steps hold equally much, one over the throughput is proportional to the time of a step: levels, drift, single
long steps and their rhythm are those of step times, and nothing is known in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from tools.run.model import Run
from tools.views.steps.output_lines import LONG_LINE, late_excerpt
from tools.views.steps.shape import StepSeries
from tools.views.steps.usual_rows import settling

LEAST_LINES = 2  # after the first ones, as of a job's output that states times


@dataclass(frozen=True, eq=False)
class RateSeries:
    """The stated throughput of one rank, the slowest, by step: ``RATE_COLUMNS`` in ``table``, first lines left out."""

    table: pd.DataFrame
    unit: str
    starts: int = 1  # of the job in its output, of which it is the longest

    @property
    def median_per_s(self) -> float:
        """The median throughput."""
        return float(self.table["per_s"].median())

    @property
    def every_step(self) -> bool:
        """Whether each step is printed, so that single ones are known."""
        return bool((self.table["span"] == 1).all())

    @cached_property
    def inverse(self) -> StepSeries:
        """One over the throughput by step: in s for one sample or token, not for a step."""
        numbers = self.table["step"].to_numpy(dtype=np.int64)
        return StepSeries(numbers, 1.0 / self.table["per_s"].to_numpy(dtype=np.float64))


def rate_series(run: Run) -> RateSeries | None:
    """The series; None where the output states step times, or too few figures of throughput."""
    log = run.job_log
    if log is None or log.throughput is None or not log.steps.empty or run.ranks:
        return None
    table = log.throughput.table
    started = np.zeros(len(table), dtype=bool) if late_excerpt(table) else settling(table)
    usual = table[~(started & (table["span"] < LONG_LINE).to_numpy())]
    if usual.empty:
        return None
    slowest = usual.groupby("rank")["per_s"].median().idxmin()
    own = usual[usual["rank"] == slowest].sort_values("step", ignore_index=True)
    return RateSeries(own, log.throughput.unit, log.throughput.starts) if len(own) >= LEAST_LINES else None
