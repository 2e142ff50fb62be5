"""A rank's host time in operators, beside what the other ranks take for the same ones."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, Metric
from tools.metrics.scope import event_rows, of_rank
from tools.profilers.operator_speed import OperatorSpeed, launching_rows, operator_speed
from tools.profilers.profile import Profile


def launching_operator_ms(profile: Profile, rank: int) -> Measurement:
    """Host time per step in operators that all ranks call, without the calls that launch or wait."""
    speed = _speed(profile, rank)
    return _measured(profile, rank, speed.own_ns / 1e6 / speed.steps)


def launching_operator_excess_ms(profile: Profile, rank: int) -> Measurement:
    """How much longer per step that is than what the median of the other ranks takes for the same operators."""
    return _measured(profile, rank, _speed(profile, rank).excess_ms)


def launching_operator_slowdown_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of what the others take."""
    speed = _speed(profile, rank)
    return _measured(profile, rank, 100.0 * (speed.own_ns / max(speed.expected_ns, 1.0) - 1.0))


def held_up_pct(profile: Profile, rank: int) -> Measurement:
    """Share of that excess which is no even slowness, as the fastest calls do not show it: calls that were held up."""
    return _measured(profile, rank, 100.0 * _speed(profile, rank).delayed_share)


def _speed(profile: Profile, rank: int) -> OperatorSpeed:
    speeds = operator_speed(profile)
    if rank not in speeds:
        raise UsageError(f"rank {rank} shares no launching operators with other traced ranks")
    return speeds[rank]


def _measured(profile: Profile, rank: int, value: float) -> Measurement:
    view = profile.rank(rank)

    def rows() -> pd.DataFrame:
        return event_rows(view, launching_rows(view))

    return of_rank(view, value, rows, "outermost operators that all ranks call, without the runtime's calls in them")


METRICS = (
    Metric("launching_operator_ms", "ms", "How long is the host in operators?", launching_operator_ms),
    Metric("launching_operator_excess_ms", "ms", "How much longer than on other ranks?", launching_operator_excess_ms),
    Metric("launching_operator_slowdown_pct", "%", "By what share is that longer?", launching_operator_slowdown_pct),
    Metric("held_up_pct", "%", "How much of that is in single calls that were held up?", held_up_pct),
)
