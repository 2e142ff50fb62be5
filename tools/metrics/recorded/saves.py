"""Bytes that processes wrote, as the monitor counted them: around the long steps of a rhythm, and in every step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import EMPTY, IntervalSet, covered, intersect, length, merge, union
from tools.metrics.idle import idle_time
from tools.metrics.measurement import Measurement, metric, of_events, of_moments
from tools.run.events import EventKind
from tools.views.host.blocking import blocking_calls
from tools.views.host.records import NS_PER_S, HostRecords
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import Stalls

# By bytes that went to storage, else by any write call: a file server is written to through a socket.
COUNTERS = ("write_bytes", "write_chars")
LEAST_UNPLACED_BYTES = 1e7  # where nothing shows that it is written in the stalls: no log writes as much
LEAST_BYTES = 1e5  # fewer in one stall is a log line, not a checkpoint
WRITTEN_STALLS = 0.5  # of the stalls: what is written around fewer of them, as once at the end, is not what they are


@dataclass(frozen=True, eq=False)
class StallWrites:
    """Writes of a rank around each stall beyond its steady writes."""

    counter: str
    bytes_per_stall: float
    share: float  # of all that it wrote in usual steps
    bytes_per_s: float  # of the long steps' excess
    spans: pd.DataFrame
    placed: bool = True  # whether samples show that it is written in the stalls and not between them


def stall_writes(records: HostRecords, series: RunSeries, stalls: Stalls, rank: int) -> StallWrites | None:
    """None where the records do not count writes, or where it is not around most of the long steps that it writes."""
    if rank not in records.ranks:
        return None
    spans = records.spans(rank)
    if spans.empty:
        return None
    long = series.of(rank)
    chosen = long["step"].isin(stalls.steps).to_numpy(dtype=bool)
    stall = np.cumsum(np.diff(np.flatnonzero(chosen), prepend=-2) > 1)  # neighbouring long steps are one
    begin, end = (long.loc[chosen, name].to_numpy(dtype=np.int64) for name in ("begin_unix_ns", "end_unix_ns"))
    first, last = (spans[name].to_numpy(dtype=np.int64) for name in ("begin_ns", "end_ns"))
    from_span, to_span = np.searchsorted(last, begin, side="right"), np.searchsorted(first, end)
    known = np.flatnonzero(to_span > from_span)
    ids, at = np.unique(stall[known], return_index=True)
    held, last_at = len(ids), np.append(at[1:], len(known)) - 1
    around = np.column_stack((from_span[known[at]], to_span[known[last_at]])) if held else np.empty((0, 2), np.int64)
    inside = covered(union(begin, end), first, last)
    holding = inside > 0
    if (
        held and np.median(_stalls_each(around, len(spans))) > 1
    ):  # nothing shows where between two samples it is written
        return _unplaced(spans, stalls, held, around)
    if holding.all():  # samples are too far apart to fall between the stalls: those that hold most of one
        share = inside / np.maximum(last - first, 1)
        holding = share > share.mean()
        if held and holding.all() == holding.any():
            return _unplaced(spans, stalls, held, around)
    if not held or holding.all() or not holding.any():
        return None
    length_s = (last - first) / NS_PER_S
    for counter in COUNTERS:
        written = spans[counter].fillna(0.0).to_numpy(dtype=np.float64)
        usual_rate = written[~holding].sum() / length_s[~holding].sum()
        beyond = np.where(holding, written - usual_rate * length_s, 0.0)
        extra = float(beyond.sum())
        per_stall = extra / held
        if per_stall >= LEAST_BYTES and _around_most(beyond, around):
            share_written = extra / max(float(written.sum()), 1.0)
            speed = per_stall / max(stalls.excess_ms / 1e3, 1e-6)
            return StallWrites(counter, per_stall, share_written, speed, spans[holding])
    return None


def _around_most(written: NDArray[np.float64], around: NDArray[np.int64]) -> bool:
    """Return whether the samples around most of the stalls hold such writes, and not those of a few alone.

    ``around`` has the first span that each stall touches, and the one behind the last.
    """
    before = np.concatenate(([0.0], np.cumsum(written)))
    each = before[around[:, 1]] - before[around[:, 0]]
    return bool(np.mean(each >= LEAST_BYTES) >= WRITTEN_STALLS)


def _stalls_each(around: NDArray[np.int64], spans: int) -> NDArray[np.int64]:
    """The number of stalls that each of so many spans between samples touches."""
    change = np.zeros(spans + 1, dtype=np.int64)
    np.add.at(change, around[:, 0], 1)
    np.add.at(change, around[:, 1], -1)
    return np.cumsum(change)[:-1]


def _unplaced(spans: pd.DataFrame, stalls: Stalls, held: int, around: NDArray[np.int64]) -> StallWrites | None:
    """What went to storage, where no sample lies between the stalls: so much that only saving writes it."""
    written = spans["write_bytes"].fillna(0.0).to_numpy(dtype=np.float64)
    per_stall = float(written.sum()) / held
    if per_stall < LEAST_UNPLACED_BYTES or not _around_most(written, around):
        return None
    speed = per_stall / max(stalls.excess_ms / 1e3, 1e-6)
    return StallWrites("write_bytes", per_stall, 1.0, speed, spans, placed=False)


# A saving that the training waits for first brings tensors to the host, in blocking copies of far more bytes than a
# loss or a metric has, and then keeps the host from launching anything while it packs and writes them. It comes in
# few steps; what is copied in most steps is offloaded or read, not saved; ``FEW_STEPS`` do not show which. Where
# Python frames are recorded they name it, or show that it is something else.


FEW_STEPS = 2  # recorded: one that copies may then be like all the others
MOST_STEPS = 0.5  # of the steps: what happens in more of them is not the saving of a state at intervals


@dataclass(frozen=True, eq=False)
class Saves:
    """The savings of one rank."""

    steps: tuple[int, ...]  # numbers of the steps that hold one
    copied_bytes: int  # what these bring to the host, in all
    copies: NDArray[np.int64]  # rows of the copies
    moments: IntervalSet  # when the device is idle for the host's pause from the first copy on
    copying: IntervalSet  # when nothing but the copies runs
    frames: IntervalSet  # the part of the moments inside Python frames that save
    framed: IntervalSet  # the part of the moments inside any Python frames
    track: int


NO_SAVES = Saves((), 0, np.empty(0, dtype=np.int64), EMPTY, EMPTY, EMPTY, EMPTY, -1)


@memoized
def saves(profile: Profile, rank: int) -> Saves:
    """The savings that the trace of a rank with a device shows."""
    view = profile.rank(rank)
    copies = _copied_back(profile, view)
    per_step = copies.groupby("step")["bytes"].sum()
    large = per_step[per_step >= profile.thresholds["state_copy_bytes"]]
    if large.empty or FEW_STEPS < len(view.steps) < len(large) / MOST_STEPS:
        return NO_SAVES
    copies = copies[copies["step"].isin(large.index)]
    begun = copies.groupby("step")["start_ns"].min()
    ends = view.steps.set_index("number")["end_ns"].loc[begun.index]
    after = np.column_stack((begun.to_numpy(), ends.to_numpy()))
    moments = intersect(idle_time(profile, view.rank.rank).sets["stall"], after)
    python = (view.kind == EventKind.PYTHON) & view.on_training_thread
    named, framed = np.flatnonzero(view.named("saving_frame") & python), np.flatnonzero(python)
    return Saves(
        steps=tuple(int(number) for number in begun.index),
        copied_bytes=int(large.sum()),
        copies=copies["row"].to_numpy(),
        moments=moments,
        copying=intersect(view.parts.exposed_memcpy, after),
        frames=intersect(moments, view.covered(named)),
        framed=intersect(moments, view.covered(framed)),
        track=int(copies["track"].iloc[0]),
    )


def lost(found: Saves) -> IntervalSet:
    """The time in which the device computes nothing for the saving's sake."""
    return merge(found.moments, found.copying)


