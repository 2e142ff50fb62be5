"""Samples of devices from several files and hosts."""

from __future__ import annotations

from tools.run.recorded.counters import CounterRecords, CounterSource, samples_table
from tools.views.counters import CounterView

BUSY, POWER = "device_busy_pct", "device_power_w"


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
