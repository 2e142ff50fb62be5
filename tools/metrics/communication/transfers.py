"""Transfers of collectives: bandwidth, message sizes, how busy the link is, and traffic of other jobs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.intervals import covered, union
from tools.metrics.communication.collectives import selector
from tools.metrics.measurement import Measurement, as_pct, metric, of_ranks
from tools.metrics.recorded.samples import host_records
from tools.run.model import MONITOR_FORMAT
from tools.views.communication.collectives import bus_factor, collectives
from tools.views.communication.transfers import (
    Fit,
    fits,
    large_transfers,
    mergeable_messages,
    message_cost,
    small_messages,
    small_start_ns,
    transfers,
)
from tools.views.profile import Profile, memoized


@memoized
def link_use(profile: Profile) -> pd.DataFrame:
    """One row per rank and step with collectives: columns rank, step, span_ns (first start to last end), busy_ns."""
    table = collectives(profile)
    table = table[((table["step"] >= 0) & (table["kind"] != "send_recv")).to_numpy()]
    spans = table.groupby(["rank", "step"], as_index=False).agg(begin_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    busy = np.zeros(len(spans), dtype=np.int64)
    for rank in spans["rank"].unique():
        mine, own = (spans["rank"] == rank).to_numpy(), table[table["rank"] == rank]
        moments = union(own["start_ns"].to_numpy(), own["end_ns"].to_numpy())
        busy[mine] = covered(moments, spans["begin_ns"].to_numpy()[mine], spans["end_ns"].to_numpy()[mine])
    return spans.assign(span_ns=spans["end_ns"] - spans["begin_ns"], busy_ns=busy)


@metric("B/s", "median bus bandwidth of large {kind} collectives", "How fast do large collectives transfer?")
def bus_bandwidth(profile: Profile, kind: str | None = None) -> Measurement:
    """Median bus bandwidth of large collectives: bytes over transfer time, times the NCCL tests' factor."""
    table = _large(profile, kind)
    return of_ranks(profile, table["bus_bytes_per_s"].median(), table, selector("large collectives", kind))


@metric("B/s", "best bus bandwidth of large {kind} collectives", "How fast is the fastest large collective?")
def best_bus_bandwidth(profile: Profile, kind: str | None = None) -> Measurement:
    """Bus bandwidth of the fastest large collective: the one that waited least."""
    best = _large(profile, kind).nlargest(1, "bus_bytes_per_s")
    return of_ranks(profile, best["bus_bytes_per_s"].iloc[0], best, selector("fastest large collective", kind))


def _large(profile: Profile, kind: str | None) -> pd.DataFrame:
    table = large_transfers(profile, kind)
    if table.empty:
        raise UsageError("no large collective of known size was recorded")
    return table


@metric("B", "median size of {kind} collectives", "How large is a collective?")
def message_bytes(profile: Profile, kind: str | None = None) -> Measurement:
    """Median size of a collective's buffer."""
    table = transfers(profile)
    table = table if kind is None else table[table["kind"] == kind]
    if table.empty:
        raise UsageError("no collective of known size was recorded")
    return of_ranks(profile, table["bytes"].median(), table, selector("collectives of known size", kind))


@metric("%", "busy share between first and last collective", "How continuously do collectives run?")
def link_busy_pct(profile: Profile) -> Measurement:
    """Of the time from a step's first collective to the end of its last, the share in which one is under way."""
    table = link_use(profile)
    value = 100.0 * float(table["busy_ns"].sum()) / max(float(table["span_ns"].sum()), 1.0)
    return of_ranks(profile, value, table, "collectives in steps, first to last")


@metric("count", "small collectives per step and rank", "How many small collectives does a step have?")
def small_message_count(profile: Profile) -> Measurement:
    """Collectives per step whose bytes hardly matter to their duration."""
    table = small_messages(profile)
    return of_ranks(profile, len(table) / len(profile.step_ms), table, "collectives of 64 KiB and less")


@metric("ms", "start cost of a small collective", "How much does starting a small collective cost?")
def small_message_start_ms(profile: Profile) -> Measurement:
    """Cost of starting such a collective: the lower quartile of their times without waiting for stragglers."""
    return of_ranks(profile, small_start_ns(profile) / 1e6, small_messages(profile), "collectives of 64 KiB and less")


@metric("ms", "exposed wait per step in small collectives", "How long do ranks only wait in small collectives?")
def small_message_exposed_ms(profile: Profile) -> Measurement:
    """Time per step in which a rank computes nothing while one is under way; of the rank that has least of it."""
    return _of_messages(profile, message_cost(profile).exposed_ms, "waiting in collectives of 64 KiB and less")


@metric("ms", "overlapped time per step of small collectives", "How long do small ones overlap with compute?")
def small_message_beside_ms(profile: Profile) -> Measurement:
    """Time per step in which the same rank computes while one is under way."""
    return _of_messages(profile, message_cost(profile).overlapped_ms, "overlapped collectives of 64 KiB and less")


