"""Work of the host program: named spans, the profiler's own work, and time between and in short operators."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, merge
from tools.knowledge.name_patterns import patterns
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events, of_moments, of_rank, over_steps
from tools.run.events import HOST_WORK, EventKind
from tools.views.host.dispatch import host_dispatch
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.recording_cost import operator_cost_us

PROFILED = {"python": EventKind.PYTHON, "operator": EventKind.OPERATOR, "memory": EventKind.INSTANT}


def span_rows(view: RankProfile, pattern: str) -> NDArray[np.int64]:
    """Rows of host events on training threads, inside steps, whose name matches a pattern of the vocabulary."""
    choice("pattern", pattern, patterns())
    host = np.isin(view.kind, [int(kind) for kind in HOST_WORK])
    return view.in_steps(np.flatnonzero(view.named(pattern) & host & view.on_training_thread))


def starved(view: RankProfile) -> IntervalSet:
    """The moments of exposed host time: the device has nothing to do for the host's sake, or there is none."""
    window = np.array([view.rank.window()], dtype=np.int64)
    return merge(view.parts.data_wait, view.parts.host) if view.rank.has_device else window


@metric("ms", "{statistic} host time per step in {pattern}", "How long is the host in this kind of work?")
def host_span_ms(profile: Profile, rank: int, pattern: str, statistic: str = "mean") -> Measurement:
    """Time per step in host spans of that kind."""
    view, rows = profile.rank(rank), span_rows(profile.rank(rank), pattern)
    value = over_steps(view.host_per_step_ms(view.covered(rows)), statistic)
    return of_events(view, value, rows, f"host spans named like {pattern}")


@metric("ms", "{statistic} exposed host time per step in {pattern}", "How long does the device wait for it?")
def host_span_exposed_ms(profile: Profile, rank: int, pattern: str, statistic: str = "mean") -> Measurement:
    """Time per step in host spans of that kind while the device has nothing to do (or there is none)."""
    view, rows = profile.rank(rank), span_rows(profile.rank(rank), pattern)
    value = over_steps(view.per_step_ms(intersect(view.covered(rows), starved(view))), statistic)
    return of_events(view, value, rows, f"host spans named like {pattern} while the device is idle")


@metric("%", "exposed share of the step in {pattern}", "How much of the step does the device wait?")
def host_span_exposed_pct(profile: Profile, rank: int, pattern: str) -> Measurement:
    """The same as a share of the step time."""
    return as_pct(host_span_exposed_ms(profile, rank, pattern), float(profile.rank(rank).wall_ms.mean()))


@metric("events", "recorded host spans of {pattern}", "How often does the host do this kind of work?")
def host_span_count(profile: Profile, rank: int, pattern: str) -> Measurement:
    """Number of host spans of that kind in all recorded steps."""
    rows = span_rows(profile.rank(rank), pattern)
    return of_events(profile.rank(rank), len(rows), rows, f"host spans named like {pattern}")


@metric("ms", "longest host span of {pattern}", "How long is the longest host span of this kind?")
def host_span_longest_ms(profile: Profile, rank: int, pattern: str) -> Measurement:
    """The longest host span of that kind in the recorded steps; 0 when there is none."""
    view, rows = profile.rank(rank), span_rows(profile.rank(rank), pattern)
    longest = (view.end[rows] - view.start[rows]).max(initial=0) / 1e6
    return of_events(view, longest, rows, f"longest host span named like {pattern}")


@metric("events", "profiled {kind} events per step", "How many events does the profiler record?")
def profiled_events_per_step(profile: Profile, rank: int, kind: str) -> Measurement:
    """Events that the profiler recorded per step: ``python`` frames, ``operator`` or ``memory`` marks."""
    choice("kind", kind, PROFILED)
    view = profile.rank(rank)
    rows = view.in_steps(np.flatnonzero(view.kind == PROFILED[kind]))
    return of_events(view, len(rows) / len(view.steps), rows, f"{kind} events")


@metric("ms", "estimated profiler overhead per step", "How much host time does the profiler take?")
def profiling_overhead_ms(profile: Profile, rank: int) -> Measurement:
    """Estimated host time per step that recording stacks, shapes and memory takes, from a cost per recorded event."""
    frames = profiled_events_per_step(profile, rank, "python")
    operators = profiled_events_per_step(profile, rank, "operator")
    cost_us = frames.value * profile.thresholds["profiled_frame_us"]
    cost_us += operators.value * operator_cost_us(profile, profile.rank(rank))
    return of_rank(profile.rank(rank), cost_us / 1e3, frames.rows, "recorded events times the cost of recording one")


ALIKE = 0.5  # of the usual step's length that a traced one may differ by
SWITCHES = 3  # intervals; of more, a tenth over each leaves no length that would not fit
SWITCH_EARLY, SWITCH_LATE = 0.02, 0.1  # of an interval: what clocks round off, and waking up
NEARBY = 3  # the windows around those lengths, the windows themselves included, over the windows
REPEATED = "short outermost operators of kinds called very often, and the pauses next to them"


