"""Find events of a rank by kind, name, step, time and length; one by one or in groups."""

from __future__ import annotations

from difflib import get_close_matches
from enum import StrEnum
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from tools.agent_tools.result import FIGURES, CitedFigure, Paged, Result, Row, named
from tools.agent_tools.tool import ToolContext
from tools.errors import UsageError
from tools.findings import Argument
from tools.intervals import covered, intersect
from tools.metrics.instances import grouped, kind_rows, own_time
from tools.run.events import EventKind
from tools.run.row_ids import EVENT, group_id, row_id
from tools.views.device.roofline import roofline
from tools.views.event_labels import Labels, labels, track_label
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

Rows = NDArray[np.int64]
NAME_CHARS = 4096
NEAREST = 5
COMPARED_CHARS = 80
MOST_COMPARED = 2000
OF_COLLECTIVES = "only collectives belong to a process group: leave kind out, or give kind collective"
NO_RATES = pd.DataFrame({"tflop_per_s": [], "peak_pct": []}, index=pd.Index([], dtype="int64"))
ORDERS: dict[str, tuple[list[str], list[bool]]] = {
    "duration": (["own_ns", "count"], [False, False]),
    "count": (["count", "own_ns"], [False, False]),
    "start": (["first"], [True]),
    "rate": (["peak_pct", "tflop_per_s"], [True, True]),
}
GroupBy = Literal["name", "module", "phase", "shape", "stack", "stream", "group"]


class Kind(StrEnum):
    """The kinds of events; ``collective`` are those of ``collective_instances``, ``device`` all work of the device."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    DEVICE = "device"
    COLLECTIVE = "collective"
    OPERATOR = "operator"
    ANNOTATION = "annotation"
    RUNTIME = "runtime"
    PYTHON = "python"
    SYNC = "sync"


class FindEvents(Paged):
    """The events to find; filters are joined by "and"."""

    rank: int = Field(ge=0)
    kind: Kind | None = Field(default=None, description="without it all; in groups kernels, on a CPU operators")
    name: str | None = Field(default=None, max_length=NAME_CHARS, description="the whole recorded name")
    contains: str | None = Field(default=None, max_length=NAME_CHARS, description="plain text that the name contains")
    step: int | None = Field(default=None, ge=0)
    from_ms: float | None = Field(default=None, description="start at or after; ms of the run's time axis, as start_ms")
    to_ms: float | None = Field(default=None, description="start before")
    min_us: float | None = Field(default=None, ge=0, description="at least so long")
    max_us: float | None = Field(default=None, gt=0, description="shorter than that")
    outside_steps: bool = Field(default=False, description="also events that start in none of the steps")
    sort: Literal["duration", "start", "count", "rate"] = Field(
        default="duration", description="count: of groups only; rate: of shapes, the lowest share of the peak first"
    )
    group_by: GroupBy | None = Field(default=None, description="one row for all events that share it")


class EventRow(Row):
    """One event. ``start_ms`` is on the run's time axis; ``step`` is null outside of the steps."""

    name: str
    kind: str
    rank: int
    step: int | None
    start_ms: float
    duration_ms: float
    on: str = Field(description="host thread or device stream")


class GroupRow(Row):
    """Events that share a name, module, ... ``own_ms`` leaves out events of the same kind inside of them."""

    name: str
    rank: int
    step: int | None
    kind: str
    count: int
    total_ms: float = Field(description="sum of the durations over the steps in question")
    own_ms: float
    own_ms_per_step: float
    share_pct: float = Field(description="of the own time of all events found")
    longest_ms: float
    longest: str = Field(description="id of the longest event")
    exposed_ms: float | None = Field(default=None, description="of collectives: time in which nothing else computes")
    tflop_per_s: float | None = Field(
        default=None, description="of matrix operators with shapes: achieved on the device"
    )
    peak_pct: float | None = Field(default=None, description="the same as a share of the device's peak")


def find_events(context: ToolContext, asked: FindEvents) -> Result:
    """Events of one rank: kernels, copies, operators, runtime calls, Python frames, annotations, collectives.

    Without group_by one row per event, the longest first. With group_by one row per name, module (nn.Module), phase
    (data, forward, backward, optimizer), shape (operator with its input shapes), stack (Python line), stream or process
    group. Device work belongs to what launched it. Only events that start inside the steps count, unless asked.
    """
    profile, view = context.profile(), context.profile().rank(asked.rank)
    if asked.step is not None:
        view.rank.step(asked.step)
    kind = asked.kind
    if asked.group_by == "group" and kind not in (None, Kind.COLLECTIVE):
        raise UsageError(OF_COLLECTIVES)
    if kind is None and asked.group_by is not None:
        kind = Kind.COLLECTIVE if asked.group_by == "group" else Kind.KERNEL if view.rank.has_device else Kind.OPERATOR
    if kind in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.DEVICE) and not view.rank.has_device:
        return Result(notes=(f"Rank {asked.rank} ran nothing on a device; kind operator lists what its host does.",))
    rows = chosen_rows(profile, view, asked, kind)
    if asked.group_by is None:
        return _events(context, view, asked, rows)
    return _groups(context, view, asked, rows, (kind or Kind.KERNEL).value)


