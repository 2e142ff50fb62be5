"""Time of a hybrid-parallel step that is lost to stragglers, by worker, stage and operation type.

The what-if analysis of ByteDance's straggler study: the step is replayed with every operation at the ideal time of its
type (the mean of compute, the median of communication), and again with the recorded times of one part put back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from tools.errors import InputError, UsageError
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
MOST_OPERATIONS = 5_000_000  # of a table
LARGEST_TABLE_BYTES = 1 << 30  # unpacked
WORST_WORKERS_PCT = 3  # of all workers, rounded up; the share that the study's M_W replaces
MS_PER_S = 1000.0
KEYS = ["optype", "seq_id", "stage"]
COLUMNS = ["dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "gmc"]
LATEST_MS = 1e15  # as a time since 1970 in ms is 1e12
Number = Annotated[int, Field(ge=0, le=1 << 31)]
Chunk = Annotated[int, Field(ge=-1, le=1 << 20)]
WHOLE = ["dp_rank", "stage", "rank", "step", "seq_id", "mc", "gmc"]


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
    return analyse(_step_table(rows))


def plan_parquet(content: bytes) -> Planned:
    """Return the same from a Parquet table; raises InputError where it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(BytesIO(content))
        absent = set(COLUMNS) - set(file.schema_arrow.names)
        if absent:
            raise InputError(f"the table lacks the columns {', '.join(sorted(absent))}; it needs {', '.join(COLUMNS)}")
        if file.metadata.num_rows > MOST_OPERATIONS:
            raise InputError(f"the table has more than {MOST_OPERATIONS} rows; give fewer steps")
        groups = range(file.metadata.num_row_groups)
        if sum(file.metadata.row_group(each).total_byte_size for each in groups) > LARGEST_TABLE_BYTES:
            raise InputError(f"the table unpacks to more than {LARGEST_TABLE_BYTES >> 30} GiB; give fewer steps")
        rows = file.read(columns=COLUMNS).to_pandas()
        rows = rows.astype({"optype": str, "start_ts": float, "duration": float, **dict.fromkeys(WHOLE, "int64")})
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise InputError(f"the table cannot be read: {str(error).splitlines()[0]}") from None
    rows["start_ms"], rows["duration_ms"] = rows.pop("start_ts") * MS_PER_S, rows.pop("duration") * MS_PER_S
    if not np.isfinite(rows[["start_ms", "duration_ms"]].to_numpy()).all() or (rows["duration_ms"] < 0).any():
        raise UsageError("start_ts and duration have to be numbers, and no duration negative")
    if rows.empty:
        raise UsageError("the table is empty; give the operations of at least one step")
    return analyse(_step_table(rows))


def analyse(table: StepTable) -> Planned:
    """Return slowdown and shares of a table."""
    replays = _Replays(table)
    ideal_ms, delayed_ms = replays.step_ms(replays.none), replays.step_ms(replays.all)
    if ideal_ms <= 0:
        raise UsageError("no operation takes time; give measured durations")
    kinds = np.array([_shown_kind(each.kind) for each in table.operations])
    stages = np.array([each.stage for each in table.operations])
    by_dp_rank = {each: replays.step_ms(replays.of_dp_rank(each)) / ideal_ms for each in range(table.starts.shape[2])}
    by_stage = {each: replays.step_ms(replays.of_operations(stages == each)) / ideal_ms for each in np.unique(stages)}
    by_kind = {each: replays.step_ms(replays.of_operations(kinds == each)) / ideal_ms for each in np.unique(kinds)}
    by_worker = {
        int(table.ranks[stage, dp_rank]): min(by_stage[stage], by_dp_rank[dp_rank])
        for stage in by_stage
        for dp_rank in by_dp_rank
    }
    count = -(-len(by_worker) * WORST_WORKERS_PCT // 100)
    worst = sorted(by_worker, key=lambda rank: (-by_worker[rank], rank))[:count]
    slowed_ms = delayed_ms - ideal_ms

    def removed(part: NDArray[np.bool_]) -> float | None:
        return (delayed_ms - replays.step_ms(~part)) / slowed_ms if slowed_ms else None

    strongest = max(by_worker, key=lambda rank: by_worker[rank])
    return Planned(
        planner="straggler",
        plan=StragglerPlan(
            slowdown=delayed_ms / ideal_ms,
            recorded_ms=replays.recorded_ms(),
            by_dp_rank=_sorted(by_dp_rank),
            by_stage=_sorted(by_stage),
            by_operation_type=_sorted(by_kind),
            by_worker=_sorted(by_worker),
            worst_workers=worst,
            share_of_worst_workers=removed(np.isin(table.ranks, worst)[stages][:, None, :] & replays.all),
            share_of_last_stage=removed(replays.of_operations(stages == stages.max())),
        ),
        before_ms=delayed_ms,
        after_ms=ideal_ms,
        gap_ms=None,
        bound=f"rank {strongest}: its times alone make the step {by_worker[strongest]:.4g} times the ideal",
        assumptions=[
            "Before is the replay with recorded times and no delay between an operation and what it waits for.",
            "After is the replay with every operation at the mean (compute) or median (communication) of its type.",
            "The share of a worker is the smaller of those of its stage and its data-parallel rank.",
        ],
    )


class _Replays:
    """Replays with the ideal times, and the recorded ones of a part put back."""

    def __init__(self, table: StepTable) -> None:
        self.table = table
        self.transfers = transfer_times(table.graph, table.starts, table.starts + table.durations)
        self.all: NDArray[np.bool_] = np.ones(table.starts.shape, dtype=bool)
        self.none = ~self.all
        undelayed, ends = replay(table.graph, table.order, table.durations, self.transfers)
        self.ideal_durations = _typical(table.operations, ends - undelayed)
        self.ideal_transfers = _typical(table.operations, self.transfers)

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


def _step_table(rows: pd.DataFrame) -> StepTable:
    """Arrays of all operations; raises UsageError where a step or rank lacks one that others have."""
    if unknown := sorted(set(rows["optype"]) - set(TYPES)):
        raise UsageError(f"operation type {unknown[0]!r} is not known; known are {', '.join(TYPES)}")
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
