"""Is code compiled inside the steps: by events of a trace, by torch's own count, or by versions of its regions?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, measure_all, say, worst_of
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.recorded import by_rank, host_saving, measured, overlapped
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.host.compiled import versions
from tools.metrics.host.program import span_rows
from tools.metrics.registry import measure
from tools.views.coarse import capture_of
from tools.views.host_records import HostRecords
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.series import RunSeries

PATTERN = "compilation"
MOST_LONG = 2.0  # long steps per compilation seen: a trace shows the versions of a few steps only
OPEN = "What the thread computes in the long steps is not recorded; an evaluation would look the same."
SEVERAL = "The traced steps use several versions of one region: their inputs differ in shape."
DISPROVED = "the long steps stay with compilation turned off, or once the same shapes have been seen"
NOT_COUNTED = "no trace was read, and the records count no compilation worth noting"


@check(
    *("cpu.operator_compilation", "Compilation", "Is code compiled during the steps?"),
    causes=("operator_compilation",),
    mechanisms=("dynamic_shape", "graph_recapture", "cold_start"),
    from_records="host",
)
def operator_compilation(profile: Profile) -> Check | Finding:
    """Compile events inside the recorded steps, and compilation in the unprofiled ones."""
    if not profile.traced:
        return _recorded(profile) or cannot_answer(NOT_COUNTED, capture_of(profile))
    ranks = [view.rank.rank for view in profile.ranks if len(span_rows(view, PATTERN))]
    if not ranks:
        return _recorded(profile) or _nothing_seen(profile)
    shares = {rank: measure(profile, "host_span_exposed_pct", rank=rank, pattern=PATTERN) for rank in ranks}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    count, exposed = measure_all(profile, "host_span_count", "host_span_exposed_ms", rank=worst, pattern=PATTERN)
    if not chosen:
        text = "{0} of a compiler are recorded; the device waits {1} per step for them."
        return _recorded(profile) or clean(say(text, count, exposed))
    mechanism, steps = _mechanism(profile.rank(worst))
    text = "{0} of a compiler lie inside the recorded steps and hold them up for {1} per step on average."
    return Finding(
        cause="operator_compilation",
        mechanism=mechanism,
        claim=say(text, count, exposed),
        confidence=confidence((shares[worst].value, profile.thresholds["cause_share_pct"])),
        ranks=chosen,
        steps=steps,
        change=shortened_on(profile, chosen, lambda view: span_rows(view, PATTERN), 0.0),
        disproved_by="the compile events end once the same shapes have been seen",
        signals=("compile or recompile events inside steady steps",),
    )


def _nothing_seen(profile: Profile) -> Check:
    compiled = [view.rank.rank for view in profile.ranks if view.named("compiled_region").any()]
    if compiled:
        fact = measure(profile, "host_span_count", rank=compiled[0], pattern=PATTERN)
        return clean(say("Compiled regions run, and {0} of the compiler lie inside the steps.", fact))
    return cannot_answer(
        "neither compile events nor compiled regions are recorded, and a compiler outside torch.compile would leave"
        " no trace here",
        "a trace with with_stack=True, or the log of TORCH_LOGS=recompiles",
    )


def _mechanism(view: RankProfile) -> tuple[str, tuple[int, ...]]:
    steps = np.unique(view.step_of(span_rows(view, PATTERN)))
    first = len(steps) == 1 and steps[0] == view.steps["number"].iloc[0]
    mechanism = "cold_start" if first else "dynamic_shape"
    if view.in_steps(np.flatnonzero(view.named("graph_capture"))).size:
        mechanism = "graph_recapture"
    return mechanism, tuple(int(step) for step in steps)


def _recorded(profile: Profile) -> Finding | None:
    """The finding of the unprofiled steps; None where they show no compilation worth noting."""
    series, records = profile.series, profile.host_records
    if series is None:
        return None
    finding = None if records is None else _counted(profile, series, records)
    return finding or (_by_versions(profile, series) if profile.traced else None)


def _counted(profile: Profile, series: RunSeries, records: HostRecords) -> Finding | None:
    """By the time that torch reports to have compiled for."""
    costs = by_rank(profile, records, "counter_ms_per_step", field="compile_us")
    if not costs:
        return None
    shares = {rank: 100.0 * cost.value / series.mean_ms for rank, cost in costs.items()}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    cost = costs[worst]
    if not chosen or overlapped(profile, chosen, cost, rare=True):
        return None
    rate = measure(profile, "counter_per_second", rank=worst, field="compilations")
    claim = say("Code is compiled while the training runs, at {0}, which takes {1} per step.", rate, cost)
    sure = confidence((shares[worst], profile.thresholds["cause_share_pct"]), at_most=0.92)
    return _finding(profile, chosen, cost.value, claim, sure, "time that torch compiled for")


def _by_versions(profile: Profile, series: RunSeries) -> Finding | None:
    """By compiled regions that have many versions, and long steps in which the thread computes."""
    again = {rank: measure(profile, "compiled_again", rank=rank) for rank in profile.run.rank_numbers}
    costs: dict[int, Fact] = {}
    for rank, count in again.items():
        cost, long = (measured(profile, name, rank=rank) for name in ("computing_long_ms", "computing_long_steps"))
        often = count.value >= profile.thresholds["compiled_again"]
        if cost is not None and long is not None and often and 0 < long.value <= MOST_LONG * count.value:
            costs[rank] = cost
    limits = profile.thresholds
    shares = {rank: 100.0 * cost.value / series.mean_ms for rank, cost in costs.items()}
    chosen = affected(shares, limits["noted_pct"])
    if not chosen:
        return None
    worst = worst_of(shares)
    long_steps = measure(profile, "computing_long_steps", rank=worst)
    claim = say(
        "Compiled regions were recompiled, {0} or more, as for inputs of another shape; and in {1} far above the median"
        " the training thread computes, which adds {2} to the mean step.",
        *(again[worst], long_steps, costs[worst]),
    )
    sure = confidence(
        (again[worst].value, limits["compiled_again"]), (shares[worst], limits["cause_share_pct"]), at_most=0.8
    )
    method = "long steps in which the thread computes, without collections"
    return _finding(profile, chosen, costs[worst].value, claim, sure, method, (say(OPEN),))


def _finding(
    profile: Profile,
    ranks: tuple[int, ...],
    lost_ms: float,
    claim: Sentence,
    sure: float,
    method: str,
    against: tuple[Sentence, ...] = (),
) -> Finding:
    shapes = any(versions(profile.rank(rank)).in_use > 1 for rank in ranks if rank in profile.run.rank_numbers)
    return Finding(
        cause="operator_compilation",
        mechanism="dynamic_shape" if shapes else None,
        claim=claim,
        confidence=sure,
        ranks=ranks,
        steps=claim.facts[-1].steps,
        saving=host_saving(profile, ranks, lost_ms, (0.6, 1.2), method, rare=True),
        details=(say(SEVERAL),) if shapes else (),
        against=against,
        disproved_by=DISPROVED,
        signals=("compile or recompile events inside steady steps",),
    )
