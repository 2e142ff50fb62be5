"""Open the id of anything that the tools list: an event with all around it, a collective, a gap, a step, a group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tools.agent_tools import collective_instances, gaps, steps
from tools.agent_tools.find_events import EventRow, FindEvents, GroupRow, event_row, group_rows
from tools.agent_tools.phases import Phases, phases
from tools.agent_tools.result import Result, measured, named
from tools.agent_tools.tool import Arguments, ToolContext
from tools.errors import UsageError
from tools.findings import Argument
from tools.metrics.instances import collective_of, event_of, in_step_labels
from tools.run import row_ids
from tools.run.events import HOST_WORK
from tools.run.row_ids import RowId, digest, parse
from tools.views.event_labels import forward_rows, innermost, labels, launching_rows, shaped_operators
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

Rows = NDArray[np.int64]
CHILDREN = 10  # direct children listed, the longest
ENCLOSING = 40  # events around it listed, from the inside
Detail = dict[str, str | int | float]


class OfId(Arguments):
    """An id that a tool gave."""

    id: str = Field(max_length=40, description="for example e0.1520, c0.1520, g0.3.2, s0.12, n0.1f0c9a2e")


class RelatedRow(EventRow):
    """An event and how it is related to the one that was opened."""

    relation: str = Field(
        description="itself, parent (innermost first), child (longest first), launched by, launches, "
        "parent of the launch, forward operator, operator with shapes"
    )
    details: dict[str, str | int | float] = Field(
        default_factory=dict, description="what only some events have: dims, types, stack, blocks, bytes, group, ..."
    )


def event(context: ToolContext, asked: OfId) -> Result:
    """Everything about one id: of an event its parents, children, launching call, stream, Python stack and shapes.

    Opens events (e), collectives (c), gaps (g), steps (s, w), ranks (r) and groups (n, m, p, h, t, q, u) of any tool.
    """
    profile, name = context.profile(), parse(asked.id)
    if name.letter == row_ids.EVENT:
        return _event(context, *event_of(profile, name))
    if name.letter == row_ids.COLLECTIVE:
        record = collective_of(profile, name)
        row = collective_instances.opened(profile, name.rank, int(record["row"]))
        facts, notes = measured(
            context,
            [
                ("duration", "instance_ms", {"collective": row.id}),
                ("overlap with compute", "instance_overlap_ms", {"collective": row.id}),
                *(
                    (f"overlap with {phase}", "instance_overlap_ms", {"collective": row.id, "phase": phase})
                    for phase in row.overlaps_ms
                ),
            ],
        )
        return Result(rows=(row,), total=1, facts=facts, notes=notes)
    if name.letter == row_ids.GAP:
        gap = gaps.opened(profile, name)
        return Result(rows=(gap,), total=1, facts=measured(context, [("length", "gap_ms", {"gap": gap.id})])[0])
    if name.letter in (row_ids.STEP, row_ids.RECORDED_STEP):
        return steps.opened(context, name)
    if name.letter == row_ids.RANK:
        return steps.opened_rank(context, name)
    return _group(context, name)


def _event(context: ToolContext, view: RankProfile, row: int) -> Result:
    profile = context.profile()
    found = tuple(
        RelatedRow(**event_row(view, each).model_dump(), relation=relation, details=details_of(view, each))
        for relation, each in related(profile, view, row)
    )
    here = np.array([row])
    notes = [
        f"{what}: `{_plain(labels(profile, view.rank.rank, by, here).of(0))}`"
        for what, by in (("Phase", "phase"), ("Module", "module"), ("Python line", "stack"), ("Shapes", "shape"))
    ]
    facts = named(context, [("duration of", found[0].name, "event_ms", {"event": found[0].id})])
    return Result(rows=found, total=len(found), facts=tuple(facts), notes=tuple(notes))


def _plain(text: str) -> str:
    return text.replace("`", "'")


def related(profile: Profile, view: RankProfile, row: int) -> Iterator[tuple[str, int]]:
    """The event itself and the events around, inside, before and behind it, each with its relation."""
    yield "itself", row
    around = enclosing_rows(view, row)
    yield from (("parent", int(each)) for each in around[:ENCLOSING])
    inside = direct_children(view, row)
    longest = inside[np.argsort(view.start[inside] - view.end[inside], kind="stable")][:CHILDREN]
    yield from (("child", int(each)) for each in longest)
    base = int(launching_rows(profile, view.rank.rank)[row])
    if base >= 0 and base != row:
        yield "launched by", base
        yield from (("parent of the launch", int(each)) for each in enclosing_rows(view, base)[:ENCLOSING])
    launched = view.launches["device_row"].to_numpy()[view.launches["launch_row"].to_numpy() == row]
    yield from (("launches", int(each)) for each in launched[:CHILDREN])
    if base >= 0:
        forward = int(forward_rows(view, np.array([base]))[0])
        if forward >= 0:
            yield "forward operator", forward
        shaped = int(innermost(view, np.array([base]), shaped_operators(view))[0])
        if shaped >= 0 and shaped != row:
            yield "operator with shapes", shaped


def enclosing_rows(view: RankProfile, row: int) -> Rows:
    """Host events of the same thread that cover the event, the innermost first; none for device work."""
    if int(view.kind[row]) not in [int(kind) for kind in HOST_WORK]:
        return np.empty(0, dtype=np.int64)
    same = (view.track == view.track[row]) & (view.start <= view.start[row]) & (view.end >= view.end[row])
    found = np.flatnonzero(same & np.isin(view.kind, [int(kind) for kind in HOST_WORK]))
    equal = (view.start[found] == view.start[row]) & (view.end[found] == view.end[row])
    return np.asarray(found[~equal | (found < row)][::-1], dtype=np.int64)


def direct_children(view: RankProfile, row: int) -> Rows:
    """Host events that the event encloses on its thread, without those inside of them."""
    if int(view.kind[row]) not in [int(kind) for kind in HOST_WORK]:
        return np.empty(0, dtype=np.int64)
    same = (view.track == view.track[row]) & (view.start >= view.start[row]) & (view.end <= view.end[row])
    rows = np.flatnonzero(same & np.isin(view.kind, [int(kind) for kind in HOST_WORK]))
    return view.outermost(rows[rows > row])


def details_of(view: RankProfile, row: int) -> Detail:
    """What the side tables hold on an event, without what was not recorded."""
    found: Detail = {}
    details = view.events.details
    for table in (details.operators, details.kernels, details.copies, details.collectives, details.memory):
        place = np.flatnonzero(table["row"].to_numpy() == row)[:1]
        for name, value in table.iloc[place[0]].items() if len(place) else ():
            if name != "row" and value not in ("", -1, "[]") and value == value:
                found[str(name)] = value.item() if isinstance(value, np.generic) else value
    return found


def _group(context: ToolContext, name: RowId) -> Result:
    """The group of an id, over all steps: its row of each kind of event that has it."""
    profile, view = context.profile(), context.profile().rank(name.rank)
    by = next(by for by, letter in row_ids.GROUPS.items() if letter == name.letter)
    kinds = ("kernel", "memcpy", "memset", "operator", "runtime", "annotation", "python", "sync")
    found: list[GroupRow] = []
    for kind in ("collective",) if by == "group" else kinds:
        rows, known = in_step_labels(profile, name.rank, by, kind)
        texts = [text for text in known.texts if digest(text) == name.key]
        if len(rows) and texts:
            asked = FindEvents(rank=name.rank, kind=kind, group_by=by)
            chosen = rows[known.codes == known.texts.index(texts[0])]
            found += group_rows(profile, view, asked, chosen, kind, rows)[0]
    whole = phases(context, Phases(rank=name.rank)).rows if by == "phase" else ()
    whole = tuple(row for row in whole if row.id == f"p{name.rank}.{name.key}")
    if not found and not whole:
        raise UsageError(f"no {by} on rank {name.rank} has the id {name.letter}{name.rank}.{name.key}")
    facts = []
    for row in found:
        given: dict[str, Argument] = {"rank": name.rank, "by": by, "name": row.name, "kind": row.kind}
        facts += named(context, [("time per step in", row.name, "events_ms", given)])
    return Result(rows=(*whole, *found), total=len(whole) + len(found), facts=tuple(facts))
