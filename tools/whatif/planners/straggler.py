"""Time of a hybrid-parallel step that is lost to stragglers, by worker, stage and operation type.

The what-if analysis of ByteDance's straggler study: the step is replayed with every operation at the ideal time of its
type (the mean of compute, the median of communication), and again with the recorded times of one part put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from tools.errors import UsageError
from tools.run.model import Run
from tools.whatif.planners.reading import shown
from tools.whatif.planners.record import Given, Milliseconds, Plan, Planned
from tools.whatif.planners.straggler_graph import (
    COLLECTION,
    COMPUTE,
    OPTIMIZER,
    SENDS,
    TYPES,
    Graph,
    Group,
    Operation,
    Times,
    build_graph,
    replay,
    transfer_times,
)

MOST_ROWS = 500_000  # of a JSON input, about 1 kB of memory each
WORST_WORKERS_PCT = 3  # of all workers, rounded up; the share that the study's M_W replaces
KEYS = ["optype", "seq_id", "stage"]
LATEST_MS = 1e15  # as a time since 1970 in ms is 1e12
Number = Annotated[int, Field(ge=0, le=1 << 31)]
Chunk = Annotated[int, Field(ge=-1, le=1 << 20)]


class OperationRow(Given):
    """One operation; ``mc`` and ``gmc`` are its model chunk on the stage and in the model (-1 where it has none)."""

    dp_rank: Number
    stage: Number
    rank: Number
    step: Annotated[int, Field(ge=-(1 << 53), le=1 << 53)]
    optype: Annotated[str, Field(description=", ".join(TYPES))]
    start_ms: Annotated[float, Field(ge=-LATEST_MS, le=LATEST_MS)]
    duration_ms: Milliseconds
    seq_id: Number
    mc: Chunk = -1
    gmc: Chunk = -1


class Input(Given):
    """All operations of some steps; or a Parquet table of the published form (``start_ts`` and ``duration`` in s)."""

    operations: Annotated[list[OperationRow], Field(min_length=1, max_length=MOST_ROWS, fail_fast=True)]


class StragglerPlan(Plan):
    """Slowdown = step time over the ideal one; parts have the step time with only their own recorded times.

    Of the slowdown, ``share_of_worst_workers`` (M_W) and ``share_of_last_stage`` (M_S) is what ideal times of these
    would remove; None without a slowdown.
    """

    slowdown: float
    recorded_ms: float
    by_dp_rank: dict[str, float]
    by_stage: dict[str, float]
    by_operation_type: dict[str, float]
    by_worker: dict[str, float]
    worst_workers: list[int]
    share_of_worst_workers: float | None
    share_of_last_stage: float | None


@dataclass(frozen=True)
class StepTable:
    """Operations as arrays of shape (operations, steps, data-parallel ranks), and what each belongs to."""

    graph: Graph
    order: list[int | Group]
    starts: Times
    durations: Times
    ranks: NDArray[np.int64]

    @property
    def operations(self) -> list[Operation]:
        """The operations in the order of the first axis."""
        return self.graph.operations


def plan(given: Input) -> Planned:
    """Return the slowdown and whose it is; one replay per data-parallel rank, stage and operation type."""
    rows = pd.DataFrame([each.model_dump() for each in given.operations])
    return analyse(step_table(rows))


def plan_parquet(content: bytes) -> Planned:
    """Return the same from a Parquet table; raises InputError where it cannot be read."""
    from tools.sources.straggler_analysis.reader import read_operations  # imports Parquet

    return analyse(step_table(read_operations(content)))


def plan_operations(run: Run) -> Planned:
    """Return the same of a run's table of operations; UsageError where the run has none."""
    if run.operations is None:
        raise UsageError("the run holds no table of step operations; straggler needs one (docs/straggler_analysis.md)")
    return analyse(step_table(run.operations.rows))


