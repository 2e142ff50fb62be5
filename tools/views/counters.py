"""Sampled counters by device and by machine: readings side by side, and which of them were taken under load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.knowledge.thresholds import Thresholds
from tools.run.device_ranks import DeviceRanks, Sampled, ranks_of_devices
from tools.run.recorded.counters import CounterRecords
from tools.run.source_clocks import samples_in_training
from tools.views.profile import Profile

PLACE = ["file", "host", "device"]
NS_PER_S = 1e9
IDLE = "throttle_idle"
SLOWED = ("throttle_thermal", "throttle_power_brake", "throttle_hardware")
STATE = "device_performance_state"
# NVIDIA's states run from P0 to P15, of which P8 and those after it are of a device without work; P0 to P2 are those
# of 3D and CUDA programs, and of devices for data centres also without any.
STATES_OF_REST = 5.0
BUSY, ENGINE = "device_busy_pct", "device_engine_active_pct"
POWER, LIMIT, POWER_SHARE = "device_power_w", "device_power_limit_w", "device_power_pct"
UNUSUAL = re.compile(r"[^\w./-]")
LONGEST_NAME = 80
SAME = ("device_memory_total_bytes", "device_memory_usable_bytes", "device_clock_max_mhz")  # of devices of one model


@dataclass(frozen=True, eq=False)
class DeviceReadings:
    """All readings of one device in one file: ``table`` with a row for each, its counters as columns, NaN where a
    reading lacks one; further columns time_unix_ns, tick and line."""

    name: str
    model: str
    table: pd.DataFrame
    limits: Thresholds = field(default_factory=Thresholds)

    def has(self, counter: str) -> bool:
        """Whether any reading has the counter."""
        return counter in self.table and bool(self.table[counter].notna().any())

    @cached_property
    def loaded(self) -> NDArray[np.bool_]:
        """The readings under load; where neither utilization nor power against its limit was sampled all but those in
        which the driver calls the device idle.

        A reading in which kernels run all the time at the power of an idle device is of no load: its kernels wait.
        Where heat or the hardware lowers the clock, this lowers the power too, which then shows nothing of the load.
        """
        if self.has(BUSY):
            return np.asarray(self.table[BUSY] >= self.limits["device_loaded_pct"], dtype=bool) & ~self.waiting
        if self.has(POWER) and self.has(LIMIT):
            limit = self.table[LIMIT].ffill().bfill()
            share = self.limits["device_loaded_power_share"]
            return np.asarray(self.table[POWER] >= share * limit, dtype=bool) | self._slowed
        if self.has(IDLE):
            return np.asarray(self.table[IDLE] != 1.0, dtype=bool)
        return np.ones(len(self.table), dtype=bool)

    @cached_property
    def waiting(self) -> NDArray[np.bool_]:
        """The readings in which kernels run nearly all the time at a power that no computation needs."""
        if not (self.has(BUSY) and self.has(POWER_SHARE)):
            return np.zeros(len(self.table), dtype=bool)
        low = self.table[POWER_SHARE] < self.limits["device_waiting_power_pct"]
        return np.asarray(low & (self.table[BUSY] >= self.limits["device_fully_busy_pct"]), dtype=bool)

    @cached_property
    def _slowed(self) -> NDArray[np.bool_]:
        """The readings in which heat, the power supply or the hardware lowers the clock of a device that is not idle by
        what its driver says."""
        found = np.zeros(len(self.table), dtype=bool)
        for flag in filter(self.has, SLOWED):
            found |= np.asarray(self.table[flag] > 0.0, dtype=bool)
        if self.has(IDLE):
            found &= np.asarray(self.table[IDLE] != 1.0, dtype=bool)
        if self.has(STATE):
            found &= ~np.asarray(self.table[STATE] >= STATES_OF_REST, dtype=bool)
        return found

    @property
    def load_known(self) -> bool:
        """Whether the samples show when the device was under load."""
        return self.has(BUSY) or (self.has(POWER) and self.has(LIMIT) and not self._slowed.any())

    @property
    def interval_s(self) -> float | None:
        """The usual time between two readings; None where times are not known."""
        times = self.table["time_unix_ns"].dropna().to_numpy(dtype=np.float64)
        return float(np.median(np.diff(times))) / NS_PER_S if len(times) > 1 else None


@dataclass(frozen=True, eq=False)
class CounterView:
    """The samples of a run by place. Devices are named by their index, with the file or the host where these differ."""

    records: CounterRecords
    limits: Thresholds = field(default_factory=Thresholds)

    @cached_property
    def devices(self) -> Mapping[str, DeviceReadings]:
        """The readings of every device, by name."""
        samples = self.records.samples
        own = samples[(samples["device"] >= 0) & (samples["part"] == "").to_numpy(dtype=bool)]
        if own.empty:
            return {}
        keys = [*PLACE, "tick"]
        values = own.pivot_table(index=keys, columns="counter", values="value", aggfunc="max", observed=True)
        limits = own[(own["counter"] == LIMIT).to_numpy(dtype=bool)]
        if len(limits):  # the one that is set and the one that is enforced: the lower one holds
            values[LIMIT] = limits.groupby(keys, observed=True)["value"].min()
        if ENGINE in values:  # the same measure by another counter
            values[BUSY] = values[BUSY].fillna(values[ENGINE]) if BUSY in values else values[ENGINE]
        _add_total(values)
        _add_power_share(values)
        moments = own.groupby(keys, observed=True)[["time_unix_ns", "line"]].first()
        wide = moments.join(values).reset_index()
        several = {name: own[name].nunique() > 1 for name in ("file", "host")}
        found: dict[str, DeviceReadings] = {}
        for (file, host, device), table in wide.groupby(PLACE, sort=True):
            name = str(device)
            stated = several["host"] and str(host)
            name += f" of {_plain(str(host))}" if stated else f" of {self._file(int(str(file)))}" * several["file"]
            name += f" in {self._file(int(str(file)))}" if name in found else ""  # a further file of a host
            name += f" ({file})" if name in found else ""
            found[name] = DeviceReadings(
                name, self._model(int(str(file)), int(str(device))), table.reset_index(drop=True), self.limits
            )
        return found

    def _file(self, file: int) -> str:
        return _plain(self.records.sources[file].path)

    def peers(self, name: str) -> tuple[DeviceReadings, ...]:
        """The other devices of the same model; where no model is stated, those of the same file and host that have the
        same memory and highest clock as far as these were sampled."""
        own = self.devices[name]
        return tuple(each for other, each in self.devices.items() if other != name and _alike(own, each))

    def _model(self, file: int, device: int) -> str:
        return dict(self.records.sources[file].devices).get(device, "")

    def machine(self, counter: str, part: str | None = "") -> pd.DataFrame:
        """The samples of a counter of machines; with ``part`` None of all their parts."""
        samples = self.records.samples
        own = samples[(samples["device"] < 0) & (samples["counter"] == counter).to_numpy(dtype=bool)]
        return own if part is None else own[(own["part"] == part).to_numpy(dtype=bool)]

    def rises(self, counter: str) -> pd.DataFrame:
        """What a total rose by between its first and last reading, by part: columns file, host, device, part, first,
        rise, readings, line, and the seconds between them, NaN where times are not known. A total that falls was
        reset: what it shows afterwards is counted. The file is that of the first reading, the line of the last."""
        samples, follows = self.records.samples, self.records.follows
        own = samples[(samples["counter"] == counter).to_numpy(dtype=bool)]
        own = own.assign(later=own["file"].isin(list(follows)), source=own["file"], file=own["file"].replace(follows))
        rows = []
        for (file, host, device, part), table in own.groupby([*PLACE, "part"], sort=True):
            table = table.sort_values("later", kind="stable")
            values = table["value"].to_numpy(dtype=np.float64)
            steps = np.diff(values)
            rise = float(np.where(steps < 0, values[1:], steps).sum())
            times = table["time_unix_ns"].to_numpy(dtype=np.float64)
            passed_s = self.records.seconds_after.get(int(table["source"].iloc[-1]), (times[-1] - times[0]) / NS_PER_S)
            last = int(table["line"].iloc[-1])
            rows.append((file, host, device, part, values[0], rise, len(values), last, passed_s))
        return pd.DataFrame(rows, columns=[*PLACE, "part", "first", "rise", "readings", "line", "passed_s"])


def waits_only(devices: Mapping[str, DeviceReadings]) -> bool:
    """Return whether kernels run on devices, and wait in all of their readings in which any runs."""
    sampled = [(each, (each.table[BUSY] > 0.0).to_numpy(dtype=bool)) for each in devices.values() if each.has(BUSY)]
    return any(ran.any() for _, ran in sampled) and all(bool(each.waiting[ran].all()) for each, ran in sampled)


def without_kernels(devices: Mapping[str, DeviceReadings]) -> bool:
    """Whether utilization was sampled and no reading of any device holds a kernel."""
    sampled = [each for each in devices.values() if each.has(BUSY)]
    return bool(sampled) and all(float(each.table[BUSY].max()) == 0.0 for each in sampled)


def _plain(name: str) -> str:
    """A name of a host or file as a part of a device's name."""
    return UNUSUAL.sub("_", name)[:LONGEST_NAME]