@metric("ms", "fixed cost of one {kind} collective", "How long does a collective take however small it is?")
def collective_fixed_ms(profile: Profile, kind: str, group: str = "") -> Measurement:
    """Part of one collective's duration that does not depend on its size, by a line through duration over size."""
    return _of_fit(profile, kind, group, _fit(profile, kind, group).fixed_ns / 1e6)


@metric("%", "fixed-cost share of {kind} transfer time", "How much of transfer time is fixed cost?")
def collective_fixed_pct(profile: Profile, kind: str, group: str = "") -> Measurement:
    """Share of the transfer time per step that does not depend on size."""
    return _of_fit(profile, kind, group, 100.0 * _fit(profile, kind, group).fixed_share)


@metric("ms", "time per step saved by merging {kind} collectives", "What would larger collectives save?")
def mergeable_ms(profile: Profile, kind: str, group: str = "") -> Measurement:
    """Fixed parts per step that fewer, larger collectives would not have, overlapped or not."""
    return _of_fit(profile, kind, group, _fit(profile, kind, group).mergeable_ns / 1e6)


def _of_messages(profile: Profile, value: float, rows_of: str) -> Measurement:
    rank, table = message_cost(profile).rank, mergeable_messages(profile)
    return of_ranks(profile, value, table[table["rank"] == rank], rows_of, rank)


def _fit(profile: Profile, kind: str, group: str) -> Fit:
    for fit in fits(profile):
        if (fit.kind, fit.group) == (kind, group):
            return fit
    raise UsageError(f"there are no {kind} collectives of different known sizes in group {group!r}")


def _of_fit(profile: Profile, kind: str, group: str, value: float) -> Measurement:
    table = transfers(profile)
    table = table[(table["kind"] == kind) & (table["group"] == group)]
    return of_ranks(profile, value, table, f"{kind} collectives by size, least squares")


COUNTERS = ("net_sent_bytes", "net_received_bytes")
SILENT = ("barrier", "wait")  # move no bytes worth counting
FITS = 1.15  # times the counted bytes: more own bytes than that went another way, as by RDMA or shared memory


@metric("B", "bytes sent per step by the run's collectives", "How much do a step's collectives have to send?")
def collective_wire_bytes(profile: Profile) -> Measurement:
    """Bytes that a rank's collectives send at least per traced step, by their recorded sizes; all steps count."""
    table = transfers(profile)
    if table.empty:
        raise UsageError("no collective of a recorded size is in the traces")
    factors = [bus_factor(str(kind), int(size)) for kind, size in zip(table["kind"], table["group_size"], strict=True)]
    value = float((table["bytes"] * np.asarray(factors)).sum()) / len(profile.step_ms)
    steps = tuple(int(step) for step in sorted(profile.step_ms.index))
    return Measurement(value, lambda: table, "collectives of known size", profile.run.rank_numbers, steps)


@metric("B/s", "network traffic of other jobs", "How much of the network's traffic is not the run's?")
def foreign_bytes_per_s(profile: Profile, rank: int) -> Measurement:
    """Bytes per second in the busier direction beyond the run's own; UsageError where the run's share is unknown."""
    records = host_records(profile)
    rates = [rate for name in COUNTERS if (rate := records.per_second(rank, name)) is not None]
    if not rates:
        raise UsageError(f"the records of rank {rank} count no bytes on the network")
    if _of_unknown_size(profile):
        raise UsageError("some of the run's messages have no recorded size")
    step_s = float(records.series.of(rank)["wall_ms"].mean()) / 1e3
    own = collective_wire_bytes(profile).value * len(records.neighbours(rank)) / step_s
    if own > FITS * max(rates):
        raise UsageError(f"the run's own bytes do not go over the interfaces that rank {rank} counts")
    rows, numbers = records.spans(rank)[["begin_ns", "end_ns", *COUNTERS]], records.series.numbers(rank)
    value = max(max(rates) - own, 0.0)
    return Measurement(value, lambda: rows, "samples of network bytes", (rank,), numbers, source=MONITOR_FORMAT)


@metric("%", "share of network traffic from other jobs", "How much of the network's traffic is not the run's?")
def foreign_traffic_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of all bytes in the busier direction."""
    rates = [host_records(profile).per_second(rank, name) or 0.0 for name in COUNTERS]
    return as_pct(foreign_bytes_per_s(profile, rank), max(*rates, 1.0))


def _of_unknown_size(profile: Profile) -> bool:
    """True where messages between ranks are in the traces which ``collective_wire_bytes`` cannot count."""
    table = collectives(profile)
    inside = table[(table["step"] >= 0) & (table["group_size"] != 1)]
    silent = ~inside["kind"].isin(SILENT)
    return bool((((inside["bytes"] <= 0) & silent) | (inside["kind"] == "send_recv")).any())