def analyse(table: StepTable) -> Planned:
    """Return slowdown and shares of a table."""
    replays = Replays(table)
    ideal_ms, delayed_ms = replays.ideal_ms, replays.delayed_ms
    kinds = np.array([_shown_kind(each.kind) for each in table.operations])
    by_kind = {each: replays.step_ms(replays.of_operations(kinds == each)) / ideal_ms for each in np.unique(kinds)}
    slowed_ms = delayed_ms - ideal_ms

    def removed(part: NDArray[np.bool_]) -> float | None:
        return (delayed_ms - replays.step_ms(~part)) / slowed_ms if slowed_ms else None

    strongest = max(replays.by_worker, key=lambda rank: replays.by_worker[rank])
    return Planned(
        planner="straggler",
        plan=StragglerPlan(
            slowdown=delayed_ms / ideal_ms,
            recorded_ms=replays.recorded_ms(),
            by_dp_rank=_sorted(replays.by_dp_rank),
            by_stage=_sorted(replays.by_stage),
            by_operation_type=_sorted(by_kind),
            by_worker=_sorted(replays.by_worker),
            worst_workers=list(replays.worst_workers),
            share_of_worst_workers=removed(replays.of_workers(replays.worst_workers)),
            share_of_last_stage=removed(replays.of_stage(int(replays.stages.max()))),
        ),
        before_ms=delayed_ms,
        after_ms=ideal_ms,
        gap_ms=None,
        bound=f"rank {strongest}: its times alone make the step {replays.by_worker[strongest]:.4g} times the ideal",
        assumptions=[
            "Before is the replay with recorded times and no delay between an operation and what it waits for.",
            "After is the replay with every operation at the mean (compute) or median (communication) of its type.",
            "The share of a worker is the smaller of those of its stage and its data-parallel rank.",
        ],
    )


