"""Samples of devices from several files and hosts."""

from __future__ import annotations

import pandas as pd

from tools.run.recorded.counters import CounterRecords, CounterSource, samples_table
from tools.views.counters import POWER_SHARE, CounterView, DeviceReadings, waits_only

BUSY, POWER = "device_busy_pct", "device_power_w"


def test_one_waiting_device_among_computing_ones_is_no_job_that_waits() -> None:
    def readings(power_pct: float) -> DeviceReadings:
        return DeviceReadings("0", "", pd.DataFrame({BUSY: [100.0] * 4, POWER_SHARE: [power_pct] * 4}))

    assert waits_only({"0": readings(15.0), "1": readings(16.0)})
    assert not waits_only({"0": readings(15.0), "1": readings(85.0)})


def test_each_file_of_a_host_keeps_its_readings() -> None:
    """Two hosts with one device each; utilization in one file and power in another, as exports by counter have it."""
    rows = {
        "value": [90.0, 80.0, 300.0, 200.0],
        "counter": [BUSY, BUSY, POWER, POWER],
        "device": [0, 0, 0, 0],
        "host": ["a", "b", "a", "b"],
        "file": [0, 0, 1, 1],
    }
    sources = tuple(CounterSource("utilization samples", name, "prometheus") for name in ("busy.json", "power.json"))
    found = CounterView(CounterRecords(samples_table(rows), sources)).devices
    kept = {name: {each: each_device.table[each].tolist() for each in (BUSY, POWER) if each_device.has(each)}
            for name, each_device in found.items()}  # fmt: skip
    assert kept == {
        "0 of a": {BUSY: [90.0]},
        "0 of b": {BUSY: [80.0]},
        "0 of a in power.json": {POWER: [300.0]},
        "0 of b in power.json": {POWER: [200.0]},
    }
