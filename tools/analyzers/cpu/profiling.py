"""Does a profiler run all the time, as the monitor sees it, and what does that take from a step?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.overlap.idle import waiting_ms
from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.figures import by_rank, host_saving, measure_ranks, measured, overlapped
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding
from tools.intervals import IntervalSet, intersect, length, subtract, union
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.host.blocking import blocking_calls
from tools.views.host.dispatch import host_dispatch
from tools.views.profile import Profile
from tools.views.steps.coarse import capture_of
from tools.whatif.change import Change, Scale

ALWAYS_PCT = 50.0  # of the samples: from here on the profiler belongs to the usual step
METHOD = "profiled events times the cost of recording one"
RECORDS = "A traced step holds {0} for Python frames and {1} for operators."
UNKNOWN = "What it costs is not recorded."
OPEN = "The amount is an estimate from what this trace records; a profiler with other options costs another amount."
RECORDED = (EventKind.PYTHON, EventKind.OPERATOR, EventKind.RUNTIME)
ONLY_PROFILED = 0.5  # of the estimate: if traced steps are longer than the rest by this much, they alone are profiled
TRACED_OPEN = "No step time without the profiler is known; the amount is an estimate."
ONLY = "Profiled steps take {0} longer than the others, on which no profiler ran: it costs the training nothing."
NOT_LONGER = "Steps of this trace differ from the others by {0}: the profiler seems to run in those as well."
ALWAYS = "Steps of this trace are only {0} longer than the others: the profiler seems to run in those as well."


def always_profiled(profile: Profile, rank: int) -> bool:
    """Whether the rank's usual steps run under a profiler."""
    active = measured(profile, "profiler_active_pct", rank=rank)
    return active is not None and active.value >= ALWAYS_PCT


def _events(profile: Profile, rank: int) -> tuple[Fact, Fact]:
    frames = measure(profile, "profiled_events_per_step", rank=rank, kind="python")
    return frames, measure(profile, "profiled_events_per_step", rank=rank, kind="operator")


@check(
    *("cpu.profiling_overhead", "Profiler overhead", "Does a profiler slow the steps?"),
    causes=("profiling_overhead",),
    from_records="host",
)
def profiling_overhead(profile: Profile) -> Check | Finding:
    """Host time that recording stacks, shapes or memory takes, where the step depends on the host."""
    records = profile.host_records
    active = {} if records is None else by_rank(profile, records, "profiler_active_pct")
    if not profile.traced:
        if not active:
            return cannot_answer("no trace was read, and no sample shows whether a profiler ran", capture_of(profile))
        worst = active[worst_of(active)]
        if worst.value < ALWAYS_PCT:
            return clean(say("A profiler runs for {0} of the time.", worst))
        return Finding(
            cause="profiling_overhead",
            claim=say("A profiler of the script's own runs for {0} of the time.", worst),
            confidence=confidence((worst.value, ALWAYS_PCT / 2.0), at_most=0.9),
            ranks=affected(active, ALWAYS_PCT),
            impact_ms=0.0,
            impact_method="what a profiler costs depends on what it records, which only a trace shows",
            against=(say(UNKNOWN),),
        )
    traced = {rank: fact for rank, fact in active.items() if rank in profile.run.rank_numbers}
    return _recorded(profile, traced) if traced else _estimated(profile)


def _recorded(profile: Profile, active: dict[int, Fact]) -> Check | Finding:
    """By how often the monitor's samples find a profiler, and what the trace shows that it records."""
    assert profile.series is not None
    estimates = measure_ranks(profile, active, "profiling_overhead_ms")
    shares = {rank: fact.value * estimates[rank].value / profile.series.mean_ms for rank, fact in active.items()}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        return clean(say("While no trace is recorded a profiler runs for {0} of the time.", active[worst_of(active)]))
    hidden = overlapped(profile, chosen, estimates[worst])
    if answer := hidden:
        return answer
    limits = profile.thresholds
    text = (
        "A profiler runs for {0} of the time, also without a trace, and takes an estimated {1} of host time per step."
    )
    return Finding(
        cause="profiling_overhead",
        claim=say(text, active[worst], estimates[worst]),
        confidence=confidence(
            (shares[worst], limits["cause_share_pct"]), (active[worst].value, ALWAYS_PCT / 2.0), at_most=0.92
        ),
        ranks=chosen,
        steps=active[worst].steps,
        saving=host_saving(profile, chosen, active[worst].value / 100.0 * estimates[worst].value, (0.5, 1.8), METHOD),
        details=(say(RECORDS, *_events(profile, estimates[worst].ranks[0])),),
        against=(say(OPEN),),
    )


