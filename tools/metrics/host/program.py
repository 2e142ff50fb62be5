"""The work of the host program: named spans, short operators, the profiler's own work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, merge
from tools.knowledge.name_patterns import patterns
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_events, of_rank, over_steps
from tools.run.events import HOST_WORK, EventKind
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

PROFILED = {"python": EventKind.PYTHON, "operator": EventKind.OPERATOR, "memory": EventKind.INSTANT}
OPTIONS = ("record_shapes", "with_stack", "profile_memory")


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
    value = over_steps(view.per_step_ms(view.covered(rows)), statistic)
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
    recorded = profile.rank(rank).rank.metadata
    extras = sum(recorded.get(option, "0") not in ("0", "", "False", "false") for option in OPTIONS)
    limits = profile.thresholds
    cost_us = frames.value * limits["profiled_frame_us"] + operators.value * extras * limits["profiled_operator_us"]
    return of_rank(profile.rank(rank), cost_us / 1e3, frames.rows, "recorded events times the cost of recording one")
