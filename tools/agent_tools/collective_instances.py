"""Single collectives: when, how long, in which group, and what they overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from tools.agent_tools.find_events import nearest
from tools.agent_tools.result import FIGURES, CitedFigure, Figure, Paged, Result, Row, measured, named
from tools.agent_tools.tool import ToolContext
from tools.errors import UsageError
from tools.findings import Argument
from tools.run.row_ids import COLLECTIVE, row_id
from tools.views.communication.arrivals import waits
from tools.views.event_labels import PHASES, group_names
from tools.views.profile import Profile
from tools.views.steps.phases import overlapping_collectives

ONE_RANK = "Waiting for other ranks is not assessable from one rank's trace; it needs the traces of the others."


class CollectiveInstances(Paged):
    """The collectives in question; filters are joined by "and"."""

    rank: int | None = Field(default=None, ge=0, description="without it all traced ranks")
    step: int | None = Field(default=None, ge=0)
    kind: str | None = Field(default=None, max_length=40, description="all_reduce, all_gather, reduce_scatter, ...")
    group: str | None = Field(default=None, max_length=200, description="name of the process group, as a row gives it")
    index: int | None = Field(default=None, ge=1, description="2 is the second of its kind in the step of a rank")
    min_us: float = Field(default=0.0, ge=0, description="at least so long")
    max_us: float | None = Field(default=None, gt=0, description="shorter than that")
    sort: Literal["start", "duration"] = Field(default="start", description="duration: the longest first")


class CollectiveRow(Row):
    """One collective of one rank. ``overlapped_ms`` and ``exposed_ms`` add up to ``duration_ms``."""

    name: str = Field(description="its kind")
    rank: int
    step: int | None
    index: int = Field(description="from 1, among the rank's collectives of that kind in the step")
    group: str
    bytes: int | None
    start_ms: float
    duration_ms: float
    overlapped_ms: float = Field(description="the rank computes as well")
    exposed_ms: float
    overlaps_ms: dict[str, float] = Field(description="overlap with the work of each phase, forward and backward apart")
    wait_ms: float | None = Field(description="waiting for the last rank; null where one rank alone was traced")
    last_rank: int | None


def collective_instances(context: ToolContext, asked: CollectiveInstances) -> Result:
    """Collectives one by one, with what they overlap (forward, backward), group, size and waiting; and their totals.

    To find the second all-reduce of a step: kind all_reduce, step, rank, index 2.
    """
    profile = context.profile()
    if asked.rank is not None:
        profile.rank(asked.rank)
    every = every_rank(profile)
    figures, notes = _totals(context, asked)
    if every.empty:
        lack = "No collective runs in this recording; how ranks exchange data is not assessable from it."
        return Result(facts=figures[:1], notes=(lack,))
    chosen = _fitting(every, asked)
    page, cursor = asked.page(chosen.to_dict("records"))
    rows = tuple(collective_row(record) for record in page)
    given = [(each, {"collective": each.id}) for each in rows[:FIGURES]]
    single = named(context, [("duration of collective", each.id, "instance_ms", where) for each, where in given])
    overlap = named(
        context, [("overlap with compute of", each.id, "instance_overlap_ms", where) for each, where in given]
    )
    facts = (*(fact for pair in zip(single, overlap, strict=True) for fact in pair), *figures)
    return Result(rows=rows, cursor=cursor, total=len(chosen), facts=facts, notes=notes)


def every_rank(profile: Profile) -> pd.DataFrame:
    """The collectives of all traced ranks; UsageError without a trace."""
    return pd.concat([_of_rank(profile, view.rank.rank) for view in profile.ranks], ignore_index=True)


def whole_table(profile: Profile) -> pd.DataFrame:
    """One row per collective and rank in order of time, with the fields of ``CollectiveRow`` as columns."""
    rows = [collective_row(record) for record in _ordered(every_rank(profile)).to_dict("records")]
    columns = [name for name in CollectiveRow.model_fields if name != "overlaps_ms"]
    table = pd.DataFrame([{name: getattr(row, name) for name in columns} for row in rows], columns=columns)
    for phase in PHASES:
        table[f"{phase}_ms"] = [row.overlaps_ms.get(phase, 0.0) for row in rows]
    return table.astype({name: "Int64" for name in ("step", "bytes", "last_rank")})


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["start_ns", "rank", "row"], kind="stable")


def _of_rank(profile: Profile, rank: int) -> pd.DataFrame:
    """``overlapping_collectives`` with the group's name, and waiting where the collective was matched."""
    table = overlapping_collectives(profile, rank)
    table = table.assign(group=group_names(profile, table).to_numpy())
    waited = waits(profile)
    waited = waited[(waited["rank"] == rank).to_numpy()][["row", "wait_ns", "last_rank"]]
    return table.merge(waited, on="row", how="left")


