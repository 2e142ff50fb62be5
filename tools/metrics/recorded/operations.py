"""Figures of a table of step operations: what a step would take if some of them took the ideal time of their type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.run.model import OPERATIONS_FORMAT
from tools.run.recorded.operations import StepOperations
from tools.views.profile import Profile, memoized
from tools.whatif.planners.straggler import Replays, step_table
from tools.whatif.planners.straggler_graph import COMPUTE

IDEAL = ("nothing", "everything", "workers", "stage")


def operations(profile: Profile) -> StepOperations:
    """The run's table; UsageError where there is none."""
    if profile.run.operations is None:
        raise UsageError("the run holds no table of step operations")
    return profile.run.operations


@memoized
def replays(profile: Profile) -> Replays:
    """The replays of the table's steps; UsageError where operations are missing from it."""
    return Replays(step_table(operations(profile).rows))


@metric("ms", "replayed step with ideal times of {ideal}", "How long would a step take without its slow operations?")
def replayed_step_ms(profile: Profile, ideal: str = "nothing", stage: int | None = None) -> Measurement:
    """Mean step of the replay, with ideal times (mean of compute, median of communication of the type) of nothing,
    of everything, of the slowest workers (3 % of them), or of one pipeline stage."""
    choice("ideal", ideal, IDEAL)
    found = replays(profile)
    if (ideal == "stage") != (stage is not None) or (stage is not None and stage not in found.by_stage):
        raise UsageError(f"give ideal=stage with one of the stages 0 to {len(found.by_stage) - 1}")
    match ideal:
        case "nothing":
            value = found.delayed_ms
        case "everything":
            value = found.ideal_ms
        case "workers":
            value = found.step_ms(~found.of_workers(found.worst_workers))
        case _:
            value = found.step_ms(~found.of_stage(stage or 0))
    return _measured(profile, value, partial(_operations_of, profile, stage), "replay of all operations")


@metric("x", "slowdown by slow operations", "How much longer is a step than with ideal times?")
def operations_slowdown(profile: Profile, rank: int | None = None, stage: int | None = None) -> Measurement:
    """Replayed step over the one with ideal times; of a rank or a pipeline stage with its recorded times alone."""
    found = replays(profile)
    if rank is not None and stage is not None:
        raise UsageError("give a rank or a stage, not both")
    for what, asked, known in (("rank", rank, found.by_worker), ("stage", stage, found.by_stage)):
        if asked is not None and asked not in known:
            raise UsageError(f"the table holds no {what} {asked}; it has {', '.join(map(str, sorted(known)[:16]))}")
    value = found.delayed_ms / found.ideal_ms
    if rank is not None:
        value = found.by_worker[rank]
    elif stage is not None:
        value = found.by_stage[stage]
    rows = partial(_operations_of, profile, stage, rank)
    return _measured(profile, value, rows, "replay of all operations", () if rank is None else (rank,))


@metric("ms", "compute operations per step", "How long does a pipeline stage compute in a step?")
def computed_ms(profile: Profile, stage: int | None = None, rank: int | None = None) -> Measurement:
    """Durations of forward-compute and backward-compute: the mean over steps and over the ranks chosen."""
    own = _operations_of(profile, stage, rank)
    own = own[own["optype"].isin(COMPUTE)]
    if own.empty:
        raise UsageError("the table holds no compute there")
    value = float(own.groupby(["rank", "step"])["duration_ms"].sum().mean())
    return _measured(profile, value, lambda: own, "forward-compute, backward-compute", () if rank is None else (rank,))


def _operations_of(profile: Profile, stage: int | None = None, rank: int | None = None) -> pd.DataFrame:
    rows = operations(profile).rows
    if stage is not None:
        rows = rows[rows["stage"] == stage]
    return rows if rank is None else rows[rows["rank"] == rank]


def _measured(
    profile: Profile, value: float, rows: Callable[[], pd.DataFrame], selector: str, ranks: tuple[int, ...] = ()
) -> Measurement:
    steps = tuple(sorted({int(step) for step in operations(profile).rows["step"].unique()}))
    return Measurement(value, rows, selector, ranks, steps, source=OPERATIONS_FORMAT)
