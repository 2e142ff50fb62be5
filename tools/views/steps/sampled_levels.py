"""Readings of samples by the steps in which they were taken: at the longer level of the step time, or in long steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.recorded.step_times import printed_by
from tools.run.source_clock import clock_of
from tools.run.source_clocks import MONITOR
from tools.views.counters import CounterView
from tools.views.device.clock_levels import lowered
from tools.views.profile import Profile
from tools.views.steps.levels import clear_change, plateaus
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import StepSeries, long_excess_ms

NS_PER_MS = 1e6
EDGE_STEPS = 3  # a change of level may be placed so many rows from where it is
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TimedRows:
    """The usual steps of the slowest rank of the whole run with their begins and ends on the clock of the run's
    sources, and which of them are at a longer level and which are long by themselves."""

    steps: NDArray[np.int64]
    begin_ns: NDArray[np.float64]
    end_ns: NDArray[np.float64]
    longer: Mask
    long: Mask
    change_ns: float | None  # when the only change of level begins; None without one
    slack_ns: float  # how far off that moment may be

    def numbers(self, longer: bool) -> tuple[int, ...]:
        """The steps at the longer level, or at the shorter one."""
        return tuple(map(int, self.steps[self.longer == longer]))

    def readings(self, times_ns: NDArray[np.float64], interval_ns: float, during: str) -> Mask:
        """The readings that are of such steps. One is of the level in which it was taken, and of long steps where the
        time since the one before it holds a part of any."""
        inside = (times_ns >= self.begin_ns[0]) & (times_ns <= self.end_ns[-1])
        if during in ("longer", "shorter"):
            at = np.clip(np.searchsorted(self.end_ns, times_ns), 0, len(self.end_ns) - 1)
            chosen: Mask = inside & (self.longer[at] == (during == "longer"))
            return chosen
        held = np.searchsorted(self.begin_ns[self.long], times_ns) - np.searchsorted(
            self.end_ns[self.long], times_ns - interval_ns
        )
        within: Mask = inside & ((held > 0) == (during == "long_steps"))
        return within


def changes_level(profile: Profile) -> bool:
    """Whether the steps of the series lie at two or more levels."""
    if profile.series is None:
        return False
    own = profile.series.whole.of(profile.series.whole.slowest_rank)
    steps = StepSeries(own["step"].to_numpy(np.int64), own["wall_ms"].to_numpy(np.float64))
    return bool(plateaus(steps)) or clear_change(steps, profile.thresholds["fluctuation_pct"]) is not None


def steps_by_clock(profile: Profile, view: CounterView, name: str) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """The usual steps of the slowest rank while the clock of the device is lowered, and while it is not: of those that
    lie between its readings; None where nothing splits the readings or aligns them with the steps."""
    device = view.devices[name]
    low, series = lowered(device), profile.series
    offset_ns = offset_of(profile, view, int(device.table["file"].iloc[0]))
    times = None if series is None else _times(profile, series.whole)
    if low is None or offset_ns is None or times is None:
        return None
    own, begins, ends = times
    kept = device.loaded & device.table["time_unix_ns"].notna().to_numpy(dtype=bool)
    read_ns = device.table.loc[kept, "time_unix_ns"].to_numpy(np.float64) + offset_ns
    middles = (begins + ends) / 2.0
    inside = (middles >= read_ns[0]) & (middles <= read_ns[-1])
    state = low[kept][np.clip(np.searchsorted(read_ns, middles), 0, len(read_ns) - 1)]
    return own[inside & state], own[inside & ~state]


def timed_rows(profile: Profile) -> TimedRows | None:
    """The steps of the series with their times; None where these are not known, or no step is longer than others."""
    return profile.memo("sampled_levels", lambda: _timed_rows(profile))


def _timed_rows(profile: Profile) -> TimedRows | None:
    series = profile.series
    times = None if series is None else _times(profile, series.whole)
    if series is None or times is None:
        return None
    own, begins, ends = times
    steps = StepSeries(own["step"].to_numpy(np.int64), own["wall_ms"].to_numpy(np.float64))
    longer, limit = np.zeros(len(own), dtype=bool), profile.thresholds["fluctuation_pct"]
    change_ns, levels = None, plateaus(steps)
    if levels:
        least_ms = min(each.ms for each in levels)
        for each in levels:
            if each.ms > least_ms:
                longer |= (steps.numbers >= each.first) & (steps.numbers <= each.last)
    elif (change := clear_change(steps, limit)) is not None:
        longer = (steps.numbers >= change.step) == (change.after_ms > change.before_ms)
        change_ns = float(begins[np.searchsorted(steps.numbers, change.step)])
    long = np.zeros(len(own), dtype=bool)
    if not series.averaged:
        long = np.asarray(long_excess_ms(steps, limit) > 0.0, dtype=bool)
    if not longer.any() and not long.any():
        return None
    slack_ns = EDGE_STEPS * float(np.median(ends - begins))
    return TimedRows(steps.numbers, begins, ends, longer, long, change_ns, slack_ns)


Times = tuple[pd.DataFrame, NDArray[np.float64], NDArray[np.float64]]


def _times(profile: Profile, series: RunSeries) -> Times | None:
    """The rows of the slowest rank with known times, and their begins and ends on the clock of the reference."""
    own = series.of(series.slowest_rank)
    match series.origin:
        case "monitor" if "end_unix_ns" in own:
            source, ends = MONITOR, own["end_unix_ns"].to_numpy(np.float64)
        case "job_log" if "written_ns" in own and profile.run.job_log is not None:
            if profile.run.job_log.clock == "none":
                return None
            source, ends = printed_by(profile.run), own["written_ns"].to_numpy(np.float64)
        case _:
            return None
    clock = clock_of(profile.run.clocks, source)
    known = np.isfinite(ends)
    if clock is None or clock.offset_ns is None or known.sum() < EDGE_STEPS:
        return None
    own, ends = own[known], ends[known] + clock.offset_ns
    if (np.diff(ends) < 0.0).any():
        return None
    spans = own["span"].to_numpy(np.float64) if "span" in own else np.ones(len(own))
    begins = np.maximum(ends - own["wall_ms"].to_numpy(np.float64) * spans * NS_PER_MS, np.append(-np.inf, ends[:-1]))
    return own, begins, ends


def offset_of(profile: Profile, view: CounterView, file: int) -> float | None:
    """What to add to the times of a file of samples; None where it is not aligned with the steps."""
    clock = clock_of(profile.run.clocks, view.records.sources[file].path.rpartition("/")[2])
    return None if clock is None else clock.offset_ns


def residual_of(profile: Profile, view: CounterView, file: int) -> float:
    """How far off the times of an aligned file may be, ns."""
    clock = clock_of(profile.run.clocks, view.records.sources[file].path.rpartition("/")[2])
    return 0.0 if clock is None else clock.residual_ns or 0.0


def in_steps(profile: Profile, view: CounterView, table: pd.DataFrame, during: str) -> Mask:
    """The rows of a table of readings (file, time_unix_ns) that are of such steps; none where nothing aligns them."""
    rows, chosen = timed_rows(profile), np.zeros(len(table), dtype=bool)
    if rows is None or (during in ("long_steps", "other_steps") and not rows.long.any()):
        return chosen
    for file in sorted(set(table["file"])):
        offset_ns = offset_of(profile, view, int(file))
        own = (table["file"] == file).to_numpy(dtype=bool) & table["time_unix_ns"].notna().to_numpy(dtype=bool)
        if offset_ns is None or not own.any():
            continue
        times = table.loc[own, "time_unix_ns"].to_numpy(np.float64) + offset_ns
        moments = np.unique(times)
        interval_ns = float(np.median(np.diff(moments))) if len(moments) > 1 else 0.0
        chosen[own] = rows.readings(times, interval_ns, during)
    return chosen
