"""Figures of a device's clock next to a change of level of the step time."""

from __future__ import annotations

import numpy as np

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.counters import OF_CLOCK, counters, readings
from tools.metrics.recorded.series import run_series
from tools.run.model import COUNTER_FORMAT
from tools.views.device.clock_levels import lowered
from tools.views.profile import Profile
from tools.views.steps.sampled_levels import offset_of, residual_of, steps_by_clock, timed_rows

NS_PER_S, NS_PER_MS = 1e9, 1e6
COLUMNS = ["file", "tick", "line", "time_unix_ns", "device_clock_mhz"]


@metric("s", "time between the changes of the step time and of the clock of device {device}", "Do both change at once?")
def clock_change_apart_s(profile: Profile, device: str) -> Measurement:
    """From the change of the level of the step time to that of the clock, in the middle between two readings, whichever
    is first. UsageError where either does not change once, or nothing aligns them."""
    own, rows = readings(profile, device), timed_rows(profile)
    low, file = lowered(own), int(own.table["file"].iloc[0])
    offset_ns = offset_of(profile, counters(profile), file)
    if rows is None or rows.change_ns is None or low is None or offset_ns is None:
        raise UsageError(f"no change of the clock of device {device} can be held against one of the step time")
    kept = own.loaded & own.table["time_unix_ns"].notna().to_numpy(dtype=bool)
    at = np.flatnonzero(np.diff(low[kept].astype(np.int8)))
    if len(at) != 1:
        raise UsageError(f"the clock of device {device} does not change once")
    times = own.table.loc[kept, "time_unix_ns"].to_numpy(np.float64)
    moment_ns = float(times[at[0] : at[0] + 2].mean()) + offset_ns
    near = own.table.loc[kept, COLUMNS].iloc[at[0] : at[0] + 2].reset_index(drop=True)
    return Measurement(
        abs(moment_ns - rows.change_ns) / NS_PER_S, lambda: near, "device_clock_mhz", source=COUNTER_FORMAT
    )


@metric("ms", "median step time of device {device}", "How long are steps while a device's clock is lowered?")
def step_by_clock_ms(profile: Profile, device: str, during: str) -> Measurement:
    """Median of the usual steps while the clock of the device is lowered or is not, of the slowest rank; UsageError
    where nothing aligns the samples with the steps, or none is of that kind."""
    readings(profile, device)
    parts = steps_by_clock(profile, counters(profile), device)
    own = None if parts is None else parts[OF_CLOCK.index(choice("during", during, OF_CLOCK))]
    if own is None or own.empty:
        raise UsageError(f"no step is known to be {during} by the clock of device {device}")
    shown = own[[name for name in ("rank", "step", "wall_ms", "line") if name in own]].reset_index(drop=True)
    series = run_series(profile)
    steps, ranks = tuple(map(int, own["step"])), (series.whole.slowest_rank,)
    return Measurement(float(own["wall_ms"].median()), lambda: shown, "usual steps", ranks, steps, source=series.source)


@metric("ms", "residual of the alignment of the samples of device {device}", "How well are samples and steps aligned?")
def samples_residual_ms(profile: Profile, device: str) -> Measurement:
    """How far off the times of the samples may be against those of the steps; the clocks of hosts are not in it."""
    own = readings(profile, device)
    file = int(own.table["file"].iloc[0])
    if offset_of(profile, counters(profile), file) is None:
        raise UsageError(f"the samples of device {device} are not aligned with the steps")
    shown = own.table[["file", "tick", "line", "time_unix_ns"]].reset_index(drop=True)
    residual_ns = residual_of(profile, counters(profile), file)
    return Measurement(residual_ns / NS_PER_MS, lambda: shown, "times", source=COUNTER_FORMAT)
