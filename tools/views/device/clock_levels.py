"""The readings of a device in which its clock is lowered, where it is not in all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.views.counters import SLOWED, DeviceReadings
from tools.views.steps.levels import LEAST_POINTS, apart
from tools.views.steps.shape import StepSeries

CLOCK = "device_clock_mhz"
LEAST_SHARE = 0.05  # of the readings under load with and without a reason: fewer are no two states
Mask = NDArray[np.bool_]


def lowered(device: DeviceReadings) -> Mask | None:
    """The readings under load of the lower clock: from where it falls for good (or until it rises), else those with a
    reason for lowering it; None where nothing splits them."""
    loaded = np.flatnonzero(device.loaded)
    if not device.has(CLOCK):
        return None
    clocks = device.table[CLOCK].to_numpy(np.float64)
    loaded = loaded[np.isfinite(clocks[loaded])]
    low = _by_level(clocks[loaded])
    if low is None:
        low = _by_reason(device, loaded, clocks)
    if low is None:
        return None
    whole = np.zeros(len(device.table), dtype=bool)
    whole[loaded[low]] = True
    return whole


def _by_level(clocks: NDArray[np.float64]) -> Mask | None:
    steps = StepSeries(np.arange(len(clocks)), clocks)
    change = steps.change_point()
    if change is None or not apart(steps, change) or min(change.step, len(clocks) - change.step) < LEAST_POINTS:
        return None
    later = steps.numbers >= change.step
    return later if change.after_ms < change.before_ms else ~later


def _by_reason(device: DeviceReadings, loaded: NDArray[np.int64], clocks: NDArray[np.float64]) -> Mask | None:
    flags = [device.table[each].to_numpy(np.float64) > 0.0 for each in SLOWED if device.has(each)]
    if not flags or not len(loaded):
        return None
    low = np.any(flags, axis=0)[loaded]
    if not LEAST_SHARE <= low.mean() <= 1.0 - LEAST_SHARE:
        return None
    return low if np.median(clocks[loaded[low]]) < np.median(clocks[loaded[~low]]) else None
