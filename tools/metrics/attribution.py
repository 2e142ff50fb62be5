"""Figures by other tools' definitions, to be put beside theirs."""

from __future__ import annotations

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.scope import event_rows, of_rank
from tools.profilers.attribution import (
    ROLES,
    device_timeline,
    device_utilization,
    loader_share,
    plugin_steps,
    priority_attribution,
    temporal_breakdown,
)
from tools.profilers.kernels import kernel_table
from tools.profilers.profile import Profile

TEMPORAL = ("idle", "compute", "non_compute")
TIMELINE = ("total", "compute", "communication", "exposed_communication", "exposed_memcpy", "idle")


def plugin_role_us(profile: Profile, role: str, rank: int) -> Measurement:
    """Mean time per step that the TensorBoard plugin's priorities give to a role, or to the whole "step"."""
    view = profile.rank(rank)
    if role not in (*ROLES, "other", "step"):
        raise UsageError(f"there is no role {role!r}; choose one of {', '.join((*ROLES, 'other', 'step'))}")
    table = priority_attribution(view)
    return of_rank(view, table[f"{role}_ns"].mean() / 1e3, lambda: table, f"priority attribution, role {role}")


def plugin_role_pct(profile: Profile, role: str, rank: int) -> Measurement:
    """The same as a share of the mean step."""
    part, whole = plugin_role_us(profile, role, rank), plugin_role_us(profile, "step", rank)
    return of_rank(profile.rank(rank), 100.0 * part.value / whole.value, part.rows, part.selector)


def plugin_utilization_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the steps' time in which a kernel runs, by the TensorBoard plugin's steps."""
    view = profile.rank(rank)
    return of_rank(view, 100.0 * device_utilization(view), lambda: plugin_steps(view), "kernels within plugin steps")


def loader_span_pct(profile: Profile, rank: int) -> Measurement:
    """Share of the host's step spans with an open data-loader span, whatever the device does meanwhile."""
    view = profile.rank(rank)
    rows = view.loader_rows
    return of_rank(view, 100.0 * loader_share(view), lambda: event_rows(view, rows), "data-loader spans in step spans")


def temporal_pct(profile: Profile, part: str, rank: int, resolution_ns: int = 1) -> Measurement:
    """Share of the device's span that HolisticTraceAnalysis calls idle, compute or non_compute."""
    view = profile.rank(rank)
    if part not in TEMPORAL:
        raise UsageError(f"there is no part {part!r}; choose one of {', '.join(TEMPORAL)}")
    split = temporal_breakdown(view, resolution_ns=resolution_ns, origin_ns=profile.run.origin_unix_ns or 0)
    share = 100.0 * float(getattr(split, f"{part}_ns")) / max(split.span_ns, 1)
    return of_rank(view, share, lambda: kernel_table(profile, rank), f"temporal breakdown, {part}")


def temporal_overlap_pct(profile: Profile, rank: int, resolution_ns: int = 1) -> Measurement:
    """Share of communication that runs beside computation, by HolisticTraceAnalysis' definition."""
    view = profile.rank(rank)
    split = temporal_breakdown(view, resolution_ns=resolution_ns, origin_ns=profile.run.origin_unix_ns or 0)
    share = 100.0 * split.overlapped_communication_ns / max(split.communication_ns, 1)
    return of_rank(view, share, lambda: kernel_table(profile, rank), "communication beside computation")


def timeline_ms(profile: Profile, part: str, rank: int, recomputed: int = 1, memsets: int = 1) -> Measurement:
    """Time of one part of TraceLens' device timeline over the whole trace."""
    view = profile.rank(rank)
    if part not in TIMELINE:
        raise UsageError(f"there is no part {part!r}; choose one of {', '.join(TIMELINE)}")
    timeline = device_timeline(view, bool(recomputed), bool(memsets))
    value = float(getattr(timeline, f"{part}_ns")) / 1e6
    return of_rank(view, value, lambda: kernel_table(profile, rank), f"launched device work, {part}")


METRICS = (
    Metric("plugin_role_us", "us", "Where does a step go by the TensorBoard plugin's priorities?", plugin_role_us),
    Metric("plugin_role_pct", "%", "What share of a step is that?", plugin_role_pct),
    Metric("plugin_utilization_pct", "%", "How busy is the device by the TensorBoard plugin?", plugin_utilization_pct),
    Metric("loader_span_pct", "%", "For what share of a step is the data loader asked?", loader_span_pct),
    Metric("temporal_pct", "%", "Where does device time go by HolisticTraceAnalysis?", temporal_pct),
    Metric(
        "temporal_overlap_pct", "%", "How much communication overlaps by HolisticTraceAnalysis?", temporal_overlap_pct
    ),
    Metric("timeline_ms", "ms", "Where does device time go by TraceLens?", timeline_ms),
)