@metric("ms", "time per step in repeated short operators", "How long are repeated short operators?")
def short_operator_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in short operators of kinds called very often and in the short pauses next to them.

    On a rank without a device. Where unprofiled steps are known it is the median of the traced steps that are like
    them, or the one nearest to them: recording stretches steps where there are many operators, some many times over.
    A traced step that is longer than an unprofiled one counts as stretched evenly; ``least_short_operator_ms`` has all
    of what it takes longer in the short operators.
    """
    per_step = _per_step_ms(profile, rank)
    if profile.series is not None:
        per_step = per_step * np.minimum(profile.series.mean_ms / profile.rank(rank).wall_ms, 1.0)
    return _short_operators(profile, rank, _usual_ms(profile, rank, per_step))


@metric("ms", "least time per step in repeated short operators", "How long are they at least?")
def least_short_operator_ms(profile: Profile, rank: int) -> Measurement:
    """A lower bound: each traced step less its excess over an unprofiled step; the highest such bound."""
    if profile.series is None:
        return short_operator_ms(profile, rank)
    excess_ms = np.maximum(profile.rank(rank).wall_ms - profile.series.mean_ms, 0.0)
    return _short_operators(profile, rank, max(float((_per_step_ms(profile, rank) - excess_ms).max()), 0.0))


@metric("ms", "most time per step in repeated short operators", "How long are they at most?")
def most_short_operator_ms(profile: Profile, rank: int) -> Measurement:
    """The most that it can be: as long as in the traced steps like an unprofiled one, and no longer than that one."""
    if profile.series is None:
        return short_operator_ms(profile, rank)
    usual_ms = _usual_ms(profile, rank, _per_step_ms(profile, rank))
    return _short_operators(profile, rank, min(usual_ms, profile.series.mean_ms))


@metric("%", "share of the step in repeated short operators", "How much of a step are short operators?")
def short_operator_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of the mean unprofiled step, of the traced ones where no others are known."""
    whole_ms = float(profile.rank(rank).wall_ms.mean()) if profile.series is None else profile.series.mean_ms
    return as_pct(short_operator_ms(profile, rank), whole_ms)


def _short_operators(profile: Profile, rank: int, value_ms: float) -> Measurement:
    return of_moments(profile.rank(rank), value_ms, host_dispatch(profile, rank).repeated_moments, REPEATED)


def _per_step_ms(profile: Profile, rank: int) -> NDArray[np.float64]:
    return profile.rank(rank).host_per_step_ms(host_dispatch(profile, rank).repeated_moments)


def _usual_ms(profile: Profile, rank: int, per_step: NDArray[np.float64]) -> float:
    """The median of the traced steps about as long as the mean unprofiled one, at least the nearest; else the mean."""
    if profile.series is None:
        return float(per_step.mean())
    off = (profile.step_ms / profile.series.mean_ms - 1.0).abs()
    like = profile.rank(rank).steps["number"].isin(off.index[off <= max(ALIKE, float(off.min()))]).to_numpy()
    return float(np.median(per_step[like])) if like.any() else float(per_step.mean())


@metric("operators", "outermost operators per step", "How many operators does a step call?")
def operators_per_step(profile: Profile, rank: int) -> Measurement:
    """Outermost computing operators per step on the training threads of a rank without a device."""
    view, rows = profile.rank(rank), host_dispatch(profile, rank).rows
    return of_events(view, len(rows) / len(view.steps), rows, "outermost operators")


@metric("calls", "calls per step of repeated short operators", "How often does a step call short operators?")
def repeated_operator_calls(profile: Profile, rank: int) -> Measurement:
    """Calls per step of short operators of kinds called very often, on a rank without a device."""
    view, rows = profile.rank(rank), host_dispatch(profile, rank).repeated
    return of_events(view, len(rows) / len(view.steps), rows, REPEATED)


@metric("pauses", "switch-interval pauses per step", "How often does the interpreter switch threads?")
def switch_pauses_per_step(profile: Profile, rank: int) -> Measurement:
    """Pauses between operators per step that last one to three of the interpreter's switch intervals, a tenth over."""
    return _pauses(profile, rank, SWITCH_EARLY, SWITCH_LATE, "pauses of the switch interval")


@metric("pauses", "pauses per step near the switch interval", "How often are pauses about as long?")
def near_switch_pauses_per_step(profile: Profile, rank: int) -> Measurement:
    """The same in a window three times as wide: by chance a third of these would have the switch interval's length."""
    width = SWITCH_EARLY + SWITCH_LATE
    return _pauses(profile, rank, SWITCH_EARLY + width, SWITCH_LATE + width, "pauses near the switch interval")


def _pauses(profile: Profile, rank: int, early: float, late: float, selector: str) -> Measurement:
    """Pauses of one to three switch intervals, up to those parts of one shorter or longer."""
    view, interval_ms = profile.rank(rank), profile.thresholds["switch_interval_ms"]
    pauses = view.parts.host
    turns = (pauses[:, 1] - pauses[:, 0]) / 1e6 / interval_ms
    whole = np.floor(turns + early)
    chosen = pauses[(whole >= 1) & (whole <= SWITCHES) & (turns - whole <= late)]
    return of_moments(view, len(chosen) / len(view.steps), chosen, selector)
