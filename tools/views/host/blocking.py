"""Host calls that return only when the device has got somewhere, and what they cost the host."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import covered, merge
from tools.run.events import EventKind
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile


@memoized
def blocking_calls(profile: Profile, rank: int) -> pd.DataFrame:
    """Synchronizing calls and read-backs in steps: row, start_ns, end_ns, read_back, waited_ns, burst; by start."""
    view, activity = profile.rank(rank), profile.rank(rank).activity
    synchronizing = view.named("synchronization") & (view.kind == EventKind.RUNTIME) & view.on_training_thread
    copies = _blocking_copies(view, "read_back")["launch_row"].to_numpy()
    rows = view.in_steps(np.union1d(np.flatnonzero(synchronizing), copies).astype(np.int64))
    start, end = view.start[rows], view.end[rows]
    busy = merge(activity.device_compute, activity.device_communication, activity.device_copy)
    ended = np.maximum.accumulate(end)[:-1]
    apart = np.append(True, start[1:] - ended > profile.thresholds["burst_gap_us"] * 1e3)[: len(rows)]
    table = pd.DataFrame({"row": rows, "start_ns": start, "end_ns": end, "read_back": np.isin(rows, copies)})
    return table.assign(waited_ns=covered(busy, start, end), burst=np.cumsum(apart) - 1)


def bursts(profile: Profile, rank: int) -> pd.DataFrame:
    """One row per burst of blocking calls: start_ns, end_ns, waited_ns; ordered, index is the burst's number."""
    return (
        blocking_calls(profile, rank)
        .groupby("burst")
        .agg(start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), waited_ns=("waited_ns", "sum"))
    )


@memoized
def upload_calls(profile: Profile, rank: int) -> pd.DataFrame:
    """Blocking pageable host-to-device copies inside the steps: call row, start_ns, end_ns, copy_row, copy_ns."""
    view = profile.rank(rank)
    links = _blocking_copies(view, "pageable_upload")
    links = links[view.step_of(links["launch_row"].to_numpy()) >= 0].reset_index(drop=True)
    calls = links[["launch_row", "call_start_ns", "call_end_ns", "device_row"]]
    calls = calls.set_axis(["row", "start_ns", "end_ns", "copy_row"], axis=1)
    return calls.assign(copy_ns=links["end_ns"] - links["start_ns"])


def _blocking_copies(rank: RankProfile, pattern: str) -> pd.DataFrame:
    """Launches of copies of that kind during whose call at least half of the copy ran."""
    links = rank.launches
    chosen = rank.named(pattern)[links["device_row"].to_numpy()]
    links = links[chosen & rank.on_training_thread[links["launch_row"].to_numpy()]]
    start, end = links["start_ns"].to_numpy(), links["end_ns"].to_numpy()
    during = np.minimum(links["call_end_ns"].to_numpy(), end) - start
    mostly: pd.DataFrame = links[2 * during >= end - start]
    return mostly


@dataclass(frozen=True, eq=False)
class KernelLaunches:
    """Rows of the calls inside the steps that launched a kernel, and of those among them that waited for it."""

    rows: NDArray[np.int64]
    blocked: NDArray[np.int64]


@memoized
def kernel_launches(profile: Profile, rank: int) -> KernelLaunches:
    """Kernel launches of a rank; blocked ones last until their kernel ends, or a synchronization follows at once."""
    view = profile.rank(rank)
    links = view.launches[view.kind[view.launches["device_row"].to_numpy()] == EventKind.KERNEL]
    calls = links["launch_row"].to_numpy()
    lasted = (links["call_end_ns"] >= links["end_ns"]).to_numpy()
    blocked = np.unique(calls[lasted | _synchronised_next(view, calls)])
    return KernelLaunches(view.in_steps(np.unique(calls)), view.in_steps(blocked))


def _synchronised_next(rank: RankProfile, calls: NDArray[np.int64]) -> NDArray[np.bool_]:
    waits = rank.named("synchronization")
    rows = np.flatnonzero((rank.kind == EventKind.RUNTIME) & (rank.named("launch") | waits))
    rows = rows[np.lexsort((rank.start[rows], rank.track[rows]))]
    if not len(rows) or not len(calls):
        return np.zeros(len(calls), dtype=bool)
    place = np.full(len(rank.start), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    after = np.minimum(place[calls] + 1, len(rows) - 1)
    following = rows[after]
    same = (rank.track[following] == rank.track[calls]) & (following != calls) & (place[calls] >= 0)
    return np.asarray(waits[following] & same, dtype=bool)
