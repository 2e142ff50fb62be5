"""GPU metrics of an export, sampled on whole devices: shares of peak throughput, as means over short intervals."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from tools.run.recorded.counters import CounterRecords, CounterSource, repeated_text, samples_table
from tools.sources.nsys.pieces import pieces
from tools.sources.nsys.session import Session, described_gpus
from tools.sources.nsys.source import NSYS
from tools.sources.nsys.window import Window
from tools.sources.sqlite_file import ABSENT, Database

SAMPLES, NAMES = "GPU_METRICS", "TARGET_INFO_GPU_METRICS"
UNIT = " [throughput %]"  # of the names whose values are per cent of the peak, 0 to 100
# What is read of them. Those that share a counter are parts of one budget and are added.
COUNTER_OF = {
    "gr active": "device_busy_pct",
    "sms active": "device_sm_active_pct",
    "tensor active": "device_tensor_active_pct",
    "dram read bandwidth": "device_dram_active_pct",
    "dram write bandwidth": "device_dram_active_pct",
    "dram read throughput": "device_dram_active_pct",
    "dram write throughput": "device_dram_active_pct",
    "pcie rx throughput": "pcie_received_pct",
    "pcie tx throughput": "pcie_sent_pct",
    "nvlink rx bandwidth": "nvlink_received_pct",
    "nvlink tx bandwidth": "nvlink_sent_pct",
}
MOST_INTERVALS = 4096  # of a recording: samples come up to 200,000 a second
MOST_METRICS = 4096  # names of all devices
DEVICE_BITS = (1 << 8) - 1  # of typeId: the device, as TARGET_INFO_GPU numbers them
HIGHEST_PCT = 100.0


def read_gpu_metrics(database: Database, session: Session, window: Window | None, path: Path) -> CounterRecords | None:
    """The samples of known metrics; None where the export has none, which says nothing of the devices."""
    wanted = _wanted(database)
    if not wanted or not database.has(SAMPLES, "timestamp", "typeId", "metricId", "value"):
        return None
    spans = "timestamp >= 0" if window is None else window.where.replace('"start"', "timestamp")
    first, last = database.aggregates(SAMPLES, "MIN(timestamp)", "MAX(timestamp)", where=spans)
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    length_ns = (last - first) // MOST_INTERVALS + 1
    rows = _means(database, wanted, spans, first, length_ns)
    if not rows:
        return None
    ticks, devices, counters, values = (list(each) for each in zip(*rows, strict=True))
    names = sorted(set(counters))
    tick = np.array(ticks, dtype=np.int64)
    known = session.origin_unix_ns is not None
    at = (session.origin_unix_ns or 0) + first + tick * length_ns + length_ns // 2
    samples = samples_table(
        {
            "time_unix_ns": at.astype(np.float64) if known else np.full(len(tick), np.nan),
            "tick": tick,
            "device": np.array(devices, dtype=np.int64),
            "counter": repeated_text(names, np.array([names.index(each) for each in counters], dtype=np.int64)),
            "value": np.array(values, dtype=np.float64),
            "line": tick + 1,
        }
    )
    described = tuple((index, gpu.name) for index, gpu in sorted(described_gpus(database).items()))
    source = CounterSource(
        format=NSYS.name,
        path=str(path),
        tool="nsys",
        clock="unix" if known else "none",
        interval_s=length_ns / 1e9,
        devices=described,
        host=session.host,
    )
    return CounterRecords(samples, (source,))


def _wanted(database: Database) -> dict[tuple[int, int], str]:
    """The counter of each metric that is read, by type and number."""
    found: dict[tuple[int, int], str] = {}
    for piece in pieces(database, NAMES, ["typeId", "metricId"], "metricName"):
        for kind, number, name in zip(piece["typeId"].tolist(), piece["metricId"].tolist(), piece.texts, strict=True):
            text = str(name).strip().lower()
            counter = COUNTER_OF.get(text.removesuffix(UNIT)) if text.endswith(UNIT) else None
            if counter is not None and len(found) < MOST_METRICS and ABSENT not in (kind, number):
                found[kind, number] = counter
    return found


def _means(
    database: Database, wanted: dict[tuple[int, int], str], where: str, first: int, length_ns: int
) -> list[tuple[int, int, str, float]]:
    """Interval, device, counter and mean; of an interval without a sample, or with impossible ones, none."""
    sums: defaultdict[tuple[int, int, str], float] = defaultdict(float)
    pairs = ", ".join(f"({kind}, {number})" for kind, number in sorted(wanted))
    own = f"{where} AND (typeId, metricId) IN (VALUES {pairs}) AND value BETWEEN 0 AND {HIGHEST_PCT:g}"
    keys = (f"(timestamp - {first}) / {length_ns}", "typeId", "metricId")
    for interval, kind, number, mean in database.groups(SAMPLES, keys, ("AVG(value)",), own):
        if isinstance(interval, int) and isinstance(kind, int) and isinstance(number, int) and isinstance(mean, float):
            sums[interval, kind & DEVICE_BITS, wanted[kind, number]] += mean
    return [(*key, min(value, HIGHEST_PCT)) for key, value in sorted(sums.items())]
