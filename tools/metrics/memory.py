"""Allocation of device memory inside steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import EMPTY, IntervalSet, covered, intersect, length, merge, union
from tools.metrics.host.program import starved
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events, of_moments, of_rank
from tools.run.events import EventKind
from tools.run.kinds import ASCEND_FORMAT
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile


def allocation_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of calls that allocate or free device or pinned memory in the steps after the first, which may warm up."""
    named = view.named("device_allocation") | view.named("host_allocation")
    calls = np.flatnonzero(named & (view.kind == EventKind.RUNTIME) & view.on_training_thread)
    number = view.step_of(calls)
    later = (number >= 0) & (number != int(view.steps["number"].iloc[0]))
    return np.asarray(calls[later], dtype=np.int64)


ON_DEVICE = 1
MIB = 2**20


def device_marks(profile: Profile, rank: int) -> pd.DataFrame:
    """The allocator's marks on a device: columns of ``Details.memory`` and start_ns."""
    view = profile.rank(rank)
    marks = view.events.details.memory
    marks = marks[marks["device_type"] == ON_DEVICE]
    if marks.empty or not np.any(marks["total_reserved"] > 0):
        raise UsageError(f"rank {rank} recorded no device memory totals (record with profile_memory=True)")
    return marks.assign(start_ns=view.start[marks["row"].to_numpy()])


def _in_use(profile: Profile, rank: int) -> pd.DataFrame:
    """The marks, where they hold what of the reserved memory is in use."""
    marks = device_marks(profile, rank)
    if not np.any(marks["total_allocated"] >= 0):
        raise UsageError(f"rank {rank} recorded what it took from the device, not what of it was in use")
    return marks


ALL_COMPONENTS = "PTA+GE"  # of Ascend's table: the allocators of PyTorch and of the graph engine together


def _tabled(profile: Profile, rank: int) -> pd.DataFrame | None:
    """Samples of a rank in the tables of an Ascend profiler; None where they hold none."""
    samples = None if profile.run.ascend is None else profile.run.ascend.memory
    if samples is None:
        return None
    own = samples[((samples["rank"] == rank) & (samples["component"] == ALL_COMPONENTS)).to_numpy()]
    return own if len(own) else None


@metric("MiB", "peak {what} device memory", "How much device memory does the run use?")
def memory_peak_mib(profile: Profile, rank: int, what: str = "allocated") -> Measurement:
    """Largest device memory in use (``allocated``) or held by the allocator (``reserved``) on one device."""
    choice("memory figure", what, ("allocated", "reserved"))
    if (tabled := _tabled(profile, rank)) is not None:
        value = float(tabled[f"{what}_mb"].max()) * 1e6 / MIB
        if not np.isfinite(value):
            raise UsageError(f"memory_record of rank {rank} has no column of {what} memory")
        return Measurement(
            value, lambda: tabled, "samples in memory_record, all components", (rank,), source=ASCEND_FORMAT
        )
    marks = device_marks(profile, rank) if what == "reserved" else _in_use(profile, rank)
    return of_rank(profile.rank(rank), marks[f"total_{what}"].max() / MIB, lambda: marks, "memory marks of the device")


@metric("%", "share of reserved memory unused at the peak", "How much reserved memory is unused at the peak?")
def memory_unused_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the reserved memory that is not allocated when the allocation peaks: fragmentation and cache."""
    marks = _in_use(profile, rank)
    peak = marks.iloc[int(marks["total_allocated"].to_numpy().argmax())]
    value = 100.0 * (1.0 - int(peak["total_allocated"]) / max(int(peak["total_reserved"]), 1))
    return of_rank(profile.rank(rank), value, lambda: marks, "memory marks of the device, at the peak")


@metric("%", "peak reserved share of device memory", "How full is the device's memory?")
def memory_used_pct(profile: Profile, rank: int) -> Measurement:
    """Largest reserved memory as a share of the device's memory."""
    view, marks = profile.rank(rank), device_marks(profile, rank)
    sizes = [device.memory_bytes for device in view.rank.devices if device.memory_bytes]
    if not sizes:
        raise UsageError(f"the memory size of the device of rank {rank} is not recorded")
    return of_rank(view, 100.0 * marks["total_reserved"].max() / max(sizes), lambda: marks, "memory marks, device size")


