"""Host-to-device copies that alternate with kernels: parameters or activations brought back from host memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet
from tools.metrics.io import exposed_copies, upload_rows
from tools.metrics.measurement import Measurement, metric, of_events, over_steps
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

LARGE_BYTES = 1 << 20  # smaller copies are indices, masks and scalars
FEWEST_TURNS = 16  # of a step: a batch is copied once, or once for each micro-batch
RECURRING = 8  # copies of one size in a step: as many as there are layers alike
RECURRING_SHARE = 0.75  # of the bytes
CHANGING_SHARE = 0.5  # of the turns: those of micro-batches are alike, the parameters of a layer differ in size
MOSTLY_OFFLOADED = 0.5  # of the exposed copies to the device: then they are no batches


def offloaded_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of the large host-to-device copies of steps in which copies and kernels alternate layer by layer.

    A turn is what is copied between two kernels. Its copies must be of sizes that recur in the step, and most turns
    must differ in size from the one before; copies whose sizes were not recorded are none.
    """
    rows = upload_rows(view)
    copies = view.events.details.copies
    size = np.zeros(len(view.start), dtype=np.int64)
    size[copies["row"].to_numpy()] = copies["bytes"].to_numpy()
    rows = rows[size[rows] >= LARGE_BYTES]
    rows = rows[np.argsort(view.start[rows], kind="stable")]
    kernels = np.sort(view.start[view.kind == EventKind.KERNEL])
    step = view.step_of(rows)
    found = [own for each in np.unique(step) if _alternate(size[own := rows[step == each]], view.start[own], kernels)]
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def _alternate(size: NDArray[np.int64], start_ns: NDArray[np.int64], kernels: NDArray[np.int64]) -> bool:
    """Whether the large copies of a step, in the order of their start, are those of offloading."""
    _, turn = np.unique(np.searchsorted(kernels, start_ns), return_inverse=True)
    turns = np.bincount(turn, weights=size)
    if len(turns) < FEWEST_TURNS:
        return False
    _, at, times = np.unique(size, return_inverse=True, return_counts=True)
    recurring = float(size[times[at] >= RECURRING].sum())
    return recurring >= RECURRING_SHARE * size.sum() and float((np.diff(turns) != 0).mean()) >= CHANGING_SHARE


def exposed_offload(view: RankProfile) -> IntervalSet:
    """The moments in which such a copy runs and no kernel does."""
    return exposed_copies(view, offloaded_rows(view))


@metric("ms", "{statistic} exposed offload copies per step", "How long do copies of offloaded data hold up the device?")
def offload_exposed_ms(profile: Profile, rank: int, statistic: str = "mean") -> Measurement:
    """Time per step in which copies that alternate with kernels run while no kernel does."""
    view = profile.rank(rank)
    value = over_steps(view.per_step_ms(exposed_offload(view)), statistic)
    return of_events(view, value, offloaded_rows(view), "host-to-device copies that alternate with kernels")


@metric("GB", "offloaded data copied per step", "How much offloaded data does a step copy to the device?")
def offload_gb(profile: Profile, rank: int) -> Measurement:
    """Bytes (10^9) of copies that alternate with kernels, per step."""
    view, rows = profile.rank(rank), offloaded_rows(profile.rank(rank))
    copies = view.events.details.copies
    total = float(copies.loc[copies["row"].isin(rows), "bytes"].sum())
    return of_events(view, total / 1e9 / max(len(view.steps), 1), rows, "bytes of copies that alternate with kernels")