def _fitting(table: pd.DataFrame, asked: CollectiveInstances) -> pd.DataFrame:
    for column in ("rank", "step", "kind", "group", "index"):
        wanted = getattr(asked, column)
        if wanted is None:
            continue
        known = table[column].unique().tolist()
        if column in ("kind", "group") and wanted not in known:
            near = nearest(str(wanted), [str(each) for each in known]) or [str(each) for each in known]
            raise UsageError(f"no collective has the {column} {wanted!r}; there are {', '.join(near)}")
        if wanted not in known:
            where = f"{min(known)} to {max(known)}" if known else "none"
            raise UsageError(f"no such collective has the {column} {wanted}; there are {where}")
        table = table[(table[column] == wanted).to_numpy()]
    length_ns = table["end_ns"] - table["start_ns"]
    short_enough = asked.max_us is None or length_ns < round(asked.max_us * 1e3)
    table = _ordered(table[(length_ns >= round(asked.min_us * 1e3)) & short_enough])
    if asked.sort == "start":
        return table
    return table.iloc[np.argsort((table["start_ns"] - table["end_ns"]).to_numpy(), kind="stable")]


def collective_row(record: Mapping[Any, Any]) -> CollectiveRow:
    """One row from a record of the table."""
    matched = record["wait_ns"] == record["wait_ns"]
    return CollectiveRow(
        id=row_id(COLLECTIVE, record["rank"], record["row"]),
        name=record["kind"] or "collective",
        rank=record["rank"],
        step=record["step"] if record["step"] >= 0 else None,
        index=record["index"],
        group=record["group"],
        bytes=record["bytes"] if record["bytes"] >= 0 else None,
        start_ms=record["start_ns"] / 1e6,
        duration_ms=(record["end_ns"] - record["start_ns"]) / 1e6,
        overlapped_ms=record["overlapped_ns"] / 1e6,
        exposed_ms=record["exposed_ns"] / 1e6,
        overlaps_ms={phase: record[f"{phase}_ns"] / 1e6 for phase in PHASES if record[f"{phase}_ns"]},
        wait_ms=record["wait_ns"] / 1e6 if matched else None,
        last_rank=int(record["last_rank"]) if matched else None,
    )


def opened(profile: Profile, rank: int, row: int) -> CollectiveRow:
    """The row of one collective that exists."""
    table = _of_rank(profile, rank)
    record: Mapping[Any, Any] = table[(table["row"] == row).to_numpy()].to_dict("records")[0]
    return collective_row(record)


def _totals(context: ToolContext, asked: CollectiveInstances) -> tuple[tuple[CitedFigure, ...], tuple[str, ...]]:
    kind: dict[str, Argument] = {"kind": asked.kind}
    rank: dict[str, Argument] = {"rank": asked.rank}
    several = len(context.profile().run.rank_numbers) > 1
    waiting: tuple[Figure, ...] = (
        ("exposed waiting for a straggler", "exposed_wait_ms", rank),
        ("inequality of arrivals (R_wait)", "wait_ratio_pct", kind),
        ("found on several ranks", "matched_collectives", {}),
        ("without a counterpart", "unmatched_collectives", {}),
    )
    facts, notes = measured(
        context,
        (
            ("collectives per step and rank", "collective_count", kind | rank),
            ("time inside them per step", "collective_ms", kind | rank),
            ("communication that overlaps with compute", "communication_overlap_pct", rank),
            *((("exposed communication that is not waiting", "exposed_transfer_ms", rank),) if several else ()),
            ("bus bandwidth of large ones", "bus_bandwidth", kind),
            ("median size", "message_bytes", kind),
            *(waiting if several else ()),
        ),
    )
    return facts, notes if several else (*notes, ONE_RANK)