@metric("calls", "memory allocation calls per step", "How often does a step allocate device memory?")
def allocation_calls(profile: Profile, rank: int) -> Measurement:
    """Device memory allocation calls per step after the first step, on the training threads."""
    return _per_later_step(profile, rank, len(allocation_rows(profile.rank(rank))), "allocation calls")


@metric("ms", "memory allocation time per step", "How long does a step allocate device memory?")
def allocation_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in these calls after the first step."""
    view = profile.rank(rank)
    return _per_later_step(profile, rank, _allocating_ms(view, view.covered(allocation_rows(view))), "allocation calls")


@metric("ms", "exposed memory allocation time per step", "How long does the device wait for memory allocation?")
def allocation_exposed_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in these calls while the device has nothing to do."""
    view = profile.rank(rank)
    exposed = intersect(view.covered(allocation_rows(view)), starved(view))
    return _per_later_step(profile, rank, _allocating_ms(view, exposed), "allocation calls while the device is idle")


def _allocating_ms(view: RankProfile, moments: IntervalSet) -> float:
    return float(view.per_step_ms(moments).sum())


def _per_later_step(profile: Profile, rank: int, total: float, selector: str) -> Measurement:
    view = profile.rank(rank)
    return of_events(view, total / max(len(view.steps) - 1, 1), allocation_rows(view), selector)


@memoized
def recomputed(profile: Profile, rank: int) -> dict[int, IntervalSet]:
    """By host thread, stretches that recompute: a forward operator inside a backward node until its backward work."""
    view = profile.rank(rank)
    forward = view.in_steps(np.flatnonzero(view.named("forward_operator")))
    tracks = [int(track) for track in np.unique(view.track[forward])]
    found = {track: _stretches(view, forward[view.track[forward] == track], track) for track in tracks}
    return {track: moments for track, moments in found.items() if len(moments)}


def recomputed_kernels(
    profile: Profile, rank: int, stretches: Mapping[int, IntervalSet] | None = None
) -> NDArray[np.int64]:
    """Rows of device work launched in these stretches, all of ``recomputed`` where none are given."""
    links = profile.rank(rank).launches
    stretches = recomputed(profile, rank) if stretches is None else stretches
    called, inside = links["call_start_ns"].to_numpy(), np.zeros(len(links), dtype=bool)
    for track, moments in stretches.items():
        inside |= (covered(moments, called, called + 1) > 0) & (links["host_track"] == track).to_numpy()
    return np.sort(links["device_row"].to_numpy()[inside])


def _stretches(view: RankProfile, forward: NDArray[np.int64], track: int) -> IntervalSet:
    nodes = view.in_steps(np.flatnonzero(view.named("backward_node") & (view.track == track)))
    never = np.iinfo(np.int64).max
    begin = np.append(view.start[forward], never)[np.searchsorted(view.start[forward], view.start[nodes])]
    holding = begin < view.end[nodes]
    begin, last = begin[holding], view.end[nodes[holding]]
    marks = view.start[view.named("backward_work") & (view.track == track)]
    until = np.append(marks, never)[np.searchsorted(marks, begin, side="right")]
    return union(begin, np.minimum(until, last))


@metric("ms", "activation recomputation time per step", "How long does a step recompute activations?")
def recomputed_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step of recomputation: of the device where the rank has one, else of the host."""
    return _of(profile, rank, length(_moments(profile, rank)) / 1e6 / len(profile.rank(rank).steps))


@metric("%", "activation recomputation share of the step", "Which share of the step is recomputation?")
def recomputed_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of the rank's steps."""
    return as_pct(recomputed_ms(profile, rank), float(profile.rank(rank).wall_ms.mean()))


@metric("count", "recomputed regions per step", "How many regions does a step recompute?")
def recomputed_regions(profile: Profile, rank: int) -> Measurement:
    """Number of regions that a step recomputes."""
    count = sum(len(moments) for moments in recomputed(profile, rank).values())
    return _of(profile, rank, count / len(profile.rank(rank).steps))


def _moments(profile: Profile, rank: int) -> IntervalSet:
    view = profile.rank(rank)
    if view.rank.has_device:
        return view.covered(recomputed_kernels(profile, rank))
    return merge(EMPTY, *recomputed(profile, rank).values())


def _of(profile: Profile, rank: int, value: float) -> Measurement:
    return of_moments(
        profile.rank(rank), value, _moments(profile, rank), "forward operators inside nodes of the backward"
    )