def chosen_rows(profile: Profile, view: RankProfile, asked: FindEvents, kind: Kind | None) -> Rows:
    """The rows that fit, ascending; UsageError with the nearest names where no event has the name asked for."""
    rows = kind_rows(profile, view.rank.rank, kind.value if kind else "")
    if asked.name is not None or asked.contains is not None:
        rows = rows[_name_fits(view, rows, asked)]
    if asked.from_ms is not None:
        rows = rows[view.start[rows] >= asked.from_ms * 1e6]
    if asked.to_ms is not None:
        rows = rows[view.start[rows] < asked.to_ms * 1e6]
    if asked.min_us is not None:
        rows = rows[view.end[rows] - view.start[rows] >= round(asked.min_us * 1e3)]
    if asked.max_us is not None:
        rows = rows[view.end[rows] - view.start[rows] < round(asked.max_us * 1e3)]
    if asked.step is not None:
        in_step: Rows = rows[view.step_of(rows) == asked.step]
        return in_step
    return rows if asked.outside_steps else view.in_steps(rows)


def _name_fits(view: RankProfile, rows: Rows, asked: FindEvents) -> NDArray[np.bool_]:
    codes = view.codes[rows]
    present = np.unique(codes)
    names = [str(name) for name in view.categories[present]]
    part = (asked.contains or "").casefold()
    fits = [(asked.name is None or name == asked.name) and part in name.casefold() for name in names]
    if not any(fits):
        text, how = (asked.name, "is called") if asked.name is not None else (asked.contains, "contains")
        near = nearest(text or "", names)
        raise UsageError(
            f"no such event of rank {asked.rank} {how} {(text or '')[:COMPARED_CHARS]!r}; "
            + (f"the nearest names are {', '.join(repr(each) for each in near)}" if near else "there are none at all")
        )
    return np.isin(codes, present[np.array(fits, dtype=bool)])


def nearest(asked: str, known: list[str]) -> list[str]:
    """Up to five of the known names like the one asked for: those that contain it first."""
    part = asked.casefold()
    holding = [name for name in known if part and part in name.casefold()]
    by_start = {name[:COMPARED_CHARS]: name for name in known[:MOST_COMPARED]}
    close = get_close_matches(asked[:COMPARED_CHARS], list(by_start), NEAREST, cutoff=0.3)
    return list(dict.fromkeys([*sorted(holding, key=len), *(by_start[each] for each in close)]))[:NEAREST]


def _events(context: ToolContext, view: RankProfile, asked: FindEvents, rows: Rows) -> Result:
    if asked.sort in ("count", "rate"):
        raise UsageError(f"sort by {asked.sort} needs group_by; single events are sorted by duration or start")
    if asked.sort == "duration":
        rows = rows[np.argsort(view.start[rows] - view.end[rows], kind="stable")]
    chosen, cursor = asked.window(len(rows))
    found = tuple(event_row(view, int(row)) for row in rows[chosen])
    facts = named(context, [("duration of", each.name, "event_ms", {"event": each.id}) for each in found[:FIGURES]])
    return Result(rows=found, cursor=cursor, total=len(rows), facts=tuple(facts))


def event_row(view: RankProfile, row: int) -> EventRow:
    """The row of one event."""
    step = int(view.step_of(np.array([row]))[0])
    return EventRow(
        id=row_id(EVENT, view.rank.rank, row),
        name=str(view.categories[view.codes[row]]),
        kind=EventKind(int(view.kind[row])).name.lower(),
        rank=view.rank.rank,
        step=step if step >= 0 else None,
        start_ms=int(view.start[row]) / 1e6,
        duration_ms=int(view.end[row] - view.start[row]) / 1e6,
        on=track_label(view, int(view.track[row])),
    )


def _groups(context: ToolContext, view: RankProfile, asked: FindEvents, rows: Rows, kind: str) -> Result:
    found, cursor, total = group_rows(context.profile(), view, asked, rows, kind)
    notes = () if asked.kind is not None else (f"No kind was given: these are events of kind {kind}.",)
    return Result(
        rows=tuple(found), cursor=cursor, total=total, facts=tuple(_figures(context, asked, kind, found)), notes=notes
    )


