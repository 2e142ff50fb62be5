"""Does the profiler itself slow the run?"""

from __future__ import annotations

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.idle import removal
from tools.analyzers.margin import confidence
from tools.analyzers.profiling_records import recorded_profiler
from tools.analyzers.recorded import measured
from tools.findings import Check, Fact, Finding, Sentence, clean, found
from tools.intervals import length, merge
from tools.metrics.registry import measure
from tools.profilers.host_dispatch import host_dispatch
from tools.profilers.idle import idle_time
from tools.profilers.profile import Profile
from tools.whatif.change import Change, Scale

OVERHEAD = "cpu.profiling_overhead"
ONLY_PROFILED = 0.5  # of the estimate: if traced steps are longer than the rest by this much, they alone are profiled
OPEN = "No step time without the profiler is known; the amount is an estimate."
ALWAYS = "Steps of this trace are only {0} longer than the others: the profiler seems to run in those as well."


def profiling_overhead(profile: Profile) -> Check:
    """Whether recording stacks, shapes or memory takes host time on which the step depends."""
    recorded = recorded_profiler(profile, OVERHEAD)
    if recorded is not None:
        return recorded
    shares = {view.rank.rank: _exposed_pct(profile, view.rank.rank) for view in profile.ranks}
    worst = worst_of(shares)
    estimate = measure(profile, "profiling_overhead_ms", rank=worst)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        text = "Recording stacks, shapes and memory takes an estimated {0} of host time per step."
        return clean(OVERHEAD, Sentence(text, (estimate,)))
    excess = measured(profile, "profiled_excess_pct")
    if excess is not None and excess.value >= ONLY_PROFILED * shares[worst]:
        text = (
            "Profiled steps take {0} longer than the others, on which no profiler ran: it costs the training nothing."
        )
        return clean(OVERHEAD, Sentence(text, (excess,)))
    frames = measure(profile, "profiled_events_per_step", rank=worst, kind="python")
    operators = measure(profile, "profiled_events_per_step", rank=worst, kind="operator")
    return found(
        OVERHEAD,
        Finding(
            cause="profiling_overhead",
            claim=Sentence(
                "An estimated {0} of host time per step is the profiler's own: it records {1} for Python frames and"
                " {2} for operators, and the step waits for the host.",
                (estimate, frames, operators),
            ),
            confidence=confidence(
                (shares[worst], profile.thresholds["cause_share_pct"]), at_most=_surest(excess, bool(frames.value))
            ),
            ranks=chosen,
            steps=estimate.steps,
            change=_removal(profile, chosen),
            against=(Sentence(OPEN),) if excess is None else (),
            details=() if excess is None else (Sentence(ALWAYS, (excess,)),),
            disproved_by="an unprofiled step takes as long as a profiled one",
            signals=("profiler with stacks, shapes or memory active",),
        ),
    )


def _surest(excess: Fact | None, stacks: bool) -> float:
    """Without any step outside of the trace it is open whether the profiler runs all the time."""
    if excess is None:
        return 0.6 if stacks else 0.4
    return 0.9 if stacks else 0.7


def _exposed_pct(profile: Profile, rank: int) -> float:
    """Share of the step that the profiler's work takes where the step depends on the host."""
    wall_ns = float(profile.rank(rank).breakdown["wall_ns"].sum())
    return 100.0 * _share(profile, rank) * _exposed_ns(profile, rank) / wall_ns


def _share(profile: Profile, rank: int) -> float:
    """Part of any stretch of host time that recording takes, if it is spread evenly."""
    wall_ms = float(profile.rank(rank).breakdown["wall_ns"].mean()) / 1e6
    return min(measure(profile, "profiling_overhead_ms", rank=rank).value / wall_ms, 0.5)


def _exposed_ns(profile: Profile, rank: int) -> int:
    if profile.rank(rank).rank.has_device:
        idle = idle_time(profile, rank)
        moments = (*idle.by_track("dispatch").values(), *idle.by_track("stall").values())
        return length(merge(*moments)) if moments else 0
    return length(host_dispatch(profile, rank).moments)


def _removal(profile: Profile, ranks: tuple[int, ...]) -> Change:
    changes: list[Scale] = []
    for rank in ranks:
        left = 1.0 - _share(profile, rank)
        if profile.rank(rank).rank.has_device:
            for reason in ("dispatch", "stall"):
                changes.extend(
                    c for c in removal(profile, (rank,), reason, left, (1.0 + left) / 2) if isinstance(c, Scale)
                )
        else:
            track = int(profile.rank(rank).training_tracks[0])
            changes.append(Scale(rank, track, host_dispatch(profile, rank).moments, left, (1.0 + left) / 2))
    return tuple(changes)
