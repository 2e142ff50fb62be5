"""Room in device memory, and which recomputed activations would fit into it if they were kept.

What a recomputed region would take is the memory that it holds when its recomputation ends: the allocator's marks
inside the region, allocations less what is freed again. The most memory in use is the allocator's reserved memory in
the trace, else in a snapshot of the allocator, else the fullest device of sampled counters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, union
from tools.metrics.measurement import Measurement, metric, of_moments, of_rank
from tools.metrics.memory import device_marks, recomputed
from tools.metrics.recorded.memory_snapshots import history
from tools.views.counters import counter_view
from tools.views.profile import Profile, memoized

GIB = 2**30
LEFT_FREE = 0.1  # of the device's memory: activations of other sizes leave gaps, and other steps may need more
WHOLE = ("device_memory_usable_bytes", "device_memory_total_bytes")


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of a device and the most of it that was taken, in bytes, and which source states it."""

    total_bytes: float
    used_bytes: float
    source: str

    @property
    def spare_bytes(self) -> float:
        """What could be used on top, with LEFT_FREE of the device left."""
        return max(0.0, (1.0 - LEFT_FREE) * self.total_bytes - self.used_bytes)


@memoized
def device_memory(profile: Profile, rank: int) -> DeviceMemory:
    """Size and peak of a rank's device; UsageError where the run states neither."""
    sizes = [device.memory_bytes for device in profile.rank(rank).rank.devices if device.memory_bytes]
    sampled = _sampled(profile)
    total = max(sizes) if sizes else None if sampled is None else sampled.total_bytes
    if total is not None:
        if (used := _marked_bytes(profile, rank)) is not None:
            return DeviceMemory(total, used, "the allocator's marks in the trace")
        if (used := _snapshot_bytes(profile, rank)) is not None:
            return DeviceMemory(total, used, "the allocator's snapshot")
    if sampled is None:
        raise UsageError(f"how much memory of the device of rank {rank} was in use is not recorded")
    return sampled


def _marked_bytes(profile: Profile, rank: int) -> float | None:
    try:
        return float(device_marks(profile, rank)["total_reserved"].max())
    except UsageError:
        return None


def _snapshot_bytes(profile: Profile, rank: int) -> float | None:
    found = profile.run.snapshots
    own = [place for place, each in enumerate(found) if each.rank == rank or (each.rank < 0 and len(found) == 1)]
    return max((float(history(profile, place).reserved.max()) for place in own), default=None)


def _sampled(profile: Profile) -> DeviceMemory | None:
    """The fullest sampled device: which rank used which one is often not recorded."""
    view, found = counter_view(profile), list[DeviceMemory]()
    for device in view.devices.values() if view is not None else ():
        whole = next((each for each in WHOLE if device.has(each)), None)
        if whole is not None and device.has("device_memory_used_bytes"):
            total, used = (float(device.table[name].max()) for name in (whole, "device_memory_used_bytes"))
            found.append(DeviceMemory(total, used, f"samples of device {device.name}"))
    return min(found, key=lambda each: each.total_bytes - each.used_bytes, default=None)


@memoized
def recomputed_regions_of(profile: Profile, rank: int) -> pd.DataFrame:
    """One row per recomputed region in steps: track, start_ns, end_ns, step, bytes (NaN unknown), device_ns."""
    view = profile.rank(rank)
    table = pd.concat(
        [
            pd.DataFrame({"track": track, "start_ns": moments[:, 0], "end_ns": moments[:, 1]})
            for track, moments in recomputed(profile, rank).items()
        ]
        or [pd.DataFrame({"track": [], "start_ns": [], "end_ns": []}, dtype=np.int64)],
        ignore_index=True,
    )
    steps = view.steps
    at = np.searchsorted(steps["start_ns"].to_numpy(), table["start_ns"].to_numpy(), side="right") - 1
    table["step"] = steps["number"].to_numpy()[np.maximum(at, 0)]
    links = view.launches
    taken = (links["end_ns"] - links["start_ns"]).to_numpy(dtype=np.float64)
    table["device_ns"] = _sums(table, links["host_track"].to_numpy(), links["call_start_ns"].to_numpy(), taken)
    try:
        marks = device_marks(profile, rank)
    except UsageError:
        return table.assign(bytes=np.nan)
    rows = marks["row"].to_numpy()
    held = _sums(table, view.track[rows], view.start[rows], marks["bytes"].to_numpy(dtype=np.float64))
    return table.assign(bytes=np.maximum(held, 0.0) if held.any() else np.nan)


