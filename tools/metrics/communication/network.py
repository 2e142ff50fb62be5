"""Bytes on the network: those of the run's own collectives, and those of others on the same link."""

from __future__ import annotations

import numpy as np

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, MetricTable
from tools.metrics.recorded.samples import host_records
from tools.run.model import MONITOR_FORMAT
from tools.views.collective_size import bus_factor
from tools.views.collectives import collectives
from tools.views.profile import Profile
from tools.views.transfers import transfers

METRICS = MetricTable()

COUNTERS = ("net_sent_bytes", "net_received_bytes")
SILENT = ("barrier", "wait")  # move no bytes worth counting
FITS = 1.15  # times the counted bytes: more own bytes than that went another way, as by RDMA or shared memory


@METRICS.define("B", "bytes sent per step by the run's collectives", "How much do a step's collectives have to send?")
def collective_wire_bytes(profile: Profile) -> Measurement:
    """What a rank's collectives have to send per traced step at least, by their recorded sizes; all steps count."""
    table = transfers(profile)
    if table.empty:
        raise UsageError("no collective of a recorded size is in the traces")
    factors = [bus_factor(str(kind), int(size)) for kind, size in zip(table["kind"], table["group_size"], strict=True)]
    value = float((table["bytes"] * np.asarray(factors)).sum()) / len(profile.step_ms)
    steps = tuple(int(step) for step in sorted(profile.step_ms.index))
    return Measurement(value, lambda: table, "collectives of known size", profile.run.rank_numbers, steps)


@METRICS.define("B/s", "network traffic of other jobs", "How much of the network's traffic is not the run's?")
def foreign_bytes_per_s(profile: Profile, rank: int) -> Measurement:
    """Bytes per second over the rank's network interfaces beyond what its collectives send, in the busier direction.

    UsageError where the run's own share is not known: messages without a size, or more own bytes than were counted.
    """
    records = host_records(profile)
    rates = [rate for name in COUNTERS if (rate := records.per_second(rank, name)) is not None]
    if not rates:
        raise UsageError(f"the records of rank {rank} count no bytes on the network")
    step_s = float(records.series.of(rank)["wall_ms"].mean()) / 1e3
    if _of_unknown_size(profile):
        raise UsageError("some of the run's messages have no recorded size")
    own = collective_wire_bytes(profile).value * _senders(profile, rank) / step_s
    if own > FITS * max(rates):
        raise UsageError(f"the run's own bytes do not go over the interfaces that rank {rank} counts")
    spans = records.spans(rank)
    rows = spans[["begin_ns", "end_ns", *COUNTERS]]
    value = max(max(rates) - own, 0.0)
    return Measurement(
        value, lambda: rows, "samples of network bytes", (rank,), records.series.numbers(rank), source=MONITOR_FORMAT
    )


@METRICS.define("%", "share of network traffic from other jobs", "How much of the network's traffic is not the run's?")
def foreign_traffic_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of all bytes in the busier direction."""
    foreign = foreign_bytes_per_s(profile, rank)
    rates = [host_records(profile).per_second(rank, name) or 0.0 for name in COUNTERS]
    value = 100.0 * foreign.value / max(*rates, 1.0)
    return Measurement(value, foreign.rows, foreign.selector, foreign.ranks, foreign.steps, source=MONITOR_FORMAT)


def _of_unknown_size(profile: Profile) -> bool:
    """Whether messages between ranks are in the traces which ``collective_wire_bytes`` cannot count."""
    table = collectives(profile)
    inside = table[(table["step"] >= 0) & (table["group_size"] != 1)]
    silent = ~inside["kind"].isin(SILENT)
    return bool((((inside["bytes"] <= 0) & silent) | (inside["kind"] == "send_recv")).any())


def _senders(profile: Profile, rank: int) -> int:
    """Ranks on the machine that send over its interfaces."""
    return len(host_records(profile).neighbours(rank))
