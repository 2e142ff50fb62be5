"""Does the process get its memory page by page from the kernel, over and over again?"""

from __future__ import annotations

from tools.analyzers.cpu.profiling import always_profiled
from tools.analyzers.support.affected import affected, worst_of
from tools.analyzers.support.confidence import confidence
from tools.analyzers.support.recorded import by_rank, host_saving, not_recorded, overlapped, values
from tools.findings import Check, Fact, Finding, Sentence, clean, found
from tools.metrics.registry import measure
from tools.views.profile import Profile

NAME = "memory.page_faults"
PROFILED = 0.45  # a profiler that runs all the time takes memory as well; how much, only a trace lets estimate


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Faults per step times what the kernel needs for one."""
    return (_page_faults(profile),)


def _page_faults(profile: Profile) -> Check:
    records = profile.host_records
    if records is None:
        return not_recorded(NAME)
    costs = by_rank(profile, records, "page_fault_ms")
    if not costs:
        return not_recorded(NAME, "the records do not count page faults")
    worst = worst_of(values(costs))
    faults = measure(profile, "counter_per_step", rank=worst, field="minor_faults")
    share = 100.0 * costs[worst].value / records.series.mean_ms
    if share < profile.thresholds["page_fault_pct"]:
        text = "Page faults come at {0} at most, an estimated {1} of kernel time per step."
        return clean(NAME, Sentence(text, (faults, costs[worst])))
    shares = {rank: 100.0 * fact.value / records.series.mean_ms for rank, fact in costs.items()}
    ranks = affected(shares, profile.thresholds["noted_pct"])
    hidden = overlapped(profile, NAME, ranks, costs[worst])
    return hidden or found(NAME, _finding(profile, ranks, faults, costs[worst], share))


def _finding(profile: Profile, ranks: tuple[int, ...], faults: Fact, cost: Fact, share_pct: float) -> Finding:
    profiled = any(always_profiled(profile, rank) for rank in ranks)
    # A profiler takes memory for what it records: up to its own cost the faults are its doing.
    own_ms = max(cost.value - _profiler_ms(profile, ranks), 0.0) if profiled else cost.value
    return Finding(
        cause="memory_pressure",
        claim=Sentence(
            "Memory is handed back and taken anew in every step: page faults come at {0}, an estimated {1} of kernel"
            " time per step.",
            (faults, cost),
        ),
        confidence=confidence(
            (share_pct, profile.thresholds["page_fault_pct"]),
            at_most=PROFILED if profiled and not profile.traced else 0.85,
        ),
        ranks=ranks,
        saving=host_saving(profile, ranks, own_ms, (0.4, 2.0), "page faults times the cost of one"),
        against=(Sentence("The cost of one fault is a figure of common machines, not of this one."),),
        disproved_by="page faults fall but the steps stay as long once the allocator keeps its memory",
        symptom_of=("profiling_overhead",) if profiled else (),
        signals=("page faults in every steady step", "memory handed back to the system each step"),
    )


def _profiler_ms(profile: Profile, ranks: tuple[int, ...]) -> float:
    traced = [rank for rank in ranks if rank in profile.run.rank_numbers]
    return max((measure(profile, "profiling_overhead_ms", rank=rank).value for rank in traced), default=0.0)
