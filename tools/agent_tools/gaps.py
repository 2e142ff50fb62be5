"""Gaps of the device: stretches of a step in which it runs nothing, and what the host did meanwhile."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from tools.agent_tools.result import FIGURES, Figure, Paged, Result, Row, measured, named
from tools.agent_tools.tool import ToolContext
from tools.findings import Argument
from tools.intervals import length, union
from tools.metrics.idle import REASONS
from tools.metrics.instances import gap_of, numbered_gaps
from tools.run.events import HOST_WORK
from tools.run.row_ids import EVENT, GAP, RowId, row_id
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.work import own_ns

HOST_NAMES = 4  # names listed per gap


class Gaps(Paged):
    """The gaps in question."""

    rank: int = Field(ge=0)
    step: int | None = Field(default=None, ge=0)
    min_us: float = Field(default=0.0, ge=0, description="at least so long; 1000 for gaps over 1 ms")
    max_us: float | None = Field(default=None, gt=0, description="shorter than that")


class HostActivity(Row):
    """What the host's training threads did in a gap, by name: time of their own inside the gap."""

    name: str
    own_ms: float


class GapRow(Row):
    """One gap. ``reasons_ms`` adds up to ``duration_ms``; ``unrecorded_ms`` of it no host event of a training thread
    covers."""

    rank: int
    step: int
    start_ms: float
    duration_ms: float
    reason: str = Field(description="the reason with most of the time, see docs/tools.md")
    reasons_ms: dict[str, float]
    host: tuple[HostActivity, ...] = Field(description="innermost host events, most time first; ids open the longest")
    unrecorded_ms: float
    before: str | None = Field(description="id of the device work that ended last before it")
    after: str | None = Field(description="id of the device work that ends it")


def gaps(context: ToolContext, asked: Gaps) -> Result:
    """Gaps of a rank's device, the longest first: reason, what the host did in them, what ran before and after.

    Reasons: data, launched (queued work has not started), upload, allocation, compilation, collection (Python's garbage
    collector), synchronization, dispatch (short: the host launches slower than the device runs), stall (long: the host
    does something else). Facts give the idle time per step by reason.
    """
    profile, view = context.profile(), context.profile().rank(asked.rank)
    if not view.rank.has_device:
        lack = f"Rank {asked.rank} has no device that could be idle; phases and find_events show what its host does."
        return Result(notes=(lack,))
    table = numbered_gaps(profile, asked.rank)
    if asked.step is not None:
        table = table[(table["step"] == view.rank.step(asked.step).number).to_numpy()]
    length_ns = (table["end_ns"] - table["start_ns"]).to_numpy()
    short_enough = asked.max_us is None or length_ns < round(asked.max_us * 1e3)
    table = table[(length_ns >= round(asked.min_us * 1e3)) & short_enough]
    table = table.iloc[np.argsort((table["start_ns"] - table["end_ns"]).to_numpy(), kind="stable")]
    chosen, cursor = asked.window(len(table))
    rows = tuple(gap_row(view, record) for _, record in table.iloc[chosen].iterrows())
    facts = named(context, [("length of gap", each.id, "gap_ms", {"gap": each.id}) for each in rows[:FIGURES]])
    idle, notes = measured(context, _idle(asked.rank))
    return Result(rows=rows, cursor=cursor, total=len(table), facts=(*facts, *idle), notes=notes)


def _idle(rank: int) -> list[Figure]:
    figures: list[Figure] = [("idle per step in all", "device_idle_ms", {"rank": rank})]
    for reason in REASONS:
        where: dict[str, Argument] = {"rank": rank, "reason": reason}
        label = f"idle per step, {reason}"
        figures += [(label, "device_idle_ms", where), (f"{label}, share of the step", "device_idle_pct", where)]
    return figures


def opened(profile: Profile, asked: RowId) -> GapRow:
    """The row of a gap's id."""
    return gap_row(*gap_of(profile, asked))


def gap_row(view: RankProfile, record: pd.Series[int]) -> GapRow:
    """One row from a record of ``numbered_gaps``."""
    rank, start, end = view.rank.rank, int(record["start_ns"]), int(record["end_ns"])
    reasons = {reason: int(record[f"{reason}_ns"]) / 1e6 for reason in REASONS}
    host, unrecorded_ns = host_activity(view, start, end)
    device = np.sort(np.concatenate((view.kernels, view.copies)))
    following = device[np.searchsorted(view.start[device], end, side="left") :][:1]
    earlier = device[view.end[device] <= start]
    before = earlier[np.argmax(view.end[earlier])] if len(earlier) else None
    return GapRow(
        id=row_id(GAP, rank, int(record["step"]), int(record["number"])),
        rank=rank,
        step=int(record["step"]),
        start_ms=start / 1e6,
        duration_ms=(end - start) / 1e6,
        reason=max(reasons, key=lambda reason: reasons[reason]),
        reasons_ms={reason: own_ms for reason, own_ms in reasons.items() if own_ms},
        host=host,
        unrecorded_ms=unrecorded_ns / 1e6,
        before=None if before is None else row_id(EVENT, rank, int(before)),
        after=row_id(EVENT, rank, int(following[0])) if len(following) else None,
    )


def host_activity(view: RankProfile, start_ns: int, end_ns: int) -> tuple[tuple[HostActivity, ...], int]:
    """Host events of training threads in a window by own time inside it, and the time that none of them covers."""
    rows = _host_rows(view)
    rows = rows[(view.start[rows] < end_ns) & (view.end[rows] > start_ns)]
    start, end = np.maximum(view.start[rows], start_ns), np.minimum(view.end[rows], end_ns)
    order = np.lexsort(
        (view.start[rows] - view.end[rows], start)
    )  # the cut may put an inner event before its outer one
    rows, start, end = rows[order], start[order], end[order]
    own = own_ns(view.track[rows], start, end)
    unrecorded = end_ns - start_ns - length(union(start, end))
    sums = np.bincount(view.codes[rows], weights=own) if len(rows) else np.empty(0)
    found = []
    for code in np.argsort(-sums, kind="stable")[:HOST_NAMES]:
        if sums[code] > 0:
            mine = np.flatnonzero(view.codes[rows] == code)
            longest = rows[mine[np.argmax(own[mine])]]
            name = str(view.categories[code])
            found.append(
                HostActivity(id=row_id(EVENT, view.rank.rank, int(longest)), name=name, own_ms=sums[code] / 1e6)
            )
    return tuple(found), unrecorded


def _host_rows(view: RankProfile) -> NDArray[np.int64]:
    host = np.isin(view.kind, [int(kind) for kind in HOST_WORK]) & ~view.named("profiler_step")
    return np.flatnonzero(host & view.on_training_thread)
