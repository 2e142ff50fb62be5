"""Device operations of one rank inside a window, and what each had to wait for on the device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tools.run.events import DEVICE_WORK, EventKind
from tools.views.rank_profile import RankProfile

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

NONE = -1
IDLE_PERCENTILE = 5.0  # the launch latency that remains when nothing else is in the way
UNSEEN_LAUNCH_NS = 10_000  # launch latency where the device was never idle: common magnitude, an upper bound
NEIGHBOUR_NS = 20_000  # an operation held for no known reason is taken to have waited for one of another stream that
NEIGHBOUR_SHARE = 0.05  # ended this long before it started, or within this share of the time it was held


@dataclass(frozen=True, eq=False)
class Columns:
    """A record of equally long arrays."""

    def taken(self, which: Rows | Mask) -> Self:
        """The same at these positions."""
        return type(self)(**{name: getattr(self, name)[which] for name in self.__dataclass_fields__})

    def joined(self, *others: Self) -> Self:
        """This record and the others after each other."""
        parts = (self, *others)
        names = self.__dataclass_fields__
        return type(self)(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


@dataclass(frozen=True, eq=False)
class Operations(Columns):
    """Kernels, copies and memsets of one rank, ordered by start; arrays of shape (n,), moments in ns.

    ``anchor_ns`` is when the launching thread had set it free: the end of the call, or its start if that began earlier.
    ``fixed`` operations were launched before the window: they only occupy the device.
    """

    row: Rows
    track: Rows
    start_ns: Rows
    end_ns: Rows
    launch_row: Rows  # -1 when the call was not recorded
    host_track: Rows  # -1 when the call was not recorded
    call_start_ns: Rows  # -1 likewise
    call_end_ns: Rows
    anchor_ns: Rows
    fixed: Mask
    communication: Mask
    copied: Mask  # copies and memsets

    def __len__(self) -> int:
        return len(self.row)

    @property
    def linked(self) -> Mask:
        """Whether the launching call was recorded."""
        return self.launch_row >= 0

    def streams(self) -> list[Rows]:
        """Positions of the operations of each stream, in order of start."""
        return [np.flatnonzero(self.track == track) for track in np.unique(self.track)]


def operations(rank: RankProfile, start_ns: int, end_ns: int) -> Operations:
    """The operations launched in the window, and those launched earlier that still run in it.

    Where the host runs whole steps ahead, no call holds an operation back: they count as launched when they start.
    """
    launch_row = np.full(len(rank.kind), NONE, dtype=np.int64)
    if not rank.rank.marks:
        launch_row[rank.launches["device_row"].to_numpy()] = rank.launches["launch_row"].to_numpy()
    work = np.flatnonzero(np.isin(rank.kind, [int(kind) for kind in DEVICE_WORK]))
    calls = launch_row[work]
    called = np.where(calls >= 0, rank.start[np.maximum(calls, 0)], rank.start[work])
    chosen = work[(called < end_ns) & (rank.end[work] > start_ns)]
    ops = launched(rank, chosen, launch_row[chosen])
    return replace(ops, fixed=_fixed(ops, start_ns))


def launched(rank: RankProfile, rows: Rows, calls: Rows) -> Operations:
    """Operations with the calls (-1 unknown) that launched them; ``fixed`` is still to be set."""
    linked, known = calls >= 0, np.maximum(calls, 0)
    call_start, call_end, host_track = (
        np.where(linked, values[known] if len(values) else NONE, NONE).astype(np.int64)
        for values in (rank.start, rank.end, rank.track)
    )
    begin, kernel = rank.start[rows], rank.kind[rows] == EventKind.KERNEL
    device = rank.rank.has_device
    return Operations(
        row=rows,
        track=rank.track[rows].astype(np.int64),
        start_ns=begin,
        end_ns=np.maximum(rank.end[rows], begin + 1),
        launch_row=calls,
        host_track=host_track,
        call_start_ns=call_start,
        call_end_ns=call_end,
        anchor_ns=np.where(begin >= call_end, call_end, call_start),
        fixed=np.zeros(len(rows), dtype=bool),
        communication=kernel & rank.named("communication_kernel")[rows] if device else np.ones(len(rows), dtype=bool),
        copied=~kernel if device else np.zeros(len(rows), dtype=bool),
    )


def _fixed(ops: Operations, start_ns: int) -> Mask:
    """Launched before the window, or (launch unknown) ahead of everything whose launch is known on the stream."""
    fixed = ops.linked & (ops.call_start_ns < start_ns)
    for number in np.unique(ops.track[~ops.linked]):
        mine = ops.track == number
        known = ops.start_ns[mine & ops.linked & ~fixed]
        fixed |= mine & ~ops.linked & (ops.start_ns < (known.min() if len(known) else start_ns))
    return fixed


def stream_predecessors(ops: Operations) -> Rows:
    """For each operation the one of its stream that ended last before it started, -1 for none."""
    result = np.full(len(ops), NONE, dtype=np.int64)
    for mine in ops.streams():
        by_end = mine[np.argsort(ops.end_ns[mine], kind="stable")]
        place = np.searchsorted(ops.end_ns[by_end], ops.start_ns[mine], side="right") - 1
        result[mine] = np.where(place >= 0, by_end[np.maximum(place, 0)], NONE)
    return result


def launch_latency_ns(ops: Operations, previous: Rows) -> int:
    """From the launch to the start when the stream was idle: a low percentile over the window's operations."""
    linked = ops.linked & ~ops.fixed
    before = np.where(previous >= 0, ops.end_ns[np.maximum(previous, 0)], 0)
    delay = ops.start_ns - ops.anchor_ns
    idle = linked & (before <= ops.anchor_ns)
    if idle.sum() >= 5:
        return int(np.percentile(delay[idle], IDLE_PERCENTILE))
    return min(int(delay[linked].min()), UNSEEN_LAUNCH_NS) if linked.any() else 0


