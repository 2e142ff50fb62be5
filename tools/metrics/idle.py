"""Reasons for device idle time: every gap of a rank's device, split by what the host did meanwhile.

A gap is a stretch inside one step in which no kernel, copy or memset runs on any stream. Its time belongs to the
first of these that holds:

==================  ==================================================================================================
data                a training thread asks its data loader for a batch
launched            launched work has not started yet: launch latency, a stream that waits for another, a full device
upload              the host prepares a pageable host-to-device copy
allocation          the host allocates or frees memory
compilation         the host compiles
collection          Python collects garbage
stall               a long pause: for longer than an operator takes the host neither begins nor ends one, nor a call
synchronization     the host lost its lead because it had waited for the device (``tools.views.host.blocking``)
dispatch            the rest of a short gap: the host needs longer to launch than the device to run
stall               the rest of a long gap: the host does something else than launching
==================  ==================================================================================================

A long pause counts before the wait for the device: the same wait costs next to nothing where the host goes straight
on. HTA's idle breakdown is per stream: its "host wait" is everything here but ``launched``, its "kernel wait" a gap
below 30 ns. A stream may wait while another works, so the figures here, for the whole device, are smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import EMPTY, IntervalSet, covered, distinct, intersect, merge, subtract, union
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events, of_rank, over_steps
from tools.run.events import EventKind
from tools.views.host.blocking import bursts, upload_calls
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

HOST_SPANS = {"allocation": "device_allocation", "compilation": "compilation", "collection": "garbage_collection"}
REASONS = ("data", "launched", "upload", *HOST_SPANS, "synchronization", "dispatch", "stall")


@dataclass(frozen=True, eq=False)
class IdleTime:
    """The gaps of one rank.

    ``gaps``: start_ns, end_ns, step, host_track (whose launch ended the gap, -1 unknown) and ``<reason>_ns`` for each
    of ``REASONS``. ``sets`` holds the moments of every reason; those of ``synchronization`` are the gaps that it
    explains for more than half of what the reasons before it leave, and these are left out of ``dispatch`` and of the
    rest of long gaps.
    """

    gaps: pd.DataFrame
    sets: Mapping[str, IntervalSet]

    def by_track(self, reason: str) -> dict[int, IntervalSet]:
        """The moments of a reason, by the host thread that had to launch next."""
        known = self.gaps[self.gaps["host_track"] >= 0].groupby("host_track")
        spans = {int(str(track)): union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy()) for track, own in known}
        return {track: intersect(self.sets[reason], own) for track, own in spans.items()}


@memoized
def idle_time(profile: Profile, rank: int) -> IdleTime:
    """The idle time of one rank's device inside its steps; empty on a rank without a device."""
    view = profile.rank(rank)
    parts, limit_us = view.parts, profile.thresholds["dispatch_gap_us"]
    unused = merge(parts.data_wait, parts.host, parts.idle) if view.rank.has_device else EMPTY
    gaps = intersect(unused, view.steps[["start_ns", "end_ns"]].to_numpy())
    sets = {"data": parts.data_wait, "launched": parts.idle}
    rest = parts.host
    for reason, spans in _host_spans(profile, view).items():
        sets[reason] = intersect(rest, spans)
        rest = subtract(rest, spans)
    paused = long_pauses(view, rest, limit_us)
    rest = subtract(rest, paused)
    start, end = gaps[:, 0], gaps[:, 1]
    columns = {reason: covered(moments, start, end) for reason, moments in sets.items()}
    left = covered(rest, start, end)
    columns["synchronization"] = explained_by_bursts(bursts(profile, view.rank.rank), start, left)
    short = (end - start) <= limit_us * 1e3
    remainder = left - columns["synchronization"]
    columns["dispatch"] = np.where(short, remainder, 0)
    columns["stall"] = np.where(short, 0, remainder) + covered(paused, start, end)
    lost = columns["synchronization"] * 2 > left
    for reason, chosen in (("synchronization", lost), ("dispatch", short & ~lost), ("stall", ~short & ~lost)):
        sets[reason] = intersect(rest, gaps[chosen])
    sets["stall"] = merge(sets["stall"], paused)
    return IdleTime(_gap_frame(view, gaps, columns), sets)


@memoized
def idle_by_step(profile: Profile, rank: int) -> pd.DataFrame:
    """Idle ns of a rank in each of its steps: a column per reason and their sum ``all``; rows in step order."""
    gaps = idle_time(profile, rank).gaps
    sums = gaps[[f"{reason}_ns" for reason in REASONS]].groupby(gaps["step"]).sum()
    table = sums.set_axis(list(REASONS), axis=1).reindex(profile.rank(rank).steps["number"], fill_value=0)
    return table.assign(all=table.sum(axis=1))


