"""Short operators and pauses on ranks without a device."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.metrics.measurement import Measurement, Metric
from tools.metrics.scope import event_rows, interval_rows, of_rank, over_steps, step_ms, wall_ms
from tools.profilers.host_dispatch import host_dispatch
from tools.profilers.profile import Profile

ALIKE = 0.5  # of the usual step's length that a traced one may differ by
SWITCHES = 3  # intervals; of more, a tenth over each leaves no length that would not fit
SWITCH_EARLY, SWITCH_LATE = 0.02, 0.1  # of an interval: what clocks round off, and waking up
REPEATED = "short outermost operators of kinds called very often, and pauses"


def short_operator_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in short operators of kinds called very often and in the short pauses between operators.

    On a rank without a device. Where unprofiled steps are known it is the median of the traced steps that are like
    them, or the one nearest to them: recording stretches steps where there are many operators, some many times over.
    """
    view = profile.rank(rank)
    moments = host_dispatch(profile, rank).repeated_moments
    per_step = step_ms(view, moments)
    like = np.isin(view.steps["number"].to_numpy(), _usual_steps(profile))
    value = float(np.median(per_step[like])) if like.any() else over_steps(per_step, "mean")
    return of_rank(view, value, lambda: interval_rows(moments), REPEATED)


def short_operator_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of the mean unprofiled step, of the traced ones where no others are known."""
    view, series = profile.rank(rank), profile.series
    spent = short_operator_ms(profile, rank)
    whole_ms = float(wall_ms(view).mean()) if series is None else series.mean_ms
    return of_rank(view, min(100.0 * spent.value / whole_ms, 100.0), spent.rows, REPEATED)


def _usual_steps(profile: Profile) -> NDArray[np.int64]:
    """Numbers of the traced steps about as long as the mean unprofiled one, at least the nearest; none if unknown."""
    if profile.series is None:
        return np.empty(0, dtype=np.int64)
    off = (profile.step_ms / profile.series.mean_ms - 1.0).abs()
    return off.index[off <= max(ALIKE, float(off.min()))].to_numpy(dtype=np.int64)


def operators_per_step(profile: Profile, rank: int) -> Measurement:
    """Outermost computing operators per step on the training threads of a rank without a device."""
    view = profile.rank(rank)
    rows = host_dispatch(profile, rank).rows
    return of_rank(view, len(rows) / len(view.steps), lambda: event_rows(view, rows), "outermost operators")


def repeated_operator_calls(profile: Profile, rank: int) -> Measurement:
    """Calls per step of short operators of kinds called very often, on a rank without a device."""
    view = profile.rank(rank)
    rows = host_dispatch(profile, rank).repeated
    return of_rank(view, len(rows) / len(view.steps), lambda: event_rows(view, rows), REPEATED)


def switch_pauses_per_step(profile: Profile, rank: int) -> Measurement:
    """Pauses between operators per step that last one to three of the interpreter's switch intervals, a tenth over."""
    view, interval_ms = profile.rank(rank), profile.thresholds["switch_interval_ms"]
    pauses = view.parts.host
    turns = (pauses[:, 1] - pauses[:, 0]) / 1e6 / interval_ms
    whole = np.floor(turns + SWITCH_EARLY)
    chosen = pauses[(whole >= 1) & (whole <= SWITCHES) & (turns - whole <= SWITCH_LATE)]
    return of_rank(view, len(chosen) / len(view.steps), lambda: interval_rows(chosen), "pauses of the switch interval")


METRICS = (
    Metric("short_operator_ms", "ms", "How long does a step spend in short operators?", short_operator_ms),
    Metric("short_operator_pct", "%", "What share of a step is spent in short operators?", short_operator_pct),
    Metric("operators_per_step", "operators", "How many operators does a step call?", operators_per_step),
    Metric("repeated_operator_calls", "calls", "How many of them repeat a short one?", repeated_operator_calls),
    Metric("switch_pauses_per_step", "pauses", "How often does it wait a switch interval?", switch_pauses_per_step),
)