def _add_total(values: pd.DataFrame) -> None:
    """The memory of devices whose samples give its parts alone, as the counters that DCGM exporter has by default.

    Readings without the reserved part say how much can be used: their total stays unknown.
    """
    parts = ("total", "usable", "used", "free", "reserved")
    total, usable, used, free, reserved = (f"device_memory_{each}_bytes" for each in parts)
    if used not in values or free not in values:
        return
    both, unknown = values[used] + values[free], pd.Series(np.nan, values.index)
    whole = both + values.get(reserved, unknown)
    values[total] = values.get(total, unknown).fillna(whole)
    values[usable] = both.where(values[total].isna())


def _add_power_share(values: pd.DataFrame) -> None:
    """The power of a device as a share of its limit, in readings that hold both and not the share itself."""
    if POWER in values and LIMIT in values:
        own = 100.0 * values[POWER] / values[LIMIT].where(values[LIMIT] > 0)
        values[POWER_SHARE] = values[POWER_SHARE].fillna(own) if POWER_SHARE in values else own


def _alike(one: DeviceReadings, other: DeviceReadings) -> bool:
    """Whether two devices can be compared."""
    if one.model or other.model:
        return one.model == other.model
    if any(one.table[name].iloc[0] != other.table[name].iloc[0] for name in ("file", "host")):
        return False
    known = [name for name in SAME if one.has(name) and other.has(name)]
    return all(one.table[name].max() == other.table[name].max() for name in known)


def counter_view(profile: Profile) -> CounterView | None:
    """The sampled counters of the run, while it trains as far as that is known; None where there are none."""
    records = profile.run.counters
    if records is None:
        return None
    return profile.memo(
        "counter_view", lambda: CounterView(samples_in_training(profile.run) or records, profile.thresholds)
    )


def rank_of_device(profile: Profile, name: str) -> int | None:
    """The rank that uses a sampled device; None where no file says so."""
    return _device_ranks(profile).ranks.get(_place(profile, name))


def used_by_job(profile: Profile, name: str) -> bool:
    """Whether a rank of the job may use a sampled device: False where all of them are known to use others."""
    return _place(profile, name) not in _device_ranks(profile).unused


def _device_ranks(profile: Profile) -> DeviceRanks:
    return profile.memo("ranks_of_devices", lambda: ranks_of_devices(profile.run))


def _place(profile: Profile, name: str) -> Sampled:
    view = counter_view(profile)
    assert view is not None
    first = view.devices[name].table.iloc[0]
    return int(first["file"]), str(first["host"]), int(first["device"])
