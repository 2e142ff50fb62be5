"""Does memory cost time: allocation calls, a full device, activations computed a second time, page faults?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.cpu.profiling import always_profiled
from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.figures import (
    by_rank,
    host_saving,
    measure_all,
    measure_ranks,
    measured,
    not_recorded,
    overlapped,
)
from tools.analyzers.support.spec import Need, check
from tools.errors import UsageError
from tools.findings import Check, Fact, Finding, Sentence
from tools.intervals import IntervalSet
from tools.metrics.memory import allocation_rows, recomputed, recomputed_kernels
from tools.metrics.memory_room import kept_moments
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.work import commonest
from tools.whatif.change import Change, Scale, Unblock

MEMORY_KNOWN_CAP, MEMORY_UNKNOWN_CAP = 0.85, 0.7  # without a figure for memory it may be forced by its lack
TOTALS = ("allocated", "reserved")
AMPLE_PCT = 70.0  # of the device's memory: with less in use, there is room for activations
BARE_SHARE = 0.25  # of what a fault is estimated to cost: trap and clearing alone; what comes on top no count shows
PROFILED = 0.45  # a profiler that runs all the time takes memory as well; how much, only a trace lets estimate


@check(
    *("memory.allocation", "Memory allocation", "Do steady steps spend time allocating device memory?"),
    causes=("memory_pressure",),
    mechanisms=("allocator_retry",),
)
def allocation(profile: Profile) -> Check | Finding:
    """Calls that allocate or free device memory after the first step."""
    seen = [view for view in profile.ranks if np.any(view.kind == EventKind.RUNTIME)]
    ranks = [view.rank.rank for view in seen if len(view.steps) > 1]
    if not ranks:
        one_step = "only one step is recorded, and allocations in the first step are usual"
        reason = one_step if seen else "no runtime calls are recorded"
        return cannot_answer(reason, "a trace of at least two steps with ProfilerActivity.CPU and CUDA")
    wall_ms = {rank: float(profile.rank(rank).breakdown["wall_ns"].mean()) / 1e6 for rank in ranks}
    spent_ms = measure_ranks(profile, ranks, "allocation_ms")
    shares = {rank: 100.0 * spent_ms[rank].value / wall_ms[rank] for rank in ranks}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    metrics = ("allocation_calls", "allocation_ms", "allocation_exposed_ms")
    calls, spent, starving = measure_all(profile, *metrics, rank=worst)
    if not chosen or spent.value * (len(profile.rank(worst).steps) - 1) < profile.thresholds["allocation_ms"]:
        text = "After the first step a step makes {0} that allocate or free device memory; they take {1}."
        return clean(say(text, calls, spent))
    view, rows = profile.rank(worst), allocation_rows(profile.rank(worst))
    name = commonest(view, rows, view.end[rows] - view.start[rows])
    text = "After the first step, each step makes {0} that allocate or free device memory, mostly {n0}; they take {1}."
    change: Change = ()  # the calls are gone, and with those that free memory the waiting for the device in them
    for rank in chosen:
        own, calling = profile.rank(rank), allocation_rows(profile.rank(rank))
        freeing = calling[own.named("device_free")[calling]]
        change += shortened(own, calling, 0.0)
        change += (Unblock(rank, freeing),) if len(freeing) else ()
    return Finding(
        cause="memory_pressure",
        mechanism="allocator_retry",
        claim=say(text, calls, spent, names=(name,)),
        confidence=confidence((shares[worst], profile.thresholds["cause_share_pct"]), at_most=0.85),
        ranks=chosen,
        steps=tuple(int(step) for step in np.unique(view.step_of(rows))),
        change=change,
        details=(say("The device is idle during {0} of it.", starving), *_fullness(profile, worst)),
        hints={"call": name},
    )


@check(
    *("memory.peak", "Peak memory", "How much device memory is in use at its peak?"),
    causes=("memory_pressure",),
    mechanisms=("fragmentation",),
)
def peak(profile: Profile) -> Check:
    """Allocated and reserved memory at the peak, and what of the reserved memory is unused then."""
    for rank in profile.run.rank_numbers:
        used, reserved = (measured(profile, "memory_peak_mib", rank=rank, what=what) for what in TOTALS)
        unused = measured(profile, "memory_unused_pct", rank=rank)
        if used and reserved and unused:
            text = "Device memory in use peaks at {0} of {1} reserved; {2} of the reserved memory is unused then."
            return clean(say(text, used, reserved, unused), *_fullness(profile, rank))
        if reserved:
            text = "Memory that the process took from the device peaks at {0}; what of it was in use is not recorded."
            return clean(say(text, reserved), *_fullness(profile, rank))
    return cannot_answer("the allocator's marks hold no device totals", "a trace recorded with profile_memory=True")


def _fullness(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    used = measured(profile, "memory_used_pct", rank=rank)
    return () if used is None else (say("The device's memory is {0} full.", used),)


@check(
    *("memory.recomputation", "Activation recomputation", "Does recomputing activations cost time?"),
    causes=("memory_pressure",),
    mechanisms=("recomputation",),
)
def recomputation(profile: Profile) -> Check | Finding:
    """The forward that runs again inside the backward."""
    if not any(view.named("backward_node").any() for view in profile.ranks):
        return cannot_answer("no nodes of a backward are recorded", "a trace with ProfilerActivity.CPU")
    shares = {rank: measure(profile, "recomputed_pct", rank=rank) for rank in profile.run.rank_numbers}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    metrics = ("recomputed_regions", "recomputed_ms", "recomputed_pct")
    regions, amount, share = measure_all(profile, *metrics, rank=worst)
    if not chosen:
        return clean(say("Recomputation inside the backward takes {0} of the step.", share))
    used = measured(profile, "device_memory_pct", rank=worst)
    fits = measured(profile, "kept_regions", rank=worst)
    if fits is not None and not fits.value:
        text = (
            "Recomputation takes {0} of the step, and the device's memory, {1} full, has no room for one region more."
        )
        return clean(say(text, share, *([used] if used else ())))
    if fits is None and used is not None and used.value > AMPLE_PCT:
        text = "Recomputation takes {0} of the step, and the device's memory is so full that it is needed."
        return clean(say(text, share))
    text = "The backward computes {0} of the forward a second time per step, for {1} ({2})."
    change: Change = ()
    for rank in chosen:
        moments = _avoidable(profile, rank)
        change += tuple(Scale(rank, track, own) for track, own in moments.items())
        change += shortened(profile.rank(rank), recomputed_kernels(profile, rank, moments), 0.0)
    return Finding(
        cause="memory_pressure",
        mechanism="recomputation",
        claim=say(text, regions, amount, share),
        confidence=confidence(
            (share.value, 0.5 * profile.thresholds["cause_share_pct"]),
            at_most=MEMORY_UNKNOWN_CAP if used is None else MEMORY_KNOWN_CAP,
        ),
        ranks=chosen,
        change=change,
        details=_room(profile, worst, fits),
        against=() if used else (say("Whether memory would suffice without it was not recorded."),),
    )


def _avoidable(profile: Profile, rank: int) -> dict[int, IntervalSet]:
    """By host thread, what memory has room to keep; everything recomputed where that is not recorded."""
    try:
        return kept_moments(profile, rank)
    except UsageError:
        return recomputed(profile, rank)


def _room(profile: Profile, rank: int, fits: Fact | None) -> tuple[Sentence, ...]:
    """Room in memory, and what of the recomputed activations fits into it."""
    spare = measured(profile, "spare_memory_gib", rank=rank)
    if spare is None:
        return ()
    if fits is None:
        text = "{0} more of the device's memory could be used; what the activations would take of it is not recorded."
        return (say(text, spare),)
    taken, whole = (measure(profile, "recomputed_gib", rank=rank, which=each) for each in ("kept", "all"))
    text = "{0} more of the device's memory could be used: {1} fit and take {2} (all would take {3})."
    return (say(text, spare, fits, taken, whole),)


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
        return not_recorded(profile, "the records do not count page faults", "minor_faults")
    shares = {rank: 100.0 * fact.value / records.series.mean_ms for rank, fact in costs.items()}
    worst = worst_of(costs)
    faults = measure(profile, "counter_per_step", rank=worst, field="minor_faults")
    if shares[worst] < profile.thresholds["page_fault_pct"]:
        text = "Page faults occur at {0} at most, an estimated {1} of kernel time per step."
        return clean(say(text, faults, costs[worst]))
    ranks = affected(shares, profile.thresholds["noted_pct"])
    hidden = overlapped(profile, ranks, costs[worst])
    if answer := hidden:
        return answer
    profiled = any(always_profiled(profile, rank) for rank in ranks)
    # A profiler takes memory for what it records: up to its own cost the faults are its doing.
    traced = [rank for rank in ranks if profiled and rank in profile.run.rank_numbers]
    estimates = (measure(profile, "profiling_overhead_ms", rank=rank).value for rank in traced)
    own_ms = max(costs[worst].value - max(estimates, default=0.0), 0.0) if profiled else costs[worst].value
    text = "Memory is released and re-faulted every step: page faults occur at {0}, an estimated {1} per step."
    return Finding(
        cause="memory_pressure",
        claim=say(text, faults, costs[worst]),
        confidence=confidence(
            (BARE_SHARE * shares[worst], profile.thresholds["cause_share_pct"]),
            at_most=PROFILED if profiled and not profile.traced else 0.85,
        ),
        ranks=ranks,
        saving=host_saving(profile, ranks, own_ms, (0.4, 2.0), "page faults times the cost of one"),
        symptom_of=("profiling_overhead",) if profiled else (),
    )