def prepared(ops: Operations, previous: Rows, latency_ns: int) -> Operations:
    """With anchors one latency before the start of operations that start inside their calls on an idle stream."""
    before = np.where(previous >= 0, ops.end_ns[np.maximum(previous, 0)], 0)
    late = ops.linked & ~ops.fixed & (ops.start_ns < ops.call_end_ns) & (before <= ops.call_start_ns)
    late &= ops.start_ns - ops.call_start_ns > latency_ns
    return replace(ops, anchor_ns=np.where(late, ops.start_ns - latency_ns, ops.anchor_ns))


def gap_ns(ops: Operations, previous: Rows) -> int:
    """From the end of one operation to the start of the next when that one was launched long before (median)."""
    queued = ops.linked & (previous >= 0)
    ended = ops.end_ns[np.maximum(previous, 0)]
    queued &= ops.call_end_ns < ended
    return int(np.median((ops.start_ns - ended)[queued])) if queued.any() else 0


def place_of(wanted: Rows, ids: Rows) -> Rows:
    """The position of each wanted id among the ids, -1 for one that is not there or negative."""
    if not len(ids):
        return np.full(len(wanted), NONE, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    place = order[np.minimum(np.searchsorted(ids[order], wanted), len(order) - 1)]
    return np.where((ids[place] == wanted) & (wanted >= 0), place, NONE)


def latest_before(ops: Operations, members: Rows, launched_ns: Rows, ended_ns: Rows) -> Rows:
    """For each moment the last member (of one stream) launched before one limit and ended by the other, -1 for none."""
    called = np.maximum.accumulate(ops.call_start_ns[members])
    finished = np.maximum.accumulate(ops.end_ns[members])
    place = np.minimum(
        np.searchsorted(called, launched_ns, side="left"), np.searchsorted(finished, ended_ns, side="right")
    )
    if not len(members):
        return np.full(len(launched_ns), NONE)
    return np.where(place > 0, members[np.maximum(place - 1, 0)], NONE)