class Replays:
    """Replays with the ideal times, and the recorded ones of a part put back."""

    def __init__(self, table: StepTable) -> None:
        self.table = table
        self.transfers = transfer_times(table.graph, table.starts, table.starts + table.durations)
        self.all: NDArray[np.bool_] = np.ones(table.starts.shape, dtype=bool)
        self.none = ~self.all
        undelayed, ends = replay(table.graph, table.order, table.durations, self.transfers)
        self.ideal_durations = _typical(table.operations, ends - undelayed)
        self.ideal_transfers = _typical(table.operations, self.transfers)

        self.stages = np.array([each.stage for each in table.operations])
        self.ideal_ms, self.delayed_ms = self.step_ms(self.none), self.step_ms(self.all)
        if self.ideal_ms <= 0:
            raise UsageError("no operation takes time; give measured durations")

    @cached_property
    def by_dp_rank(self) -> dict[int, float]:
        """Step time with the recorded times of one data-parallel rank alone, over the ideal one."""
        parts = range(self.table.starts.shape[2])
        return {each: self.step_ms(self.of_dp_rank(each)) / self.ideal_ms for each in parts}

    @cached_property
    def by_stage(self) -> dict[int, float]:
        """The same of one pipeline stage alone."""
        parts = [int(each) for each in np.unique(self.stages)]
        return {each: self.step_ms(self.of_stage(each)) / self.ideal_ms for each in parts}

    @cached_property
    def by_worker(self) -> dict[int, float]:
        """By rank the smaller of its stage's and its data-parallel rank's."""
        return {
            int(self.table.ranks[stage, dp_rank]): min(self.by_stage[stage], self.by_dp_rank[dp_rank])
            for stage in self.by_stage
            for dp_rank in self.by_dp_rank
        }

    @cached_property
    def worst_workers(self) -> tuple[int, ...]:
        """The ranks that slow the step most, ``WORST_WORKERS_PCT`` of all."""
        count = -(-len(self.by_worker) * WORST_WORKERS_PCT // 100)
        return tuple(sorted(self.by_worker, key=lambda rank: (-self.by_worker[rank], rank))[:count])

    def of_workers(self, ranks: Sequence[int]) -> NDArray[np.bool_]:
        """The operations of some ranks."""
        chosen: NDArray[np.bool_] = np.isin(self.table.ranks, ranks)[self.stages][:, None, :] & self.all
        return chosen

    def of_stage(self, stage: int) -> NDArray[np.bool_]:
        """The operations of one pipeline stage."""
        return self.of_operations(self.stages == stage)

    def of_dp_rank(self, dp_rank: int) -> NDArray[np.bool_]:
        """The operations of one data-parallel rank."""
        part = self.none.copy()
        part[:, :, dp_rank] = True
        return part

    def of_operations(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Chosen operations on all ranks."""
        return np.broadcast_to(chosen[:, None, None], self.all.shape)

    def step_ms(self, recorded: NDArray[np.bool_]) -> float:
        """Mean step time with recorded times of a part, ideal times of the others."""
        durations = np.where(recorded, self.table.durations, self.ideal_durations)
        transfers = np.where(recorded, self.transfers, self.ideal_transfers)
        _, ends = replay(self.table.graph, self.table.order, durations, transfers)
        return float(ends.max(axis=(0, 2)).mean())

    def recorded_ms(self) -> float:
        """Mean step time as recorded."""
        ends = self.table.starts + self.table.durations
        return float((ends.max(axis=(0, 2)) - self.table.starts.min(axis=(0, 2))).mean())


def _typical(operations: Sequence[Operation], times: Times) -> Times:
    """The mean of each compute type and the median of each communication type, over stages, steps and ranks."""
    kinds = np.array([each.kind for each in operations])
    typical = np.full_like(times, np.nan)
    for kind in np.unique(kinds):
        values = times[kinds == kind]
        if not np.isnan(values).all():
            typical[kinds == kind] = (
                np.nanmean(values) if kind in (*COMPUTE, OPTIMIZER, COLLECTION) else np.nanmedian(values)
            )
    return typical


def _shown_kind(kind: str) -> str:
    return f"{kind.partition('-')[0]}-pp-comm" if kind in SENDS else kind


def _sorted(parts: dict[int, float] | dict[str, float]) -> dict[str, float]:
    return {str(name): value for name, value in sorted(parts.items(), key=lambda entry: -entry[1])}


def step_table(rows: pd.DataFrame) -> StepTable:
    """Arrays of all operations; raises UsageError where a step or rank lacks one that others have."""
    if unknown := sorted(set(rows["optype"]) - set(TYPES)):
        raise UsageError(f"operation type {shown(unknown[0])} is not known; known are {', '.join(TYPES)}")
    steps, dp_ranks = np.unique(rows["step"]), np.unique(rows["dp_rank"])
    for name, present in (("dp_rank", dp_ranks), ("stage", np.unique(rows["stage"]))):
        if present[-1] != len(present) - 1:
            raise UsageError(f"{name} runs from 0 to {present[-1]}, but only {len(present)} of them are there")
    rows = rows.sort_values(["step", "dp_rank", *KEYS], ignore_index=True)
    sizes = rows.groupby(["step", "dp_rank"]).size()
    template = rows[(rows["step"] == steps[0]) & (rows["dp_rank"] == 0)]
    shape = (len(steps), len(dp_ranks), len(template))
    keys = rows[KEYS].to_numpy()
    complete = len(rows) == np.prod(shape) and len(template.drop_duplicates(KEYS)) == len(template)
    if not complete or not (keys.reshape(*shape, len(KEYS)) == keys[: len(template)]).all():
        odd = sizes[sizes != sizes.mode().iloc[0]]
        where = f" (step {odd.index[0][0]}, dp_rank {odd.index[0][1]})" if len(odd) else ""
        raise UsageError(f"not every step and dp_rank has the same operations{where}; leave out steps that lack some")

    def times(column: str) -> Times:
        values = rows[column].to_numpy(dtype=float).reshape(shape)
        return np.array(np.moveaxis(values, 2, 0))

    starts, durations = times("start_ms"), times("duration_ms")
    starts -= starts.min(axis=(0, 2))[None, :, None]
    operations = [
        Operation(
            start_ms=float(starts[index, 0, 0]),
            sequence=int(row.seq_id),
            kind=str(row.optype),
            stage=int(row.stage),
            chunk=int(row.mc),
            global_chunk=int(row.gmc),
            end_ms=float(starts[index, 0, 0] + durations[index, 0, 0]),
            index=index,
        )
        for index, row in enumerate(template.itertuples())
    ]
    graph = build_graph(operations, data_parallel=len(dp_ranks) > 1)
    ranks = np.zeros((1 + int(rows["stage"].max()), len(dp_ranks)), dtype=np.int64)
    ranks[rows["stage"], rows["dp_rank"]] = rows["rank"]
    return StepTable(graph, graph.order(), starts, durations, ranks)