def group_rows(
    profile: Profile, view: RankProfile, asked: FindEvents, rows: Rows, kind: str, among: Rows | None = None
) -> tuple[list[GroupRow], str | None, int]:
    """The groups of these events of one kind on this page, the next page's cursor, and the number of all groups.

    Shares are of the time of ``among``, of the events themselves where it is not given.
    """
    by, rank = asked.group_by or "name", view.rank.rank
    own = own_ns(profile, rank, kind, rows)
    known = labels(profile, rank, by, rows)
    table = grouped(known, own, view.end[rows] - view.start[rows])
    table = table.join(_rates(profile, view, asked, known) if by == "shape" and kind == "kernel" else NO_RATES)
    columns, ascending = ORDERS[asked.sort]
    table = table.sort_values(columns, ascending=ascending, kind="stable", na_position="last")
    page, cursor = asked.page(table.reset_index().to_dict("records"))
    steps = 1 if asked.step is not None else len(view.steps)
    whole = max(int((own if among is None else own_ns(profile, rank, kind, among)).sum()), 1)
    found = [
        GroupRow(
            id=group_id(by, rank, known.texts[record["index"]]),
            name=known.texts[record["index"]],
            rank=rank,
            step=asked.step,
            kind=kind,
            count=record["count"],
            total_ms=record["total_ns"] / 1e6,
            own_ms=record["own_ns"] / 1e6,
            own_ms_per_step=record["own_ns"] / 1e6 / steps,
            share_pct=100.0 * record["own_ns"] / whole,
            longest_ms=record["longest_ns"] / 1e6,
            longest=row_id(EVENT, rank, int(rows[record["longest"]])),
            exposed_ms=_exposed_ms(view, rows[known.codes == record["index"]], asked.step)
            if kind == "collective"
            else None,
            tflop_per_s=_known(record["tflop_per_s"]),
            peak_pct=_known(record["peak_pct"]),
        )
        for record in page
    ]
    return found, cursor, len(table)


def own_ns(profile: Profile, rank: int, kind: str, rows: Rows) -> Rows:
    """Own nanoseconds of some of the events of a kind."""
    return own_time(profile, rank, kind)[np.searchsorted(kind_rows(profile, rank, kind), rows)]


def _rates(profile: Profile, view: RankProfile, asked: FindEvents, known: Labels) -> pd.DataFrame:
    """Achieved arithmetic of the matrix operators with known operations, by the code of their shapes."""
    calls = roofline(profile, view.rank.rank)
    calls = calls[(calls["math"] & calls["flops"].notna()).to_numpy()]
    if asked.step is not None:
        calls = calls[view.step_of(calls["operator"].to_numpy()) == asked.step]
    if calls.empty:
        return NO_RATES
    own = labels(profile, view.rank.rank, "shape", calls["operator"].to_numpy())
    place = pd.Index(known.texts).get_indexer(pd.Index(own.texts))[own.codes]
    least = calls["flops"] / calls["peak_flops_per_s"] * 1e9
    sums = pd.DataFrame({"flops": calls["flops"], "ns": calls["device_ns"], "least": least}).groupby(place)
    total = sums.sum(min_count=1)
    rates = {"tflop_per_s": total["flops"] / total["ns"] / 1e3, "peak_pct": 100.0 * total["least"] / total["ns"]}
    return pd.DataFrame(rates)


def _known(value: float) -> float | None:
    return float(value) if value == value else None


def _exposed_ms(view: RankProfile, rows: Rows, step: int | None) -> float:
    alone = intersect(view.covered(rows), view.parts.exposed_communication)
    chosen = view.steps if step is None else view.steps[view.steps["number"] == step]
    return float(covered(alone, chosen["start_ns"].to_numpy(), chosen["end_ns"].to_numpy()).sum()) / 1e6


def _figures(context: ToolContext, asked: FindEvents, kind: str, found: list[GroupRow]) -> list[CitedFigure]:
    """Time and number per step of the first groups; none where a filter takes a part of a group."""
    part = asked.contains is not None and asked.group_by != "name"
    if (
        part
        or asked.name is not None
        or asked.outside_steps
        or (asked.from_ms, asked.to_ms, asked.min_us, asked.max_us) != (None,) * 4
    ):
        return []
    figures = []
    for each in found[:FIGURES]:
        given: dict[str, Argument] = {"rank": asked.rank, "by": asked.group_by, "name": each.name, "kind": kind}
        given |= {} if asked.step is None else {"step": asked.step}
        where = "per step" if asked.step is None else "in the step"
        figures += [
            (f"time {where} in", each.name, "events_ms", given),
            (f"number {where} of", each.name, "events_count", given),
        ]
    return named(context, figures)
