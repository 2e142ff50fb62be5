"""Does a profiler run all the time, as the monitor sees it, and what does that take from a step?"""

from __future__ import annotations

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.margin import confidence
from tools.analyzers.recorded import by_rank, host_saving, measured, overlapped, values
from tools.findings import Check, Fact, Finding, Sentence, clean, found
from tools.metrics.registry import measure
from tools.profilers.profile import Profile

ALWAYS_PCT = 50.0  # of the samples: from here on the profiler belongs to the usual step
UNKNOWN = "What it costs is not recorded."
OPEN = "The amount is an estimate from what this trace records; a profiler with other options costs another amount."


def always_profiled(profile: Profile, rank: int) -> bool:
    """Whether the rank's usual steps run under a profiler."""
    active = measured(profile, "profiler_active_pct", rank=rank)
    return active is not None and active.value >= ALWAYS_PCT


def recorded_profiler(profile: Profile, name: str) -> Check | None:
    """The answer of the monitor's samples; None where they do not tell whether a profiler ran."""
    records = profile.host_records
    active = {} if records is None else by_rank(profile, records, "profiler_active_pct")
    traced = {rank: fact for rank, fact in active.items() if rank in profile.run.rank_numbers}
    if records is None or not traced:
        return None
    estimates = {rank: measure(profile, "profiling_overhead_ms", rank=rank) for rank in traced}
    shares = {rank: fact.value * estimates[rank].value / records.series.mean_ms for rank, fact in traced.items()}
    worst = worst_of(shares)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        most = traced[worst_of(values(traced))]
        return clean(name, Sentence("While no trace is recorded a profiler runs for {0} of the time.", (most,)))
    hidden = overlapped(profile, name, chosen, estimates[worst])
    return hidden or found(name, _finding(profile, chosen, traced[worst], estimates[worst], shares[worst]))


def untraced_profiler(profile: Profile, name: str) -> Check | None:
    """The answer of the samples where there is no trace to estimate the cost from; None where they do not tell."""
    records = profile.host_records
    active = {} if records is None else by_rank(profile, records, "profiler_active_pct")
    if not active:
        return None
    worst = worst_of(values(active))
    if active[worst].value < ALWAYS_PCT:
        return clean(name, Sentence("A profiler runs for {0} of the time.", (active[worst],)))
    return found(
        name,
        Finding(
            cause="profiling_overhead",
            claim=Sentence("A profiler of the script's own runs for {0} of the time.", (active[worst],)),
            confidence=confidence((active[worst].value, ALWAYS_PCT / 2.0), at_most=0.9),
            ranks=affected(values(active), ALWAYS_PCT),
            impact_ms=0.0,
            impact_method="what a profiler costs depends on what it records, which only a trace tells",
            against=(Sentence(UNKNOWN),),
            disproved_by="the steps are as long with the script's profiler taken out",
            signals=("profiler with stacks, shapes or memory active",),
        ),
    )


def _finding(profile: Profile, ranks: tuple[int, ...], active: Fact, estimate: Fact, share_pct: float) -> Finding:
    worst = estimate.ranks[0]
    frames = measure(profile, "profiled_events_per_step", rank=worst, kind="python")
    operators = measure(profile, "profiled_events_per_step", rank=worst, kind="operator")
    limits = profile.thresholds
    return Finding(
        cause="profiling_overhead",
        claim=Sentence(
            "A profiler runs for {0} of the time, also in steps of which no trace is kept: recording stacks, shapes and"
            " memory takes an estimated {1} of host time per step.",
            (active, estimate),
        ),
        confidence=confidence((share_pct, limits["cause_share_pct"]), (active.value, ALWAYS_PCT / 2.0), at_most=0.92),
        ranks=ranks,
        steps=active.steps,
        saving=host_saving(
            profile,
            ranks,
            active.value / 100.0 * estimate.value,
            (0.5, 1.8),
            "profiled events times the cost of recording one",
        ),
        details=(Sentence("A traced step holds {0} for Python frames and {1} for operators.", (frames, operators)),),
        against=(Sentence(OPEN),),
        disproved_by="the steps are as long with the script's profiler taken out",
        signals=("profiler with stacks, shapes or memory active",),
    )