def _sums(
    table: pd.DataFrame, tracks: NDArray[np.int64], moments: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The sum of the values whose moment lies in each region, on its track."""
    sums = np.zeros(len(table))
    for track in np.unique(table["track"].to_numpy()):
        places = np.flatnonzero(table["track"].to_numpy() == track)
        own = np.flatnonzero(tracks == track)
        own = own[np.argsort(moments[own], kind="stable")]
        before = np.concatenate(([0.0], np.cumsum(values[own])))
        first, behind = (
            np.searchsorted(moments[own], table[side].to_numpy()[places]) for side in ("start_ns", "end_ns")
        )
        sums[places] = before[behind] - before[first]
    return sums


@memoized
def kept(profile: Profile, rank: int) -> pd.DataFrame:
    """The rows of ``recomputed_regions_of`` that would fit into memory in every step if they were kept.

    Those with the most device time per byte first, in each step as many as in the step where fewest fit. UsageError
    where the memory in use or that of the regions is not recorded.
    """
    spare_bytes = device_memory(profile, rank).spare_bytes
    table = recomputed_regions_of(profile, rank)
    if table.empty or table["bytes"].isna().any():
        raise UsageError(f"what the recomputed activations of rank {rank} would take is not recorded")
    order = table.assign(density=table["device_ns"] / table["bytes"].clip(lower=1.0))
    order = order.sort_values(["step", "density"], ascending=[True, False], kind="stable")
    held = order.groupby("step")["bytes"].cumsum()
    place = order.groupby("step").cumcount()
    fitting = int((held <= spare_bytes).groupby(order["step"].to_numpy()).sum().min())
    return order[(place < fitting).to_numpy()].drop(columns="density")


def kept_moments(profile: Profile, rank: int) -> dict[int, IntervalSet]:
    """By host thread, the regions of ``kept``."""
    table = kept(profile, rank)
    return {
        int(str(track)): union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
        for track, own in table.groupby("track")
    }


@metric("%", "most used share of device memory", "How full is the device's memory?")
def device_memory_pct(profile: Profile, rank: int) -> Measurement:
    """Largest reserved memory as a share of the device's memory, by trace, snapshot or samples."""
    memory = device_memory(profile, rank)
    rows = pd.DataFrame([{"total_bytes": memory.total_bytes, "used_bytes": memory.used_bytes, "of": memory.source}])
    return of_rank(profile.rank(rank), 100.0 * memory.used_bytes / memory.total_bytes, lambda: rows, memory.source)


@metric("GiB", "spare device memory", "How much more device memory could be used?")
def spare_memory_gib(profile: Profile, rank: int) -> Measurement:
    """Memory of the device less the most that was in use, and less a tenth of it that stays free."""
    memory = device_memory(profile, rank)
    rows = pd.DataFrame([{"total_bytes": memory.total_bytes, "used_bytes": memory.used_bytes, "of": memory.source}])
    return of_rank(profile.rank(rank), memory.spare_bytes / GIB, lambda: rows, memory.source)


@metric("GiB", "memory of recomputed activations per step if {which} are kept", "What would keeping activations take?")
def recomputed_gib(profile: Profile, rank: int, which: str = "all") -> Measurement:
    """Memory that the recomputed regions of a step hold when their recomputation ends: all, or those that fit."""
    table = kept(profile, rank) if which == "kept" else recomputed_regions_of(profile, rank)
    if table["bytes"].isna().any():
        raise UsageError(f"rank {rank} recorded no device memory inside of recomputation (profile_memory=True)")
    value = float(table["bytes"].sum()) / max(len(profile.rank(rank).steps), 1) / GIB
    return of_rank(profile.rank(rank), value, lambda: table, "memory marks inside of recomputation")


@metric("count", "recomputed regions per step that memory has room for", "How many regions could be kept?")
def kept_regions(profile: Profile, rank: int) -> Measurement:
    """Number of regions of a step whose activations fit into the spare memory."""
    table = kept(profile, rank)
    moments = union(table["start_ns"].to_numpy(), table["end_ns"].to_numpy())
    view = profile.rank(rank)
    return of_moments(view, len(table) / max(len(view.steps), 1), moments, "recomputed regions that fit into memory")