def _copied_back(profile: Profile, view: RankProfile) -> pd.DataFrame:
    """The blocking copies to the host inside steps: row and track of the call, step, start_ns, bytes."""
    calls = blocking_calls(profile, view.rank.rank)
    links = view.launches[view.launches["launch_row"].isin(calls.loc[calls["read_back"], "row"])]
    copies = view.events.details.copies
    sizes = np.append(copies["bytes"].to_numpy(), 0)[view.places(copies, links["device_row"].to_numpy())]
    table = links[["launch_row", "host_track", "call_start_ns"]].set_axis(["row", "track", "start_ns"], axis=1)
    return table.assign(step=view.step_of(table["row"].to_numpy()), bytes=np.maximum(sizes, 0))


@metric("ms", "device wait per step for checkpoint saving", "How long does the device wait for a checkpoint?")
def save_stall_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step, over all steps, in which the device computes nothing because a state is saved."""
    return _time(profile, rank, lost(_found(profile, rank)), "device idle behind large copies to the host, and in them")


@metric("ms", "host pause per step after checkpoint copies", "How long does the host pause after copying?")
def save_pause_ms(profile: Profile, rank: int) -> Measurement:
    """The part of it in which the host launches nothing after the copies."""
    return _time(profile, rank, _found(profile, rank).moments, "device idle behind large copies to the host")


@metric("steps", "steps that save a checkpoint", "In how many steps is a checkpoint saved?")
def save_steps(profile: Profile, rank: int) -> Measurement:
    """Number of of the recorded steps a state is saved."""
    found = _found(profile, rank)
    return of_events(profile.rank(rank), len(found.steps), found.copies, "steps with large read-backs")


@metric("B", "bytes copied to the host per checkpoint step", "How much does a checkpoint copy to the host?")
def saved_bytes(profile: Profile, rank: int) -> Measurement:
    """Bytes that such a step copies to the host in blocking copies."""
    found = _found(profile, rank)
    value, selector = found.copied_bytes / len(found.steps), "blocking copies to the host in such a step"
    return of_events(profile.rank(rank), value, found.copies, selector)


@metric("%", "share of those pauses in Python frames that save", "Do Python frames show a checkpoint saved?")
def save_frames_pct(profile: Profile, rank: int) -> Measurement:
    """Share of those pauses inside Python frames that save."""
    found = _found(profile, rank)
    value = 100.0 * length(found.frames) / max(length(found.moments), 1)
    return of_moments(profile.rank(rank), value, found.frames, "frames that save, while the device is idle")


def _time(profile: Profile, rank: int, moments: IntervalSet, selector: str) -> Measurement:
    view = profile.rank(rank)
    return of_moments(view, float(np.mean(view.per_step_ms(moments))), moments, selector)


def _found(profile: Profile, rank: int) -> Saves:
    found = saves(profile, rank)
    if not found.steps:
        raise UsageError(f"the trace of rank {rank} shows no step that saves a state")
    return found
