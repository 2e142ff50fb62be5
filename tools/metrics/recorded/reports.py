"""Figures that a tool reports of one moment: tests of links, ports, paths between devices, PCIe, parts of a device."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric, over_steps
from tools.metrics.recorded.counters import counters, of_rows, readings
from tools.run.recorded.counters import COUNTERS
from tools.views.profile import Profile

GB = 1e9
GENERATIONS = ("pcie_generation", "pcie_generation_max")
WIDTHS = ("pcie_width", "pcie_width_max")


@metric("GB/s", "{statistic} bandwidth of the test {test}", "Which bandwidth does a test of links reach?")
def bandwidth_test_gb_per_s(profile: Profile, test: str, statistic: str = "min") -> Measurement:
    """Over the rows of a test whose part begins with ``test``: pairs of devices, or sizes of messages."""
    found = _parts(profile, "tested_bandwidth_bytes_per_s", test)
    return _over(profile, found, statistic, 1.0 / GB)


@metric("us", "{statistic} latency of the test {test}", "Which latency does a test of links reach?")
def latency_test_us(profile: Profile, test: str, statistic: str = "max") -> Measurement:
    """The same of latencies."""
    return _over(profile, _parts(profile, "tested_latency_us", test), statistic)


@metric("Gbit/s", "rate of port {port}", "At which rate does a port run?")
def port_rate_gbit_per_s(profile: Profile, port: str) -> Measurement:
    """As the adapter states it, which is the rate agreed with the other side."""
    return _over(profile, _parts(profile, "link_rate_gbit_per_s", port), "min")


@metric("pairs", "pairs of devices joined by {path}", "How are devices joined?")
def topology_pairs(profile: Profile, path: str) -> Measurement:
    """Pairs of devices with that path."""
    found = _parts(profile, "topology_path", f"{path} ")
    return of_rows(counters(profile), float(len(found)), found, path)


@metric("", "{counter} of device {device}", "Which generation has the PCIe link of a device?")
def pcie_link_generation(profile: Profile, counter: str, device: str, loaded: int = 0) -> Measurement:
    """The lowest of its readings, with ``loaded`` of those under load: an idle device lowers it to save power."""
    return _of_device(profile, choice("counter", counter, GENERATIONS), device, loaded)


@metric("lanes", "{counter} of device {device}", "How many lanes has the PCIe link of a device?")
def pcie_link_lanes(profile: Profile, counter: str, device: str) -> Measurement:
    """The fewest of its readings."""
    return _of_device(profile, choice("counter", counter, WIDTHS), device, 0)


@metric("%", "mean {counter} of {part} of device {device}", "How busy is a part of a device?")
def device_part_pct(profile: Profile, counter: str, device: int, part: str) -> Measurement:
    """The mean over the readings of an instance of a device that is split (MIG)."""
    choice("counter", counter, [name for name, each in COUNTERS.items() if each.unit == "%"])
    found = _parts(profile, counter, part)
    return _over(profile, found[(found["device"] == device).to_numpy(dtype=bool)], "mean")


def _of_device(profile: Profile, counter: str, device: str, loaded: int) -> Measurement:
    own = readings(profile, device)
    if not own.has(counter) or (loaded and not own.load_known):
        raise UsageError(f"the samples of device {device} lack {COUNTERS[counter].label}")
    table = own.table[own.loaded] if loaded else own.table
    rows = table[table[counter].notna()][["file", "host", "device", "tick", "line", counter]]
    if rows.empty:
        raise UsageError(f"device {device} is under load in no reading")
    return of_rows(counters(profile), float(rows[counter].min()), rows, counter)


def _parts(profile: Profile, counter: str, begin: str) -> pd.DataFrame:
    samples = counters(profile).records.samples
    own = samples[(samples["counter"] == counter).to_numpy(dtype=bool)]
    own = own[own["part"].str.startswith(begin).to_numpy(dtype=bool)]
    if own.empty:
        raise UsageError(f"the samples hold no {COUNTERS[counter].label} of {begin}")
    return own[["file", "host", "device", "part", "tick", "line", "value"]]


def _over(profile: Profile, rows: pd.DataFrame, statistic: str, scale: float = 1.0) -> Measurement:
    if rows.empty:
        raise UsageError("the samples hold no such figure")
    value = over_steps(rows["value"].to_numpy(dtype=np.float64), statistic)
    return of_rows(counters(profile), scale * value, rows, "reports of tools")