def _estimated(profile: Profile) -> Check | Finding:
    """By what the trace records, where no samples show whether unprofiled steps have a profiler as well."""
    shares = {rank: _exposed_pct(profile, rank) for rank in profile.run.rank_numbers}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    estimate = measure(profile, "profiling_overhead_ms", rank=worst)
    if not chosen:
        text = "Recording stacks, shapes and memory takes an estimated {0} of host time per step."
        return clean(say(text, estimate))
    excess = measured(profile, "profiled_excess_pct")
    if excess is not None and excess.value >= ONLY_PROFILED * shares[worst]:
        return clean(say(ONLY, excess))
    frames, operators = _events(profile, worst)
    # Without any step outside of the trace it is open whether the profiler runs all the time.
    with_stacks, without = (0.6, 0.4) if excess is None else (0.9, 0.7)
    sure = confidence(
        (shares[worst], profile.thresholds["cause_share_pct"]), at_most=with_stacks if frames.value else without
    )
    text = "An estimated {0} of host time per step is the profiler's, with {1} for Python frames and {2} for operators."
    return Finding(
        cause="profiling_overhead",
        claim=say(text, estimate, frames, operators),
        confidence=sure,
        ranks=chosen,
        change=_removal(profile, chosen),
        against=(say(TRACED_OPEN),) if excess is None else (),
        details=() if excess is None else (say(ALWAYS if excess.value >= 0 else NOT_LONGER, excess),),
    )


def _exposed_pct(profile: Profile, rank: int) -> float:
    """Share of the step that the profiler's work can cost: no more than it takes, nor than waits for the host."""
    wall_ns = float(profile.rank(rank).breakdown["wall_ns"].sum())
    if not profile.rank(rank).rank.has_device:
        return 100.0 * _share(profile, rank) * length(host_dispatch(profile, rank).moments) / wall_ns
    overhead_ms = measure(profile, "profiling_overhead_ms", rank=rank).value
    steps = len(profile.rank(rank).steps)
    return 100.0 * min(waiting_ms(profile, rank), overhead_ms) * 1e6 * steps / wall_ns


def _share(profile: Profile, rank: int) -> float:
    """Part of any stretch of the host's own time that recording takes, if it is spread evenly."""
    view = profile.rank(rank)
    busy_ns = float(view.breakdown["wall_ns"].sum())
    if view.rank.has_device:
        busy_ns = float(sum(length(moments) for moments in _working(profile, rank).values()))
    overhead_ns = measure(profile, "profiling_overhead_ms", rank=rank).value * 1e6 * len(view.steps)
    return min(overhead_ns / max(busy_ns, 1.0), 0.5)


def _working(profile: Profile, rank: int) -> dict[int, IntervalSet]:
    """When each training thread runs something recorded inside the steps and does not wait for the device."""
    view, calls = profile.rank(rank), blocking_calls(profile, rank)
    waiting = union(calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy())
    steps = view.steps[["start_ns", "end_ns"]].to_numpy()
    active = np.isin(view.kind, [int(kind) for kind in RECORDED]) & ~view.named("profiler_step")
    return {
        int(track): subtract(intersect(union(view.start[mine], view.end[mine]), steps), waiting)
        for track in view.training_tracks
        for mine in (active & (view.track == track),)
    }


def _removal(profile: Profile, ranks: tuple[int, ...]) -> Change:
    changes: list[Scale] = []
    for rank in ranks:
        left = 1.0 - _share(profile, rank)
        if profile.rank(rank).rank.has_device:
            moments = _working(profile, rank)
        else:
            moments = {int(profile.rank(rank).training_tracks[0]): host_dispatch(profile, rank).moments}
        changes += [Scale(rank, track, when, left, (1.0 + left) / 2) for track, when in moments.items() if len(when)]
    return tuple(changes)
