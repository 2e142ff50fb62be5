"""Figures of allocator snapshots: sizes at the end and at the peak, unused parts of segments, calls to the device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.run.model import SNAPSHOT_FORMAT
from tools.run.recorded.memory_snapshots import MemorySnapshot
from tools.views.profile import Profile, memoized

ALLOCATED, FREED = "alloc", "free_completed"
RESERVED, RETURNED = ("segment_alloc", "segment_map"), ("segment_free", "segment_unmap")
UNKNOWN = "no recorded stack"
FIGURES = ("allocated", "reserved", "peak_allocated", "peak_reserved", "unused_in_segments")
CALLS = ("reserve", "return", "return_by_program", "reserve_again", "out_of_memory")


def snapshot_of(profile: Profile, snapshot: int) -> MemorySnapshot:
    """One of the run's snapshots; UsageError where there is none of that number."""
    found = profile.run.snapshots
    if not 0 <= snapshot < len(found):
        raise UsageError(f"there is no snapshot {snapshot}; the run has {len(found)}, counted from 0")
    return found[snapshot]


@dataclass(frozen=True, eq=False)
class History:
    """Sizes after each event in bytes; those before the first are what the end leaves over."""

    allocated: NDArray[np.int64]
    reserved: NDArray[np.int64]


@memoized
def history(profile: Profile, snapshot: int = 0) -> History:
    """Requested bytes of live allocations, and reserved bytes, at the begin and after each event.

    The recorder forgets the oldest events, the blocks at the end are whole: sizes are counted back from them.
    """
    own = snapshot_of(profile, snapshot)
    action, sizes = own.events["action"], own.events["bytes"].to_numpy()
    live = own.blocks[own.blocks["state"] == "active_allocated"]

    def back(end: int, more: NDArray[np.bool_], less: NDArray[np.bool_]) -> NDArray[np.int64]:
        change = np.where(more, sizes, 0) - np.where(less, sizes, 0)
        grown = np.concatenate([[0], np.cumsum(change)])
        return np.asarray(grown + (end - grown[-1]), dtype=np.int64)

    allocated = back(int(live["requested"].sum()), (action == ALLOCATED).to_numpy(), (action == FREED).to_numpy())
    reserved = back(int(own.blocks["bytes"].sum()), action.isin(RESERVED).to_numpy(), action.isin(RETURNED).to_numpy())
    return History(allocated, reserved)


def _unused(blocks: pd.DataFrame) -> pd.DataFrame:
    """Inactive blocks of segments that hold active ones: they serve only requests that fit into them."""
    inactive = blocks["state"] == "inactive"
    held = blocks.loc[~inactive, "segment"].unique()
    return blocks[inactive & blocks["segment"].isin(held)]


@metric("B", "{figure} device memory in snapshot {snapshot}", "How much memory does the allocator hold?")
def snapshot_bytes(profile: Profile, figure: str, snapshot: int = 0) -> Measurement:
    """Requested bytes of live allocations, bytes of segments, the largest of both while events were recorded, and
    free bytes in segments that are partly in use, at the end."""
    choice("figure", figure, FIGURES)
    own, past = snapshot_of(profile, snapshot), history(profile, snapshot)
    if figure == "unused_in_segments":
        rows = _unused(own.blocks)
        return _measured(float(rows["bytes"].sum()), rows, own)
    series = past.reserved if figure.endswith("reserved") else past.allocated
    value = series.max() if figure.startswith("peak") else series[-1]
    return _measured(float(value), own.blocks, own)


@metric("%", "unused part of partly used segments in snapshot {snapshot}", "Is the device's memory fragmented?")
def fragmented_pct(profile: Profile, snapshot: int = 0) -> Measurement:
    """Free bytes in segments that hold live blocks, over all reserved bytes, at the end."""
    own = snapshot_of(profile, snapshot)
    rows, whole = _unused(own.blocks), float(own.blocks["bytes"].sum())
    if not whole:
        raise UsageError("the snapshot holds no segments")
    return _measured(100.0 * float(rows["bytes"].sum()) / whole, rows, own)


@metric("calls", "{call} calls in snapshot {snapshot}", "Does the allocator return memory and reserve it again?")
def segment_calls(profile: Profile, call: str, snapshot: int = 0) -> Measurement:
    """Segments reserved (cudaMalloc) or returned (cudaFree) while events were recorded, and those returned because the
    program emptied the cache; reserved again: right after others were returned that the program did not ask for, as
    the allocator does where memory is short; allocations that ran out of memory."""
    choice("call", call, CALLS)
    own = snapshot_of(profile, snapshot)
    action = own.events["action"]
    reserved, returned = action.isin(RESERVED), action.isin(RETURNED)
    by_program = returned & (own.events["emptied"] > 0)
    chosen = {"return": returned, "return_by_program": by_program, "out_of_memory": action == "oom"}.get(call, reserved)
    if call == "reserve_again":
        calls = np.flatnonzero((reserved | returned).to_numpy())
        behind = (returned & ~by_program).to_numpy()[calls[:-1]] & reserved.to_numpy()[calls[1:]]
        chosen = pd.Series(False, own.events.index)
        chosen.iloc[calls[1:][behind]] = True
    rows = own.events[chosen]
    return _measured(float(len(rows)), rows, own)


@memoized
def peak_frames(profile: Profile, snapshot: int = 0) -> pd.DataFrame:
    """What was live at the peak: columns name (the program's frame, else ``UNKNOWN``), bytes; largest first."""
    own = snapshot_of(profile, snapshot)
    at = int(history(profile, snapshot).allocated.argmax())
    live: dict[int, tuple[int, int]] = {}
    columns = (own.events[name].tolist() for name in ("action", "address", "bytes", "frame"))
    later: set[int] = set()
    for place, (action, address, size, frame) in enumerate(zip(*columns, strict=True)):
        if action == ALLOCATED and place < at:
            live[address] = (size, frame)
        elif action == ALLOCATED:
            later.add(address)
        elif action == FREED and place < at:
            live.pop(address, None)
        elif action == FREED and address not in live and address not in later:
            live[address] = (size, -1)  # allocated before the first event, freed after the peak
    # Live at the end and not allocated since: these were there before the first event.
    active = own.blocks[own.blocks["state"] == "active_allocated"]
    for address, size, frame in zip(
        *(active[name].tolist() for name in ("address", "requested", "frame")), strict=True
    ):
        if address not in live and address not in later:
            live[address] = (size, frame)
    rows = [(UNKNOWN if frame < 0 else own.frames[frame], size) for size, frame in live.values()]
    table = pd.DataFrame(rows, columns=["name", "bytes"])
    sums = table.groupby("name", sort=True)["bytes"].sum().reset_index()
    return sums.sort_values("bytes", ascending=False, kind="stable", ignore_index=True)


@metric("B", "memory at the peak allocated in {name}", "Which code allocates the memory at the peak?")
def peak_frame_bytes(profile: Profile, name: str, snapshot: int = 0) -> Measurement:
    """Requested bytes that were live at the peak, by the program's frame in which they were allocated."""
    table = peak_frames(profile, snapshot)
    own = table[table["name"] == name]
    if own.empty:
        raise UsageError("nothing that was live at the peak was allocated there")
    return _measured(float(own["bytes"].sum()), own, snapshot_of(profile, snapshot))


def _measured(value: float, rows: pd.DataFrame, own: MemorySnapshot) -> Measurement:
    shown = rows.reset_index(drop=True)
    ranks = (own.rank,) if own.rank >= 0 else ()
    return Measurement(value, lambda: shown, f"{own.file}, device {own.device}", ranks, source=SNAPSHOT_FORMAT)