def long_pauses(rank: RankProfile, moments: IntervalSet, limit_us: float) -> IntervalSet:
    """Parts of the moments longer than the limit in which no operator or call of a training thread starts or ends."""
    if not len(moments):
        return EMPTY
    active = np.isin(rank.kind, (int(EventKind.OPERATOR), int(EventKind.RUNTIME))) & rank.on_training_thread
    cuts = distinct(np.concatenate((moments.ravel(), rank.start[active], rank.end[active])))
    pieces = np.column_stack((cuts[:-1], cuts[1:]))
    return intersect(pieces[pieces[:, 1] - pieces[:, 0] > limit_us * 1e3], moments)


def _host_spans(profile: Profile, rank: RankProfile) -> dict[str, IntervalSet]:
    uploads = upload_calls(profile, rank.rank.rank)
    named = {reason: rank.named(pattern) & rank.on_training_thread for reason, pattern in HOST_SPANS.items()}
    moments = {reason: rank.covered(np.flatnonzero(chosen)) for reason, chosen in named.items()}
    return {"upload": union(uploads["start_ns"].to_numpy(), uploads["end_ns"].to_numpy()), **moments}


def explained_by_bursts(waits: pd.DataFrame, start: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of what is left of each gap that earlier blocking waits explain: they cost the host its lead."""
    explained = np.zeros(len(start), dtype=np.int64)
    if waits.empty or not len(start):
        return explained
    place = np.searchsorted(waits["start_ns"].to_numpy(), start, side="right") - 1
    after = np.flatnonzero(place >= 0)
    place, left = place[after], left[after]
    waited, total = waits["waited_ns"].to_numpy(), np.cumsum(left)
    following = np.zeros(len(waits), dtype=np.int64)
    np.add.at(following, place, left)
    balance = np.cumsum(waited - following)
    kept = balance - np.minimum(np.minimum.accumulate(balance), 0)
    first = np.searchsorted(place, place, side="left")
    before = total - left - (total[first] - left[first])
    explained[after] = np.clip((waited + np.append(0, kept[:-1]))[place] - before, 0, left)
    return explained


def _gap_frame(rank: RankProfile, gaps: IntervalSet, columns: dict[str, NDArray[np.int64]]) -> pd.DataFrame:
    place = np.searchsorted(rank.launches["start_ns"].to_numpy(), gaps[:, 1])
    track = np.append(rank.launches["host_track"].to_numpy(), -1)[place]
    step = np.searchsorted(rank.steps["start_ns"].to_numpy(), gaps[:, 0], side="right") - 1
    frame = {"start_ns": gaps[:, 0], "end_ns": gaps[:, 1], "step": rank.steps["number"].to_numpy()[step]}
    return pd.DataFrame({**frame, "host_track": track, **{f"{reason}_ns": columns[reason] for reason in REASONS}})


@metric("ms", "{statistic} device idle time per step {reason}", "How long is the device idle, and why?")
def device_idle_ms(profile: Profile, rank: int, reason: str = "all", statistic: str = "mean") -> Measurement:
    """Idle time of a rank's device per step, for one reason of ``tools.metrics.idle`` or for all."""
    choice("idle reason", reason, ("all", *REASONS))
    view, gaps = profile.rank(rank), idle_time(profile, rank).gaps
    if not view.rank.has_device:
        raise UsageError(f"rank {rank} has no device that could be idle")
    value = over_steps(idle_by_step(profile, rank)[reason].to_numpy() / 1e6, statistic)
    shown = gaps if reason == "all" else gaps[gaps[f"{reason}_ns"] > 0]
    return of_rank(view, value, lambda: shown, f"device idle, reason {reason}: time in which no stream runs")


@metric("%", "device idle share of the step {reason}", "Which share of a step is the device idle, and why?")
def device_idle_pct(profile: Profile, rank: int, reason: str = "all") -> Measurement:
    """Share of a rank's step time in which its device is idle for that reason."""
    return as_pct(device_idle_ms(profile, rank, reason), float(profile.rank(rank).wall_ms.mean()))


@metric("%", "device busy share of the step", "Which share of a step does the device run kernels?")
def device_busy_pct(profile: Profile, rank: int) -> Measurement:
    """Share of a rank's step time in which at least one kernel runs on its device."""
    view = profile.rank(rank)
    if not view.rank.has_device:
        raise UsageError(f"rank {rank} has no device that could be busy")
    value = 100.0 * view.per_step_ms(view.covered(view.kernels)).sum() / view.wall_ms.sum()
    return of_events(view, value, view.in_steps(view.kernels), "kernels in steps: time in which any runs")
