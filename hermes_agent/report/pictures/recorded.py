"""Pictures from records of whole steps, which know more of them than the traces. Needs pandas: imported late."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hermes_agent.report.pictures.data import ChosenRanks, Heat, StepTimes, chosen_ranks, recorded_times
from tools.views.steps.series import RunSeries, SeriesOrigin

SOURCES: Mapping[SeriesOrigin, str] = {
    "monitor": "monitor records",
    "step_log": "the step log",
    "job_log": "the job's output",
    "ascend": "the tables of the Ascend profiler",
    "operations": "the table of operations",
}
MOST_STEPS = 10_000  # the last ones of a long run
MOST_COLUMNS = 1_000  # of a heatmap


@dataclass(frozen=True)
class RecordedTimes:
    """The steps to draw, and how many unprofiled ones were recorded before them."""

    times: StepTimes
    before: int


def step_times(series: RunSeries, limit_pct: float) -> RecordedTimes:
    """The last steps of the slowest rank at every level of the run, the profiled ones marked."""
    rank = series.slowest_rank
    usual, captured = series.whole.of(rank), series.captured[series.captured["rank"] == rank]
    times = recorded_times(named_rank(series), _pairs(usual), limit_pct, _pairs(captured))
    return RecordedTimes(times, max(len(usual) - MOST_STEPS, 0))


def named_rank(series: RunSeries) -> int | None:
    """The slowest rank; None where one set of step lines stands for the whole job, whichever rank printed it."""
    return None if series.origin == "job_log" and len(series.ranks) == 1 else series.slowest_rank


def _pairs(table: pd.DataFrame) -> list[tuple[int, float]]:
    """Number and ms of each step."""
    last = table.tail(MOST_STEPS)
    return list(zip(last["step"].astype(int).tolist(), last["wall_ms"].astype(float).tolist(), strict=True))


@dataclass(frozen=True)
class RecordedHeat:
    """The ranks to draw, by step, and how many steps were recorded before them."""

    heat: Heat
    chosen: ChosenRanks
    before: int


def heat(series: RunSeries, measure: str) -> RecordedHeat | None:
    """The last steps of each rank at every level of the run; None where the records have no such measure."""
    column = f"{measure}_ms"
    table = pd.concat([series.whole.usual, series.captured], ignore_index=True)
    if column not in table or table[column].isna().all():
        return None
    recorded = sorted(table["step"].astype(int).unique().tolist())
    steps = recorded[-MOST_COLUMNS:]
    table = table[(table["step"] >= steps[0]) & table[column].notna()]
    of_rank = table.groupby("rank")[column].agg(["mean", "max"])
    figures = of_rank.itertuples(index=True, name=None)
    chosen = chosen_ranks({int(rank): (float(mean), float(most)) for rank, mean, most in figures})
    shown = table[table["rank"].isin(chosen.ranks)]
    places = zip(shown["rank"].astype(int).tolist(), shown["step"].astype(int).tolist(), strict=True)
    values = dict(zip(places, shown[column].astype(float).tolist(), strict=True))
    traced = frozenset(series.captured["step"].astype(int).tolist()) & frozenset(steps)
    drawn = Heat(measure, chosen.ranks, tuple(steps), values, traced)
    return RecordedHeat(drawn, chosen, len(recorded) - len(steps))
