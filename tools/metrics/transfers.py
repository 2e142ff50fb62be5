"""Figures of the transfers themselves: how fast, how large, and what they cost however small they are."""

from __future__ import annotations

from tools.errors import UsageError
from tools.metrics.communication import measured, selector
from tools.metrics.measurement import Measurement, Metric
from tools.profilers.link_use import busy_share, link_use
from tools.profilers.message_cost import mergeable_messages, message_cost
from tools.profilers.profile import Profile
from tools.profilers.transfers import Fit, fits, large_transfers, small_messages, small_start_ns, transfers


def bus_bandwidth(profile: Profile, kind: str | None = None) -> Measurement:
    """Median bus bandwidth of large collectives: bytes over transfer time, times the NCCL tests' factor."""
    table = large_transfers(profile, kind)
    if table.empty:
        raise UsageError("no large collective of known size was recorded")
    return measured(profile, float(table["bus_bytes_per_s"].median()), table, selector("large collectives", kind))


def best_bus_bandwidth(profile: Profile, kind: str | None = None) -> Measurement:
    """Bus bandwidth of the fastest large collective: the one that waited least."""
    table = large_transfers(profile, kind)
    if table.empty:
        raise UsageError("no large collective of known size was recorded")
    best = table.loc[[table["bus_bytes_per_s"].idxmax()]]
    return measured(profile, float(best["bus_bytes_per_s"].iloc[0]), best, selector("fastest large collective", kind))


def message_bytes(profile: Profile, kind: str | None = None) -> Measurement:
    """Median size of a collective's buffer."""
    table = transfers(profile)
    table = table if kind is None else table[table["kind"] == kind]
    if table.empty:
        raise UsageError("no collective of known size was recorded")
    return measured(profile, float(table["bytes"].median()), table, selector("collectives of known size", kind))


def link_busy_pct(profile: Profile) -> Measurement:
    """Of the time from a step's first collective to the end of its last, the share in which one is under way."""
    return measured(profile, 100.0 * busy_share(profile), link_use(profile), "collectives in steps, first to last")


def small_message_count(profile: Profile) -> Measurement:
    """Collectives per step whose bytes hardly matter to their duration."""
    table = small_messages(profile)
    return measured(profile, len(table) / len(profile.step_ms), table, "collectives of 64 KiB and less")


def small_message_start_ms(profile: Profile) -> Measurement:
    """What starting such a collective costs: the lower quartile of their times without waiting for late ranks."""
    return measured(profile, small_start_ns(profile) / 1e6, small_messages(profile), "collectives of 64 KiB and less")


def small_message_exposed_ms(profile: Profile) -> Measurement:
    """Time per step in which a rank computes nothing while one is under way; of the rank that has least of it."""
    return _of_messages(profile, message_cost(profile).exposed_ms, "waiting in collectives of 64 KiB and less")


def small_message_beside_ms(profile: Profile) -> Measurement:
    """Time per step in which the same rank computes while one is under way."""
    return _of_messages(profile, message_cost(profile).beside_ms, "collectives of 64 KiB and less beside computation")


def collective_fixed_ms(profile: Profile, kind: str, group: str = "") -> Measurement:
    """Part of one collective's duration that does not depend on its size, by a line through duration over size."""
    return _of_fit(profile, kind, group, _fit(profile, kind, group).fixed_ns / 1e6)


def collective_fixed_pct(profile: Profile, kind: str, group: str = "") -> Measurement:
    """Share of the transfer time per step that does not depend on size."""
    return _of_fit(profile, kind, group, 100.0 * _fit(profile, kind, group).fixed_share)


def mergeable_ms(profile: Profile, kind: str, group: str = "") -> Measurement:
    """Fixed parts per step that fewer, larger collectives would not have, overlapped or not."""
    return _of_fit(profile, kind, group, _fit(profile, kind, group).mergeable_ns / 1e6)


def _of_messages(profile: Profile, value: float, rows_of: str) -> Measurement:
    rank, table = message_cost(profile).rank, mergeable_messages(profile)
    return measured(profile, value, table[table["rank"] == rank], rows_of, rank)


def _fit(profile: Profile, kind: str, group: str) -> Fit:
    for fit in fits(profile):
        if fit.kind == kind and fit.group == group:
            return fit
    raise UsageError(f"there are no {kind} collectives of different known sizes in group {group!r}")


def _of_fit(profile: Profile, kind: str, group: str, value: float) -> Measurement:
    table = transfers(profile)
    table = table[(table["kind"] == kind) & (table["group"] == group)]
    return measured(profile, value, table, f"{kind} collectives by size, least squares")


METRICS = (
    Metric("bus_bandwidth", "B/s", "How fast do large collectives transfer?", bus_bandwidth),
    Metric("best_bus_bandwidth", "B/s", "How fast is the fastest large collective?", best_bus_bandwidth),
    Metric("small_message_count", "count", "How many small collectives does a step have?", small_message_count),
    Metric("small_message_start_ms", "ms", "What does starting a small one cost?", small_message_start_ms),
    Metric("small_message_exposed_ms", "ms", "How long do ranks only wait in small ones?", small_message_exposed_ms),
    Metric("small_message_beside_ms", "ms", "How long do small ones run beside computation?", small_message_beside_ms),
    Metric("link_busy_pct", "%", "How continuously do collectives run once begun?", link_busy_pct),
    Metric("message_bytes", "B", "How large is a collective?", message_bytes),
    Metric("collective_fixed_ms", "ms", "What does a collective cost however small it is?", collective_fixed_ms),
    Metric("collective_fixed_pct", "%", "What share of transfer time is such fixed cost?", collective_fixed_pct),
    Metric("mergeable_ms", "ms", "What would fewer, larger collectives save of it?", mergeable_ms),
)
