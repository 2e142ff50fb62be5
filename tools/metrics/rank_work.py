"""Figures of how evenly work is spread over ranks."""

from __future__ import annotations

from tools.errors import UsageError
from tools.metrics.communication import measured
from tools.metrics.measurement import Measurement, Metric
from tools.profilers.profile import Profile
from tools.profilers.rank_work import exchanged_bytes, follows_work, rank_work, uneven_compute_ms, uneven_pct

SELECTOR = "matrix operators in steps with recorded shapes"


def work_uneven_pct(profile: Profile) -> Measurement:
    """By how much the rank with most arithmetic exceeds the mean rank, by recorded shapes, mean over steps."""
    return _of(profile, uneven_pct(profile))


def work_own_share_pct(profile: Profile) -> Measurement:
    """Share of the arithmetic in operators that not all ranks ran with the same shapes."""
    return _of(profile, 100.0 * float(rank_work(profile)["own_share"].mean()))


def work_follows_pct(profile: Profile) -> Measurement:
    """Correlation of compute time with arithmetic over ranks and steps, in per cent."""
    return _of(profile, 100.0 * follows_work(profile))


def work_compute_spread_ms(profile: Profile) -> Measurement:
    """How much longer than the mean rank the one that computes longest does so, mean over steps."""
    return _of(profile, uneven_compute_ms(profile))


def rank_work_pct(profile: Profile, rank: int) -> Measurement:
    """Arithmetic of one rank against the mean of all, in per cent."""
    table = rank_work(profile)
    own = float(table.loc[table["rank"] == profile.rank(rank).rank.rank, "flops"].sum())
    whole = float(table["flops"].sum()) / max(table["rank"].nunique(), 1)
    return _of(profile, 100.0 * own / max(whole, 1.0), rank)


def exchanged_mib(profile: Profile, rank: int | None = None) -> Measurement:
    """MiB per step in all-to-alls: of one rank, or the mean of all."""
    series = exchanged_bytes(profile)
    if series.empty:
        raise UsageError("no all-to-all of known size was recorded")
    value = float(series.mean()) if rank is None else float(series.get(rank, 0.0))
    return measured(profile, value / 2**20, series.reset_index(), "all-to-alls in steps, larger side", rank)


def _of(profile: Profile, value: float, rank: int | None = None) -> Measurement:
    table = rank_work(profile)
    if table.empty:
        raise UsageError("the work of the ranks is not known: shapes, or the traces of several ranks, are missing")
    return measured(profile, value, table, SELECTOR, rank)


METRICS = (
    Metric("work_uneven_pct", "%", "How unevenly is arithmetic spread over ranks?", work_uneven_pct),
    Metric("work_own_share_pct", "%", "How much of it has shapes of its own on each rank?", work_own_share_pct),
    Metric("work_follows_pct", "%", "Does compute time follow the arithmetic?", work_follows_pct),
    Metric("work_compute_spread_ms", "ms", "How much longer does the busiest rank compute?", work_compute_spread_ms),
    Metric("rank_work_pct", "%", "How much arithmetic has this rank against the mean?", rank_work_pct),
    Metric("exchanged_mib", "MiB", "How much do all-to-alls exchange?", exchanged_mib),
)
