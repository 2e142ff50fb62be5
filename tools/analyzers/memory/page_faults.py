"""Is memory released and re-faulted, page by page, in every step?"""

from __future__ import annotations

from tools.analyzers.cpu.profiling import always_profiled
from tools.analyzers.support.answers import affected, clean, confidence, say, worst_of
from tools.analyzers.support.recorded import by_rank, host_saving, not_recorded, overlapped
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Fact, Finding
from tools.metrics.registry import measure
from tools.views.profile import Profile

PROFILED = 0.45  # a profiler that runs all the time takes memory as well; how much, only a trace lets estimate


@check(
    *("memory.page_faults", "Page faults", "Is memory released and re-faulted every step?"),
    causes=("memory_pressure",),
    needs=(Need.RECORDS,),
    from_records="host",
)
def page_faults(profile: Profile) -> Check | Finding:
    """Faults per step times what the kernel needs for one."""
    records = profile.host_records
    assert records is not None
    costs = by_rank(profile, records, "page_fault_ms")
    if not costs:
        return not_recorded("the records do not count page faults")
    shares = {rank: 100.0 * fact.value / records.series.mean_ms for rank, fact in costs.items()}
    worst = worst_of(costs)
    faults = measure(profile, "counter_per_step", rank=worst, field="minor_faults")
    if shares[worst] < profile.thresholds["page_fault_pct"]:
        text = "Page faults occur at {0} at most, an estimated {1} of kernel time per step."
        return clean(say(text, faults, costs[worst]))
    ranks = affected(shares, profile.thresholds["noted_pct"])
    hidden = overlapped(profile, ranks, costs[worst])
    return hidden or _finding(profile, ranks, faults, costs[worst], shares[worst])


def _finding(profile: Profile, ranks: tuple[int, ...], faults: Fact, cost: Fact, share_pct: float) -> Finding:
    profiled = any(always_profiled(profile, rank) for rank in ranks)
    # A profiler takes memory for what it records: up to its own cost the faults are its doing.
    traced = [rank for rank in ranks if profiled and rank in profile.run.rank_numbers]
    estimates = (measure(profile, "profiling_overhead_ms", rank=rank).value for rank in traced)
    own_ms = max(cost.value - max(estimates, default=0.0), 0.0) if profiled else cost.value
    return Finding(
        cause="memory_pressure",
        claim=say(
            "Memory is released and re-faulted every step: page faults occur at {0}, an estimated {1} of kernel time"
            " per step.",
            *(faults, cost),
        ),
        confidence=confidence(
            (share_pct, profile.thresholds["page_fault_pct"]),
            at_most=PROFILED if profiled and not profile.traced else 0.85,
        ),
        ranks=ranks,
        saving=host_saving(profile, ranks, own_ms, (0.4, 2.0), "page faults times the cost of one"),
        against=(say("The cost of one fault is a figure of common machines, not of this one."),),
        disproved_by="page faults fall but the steps stay as long once the allocator keeps its memory",
        symptom_of=("profiling_overhead",) if profiled else (),
        signals=("page faults in every steady step", "memory handed back to the system each step"),
    )
