"""Does device memory cost time: allocation calls, a full device, activations computed a second time?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, measure_all, say, worst_of
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.recorded import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.memory import allocation_rows, recomputed, recomputed_kernels
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.work import commonest
from tools.whatif.change import Change, Scale, Unblock

MEMORY_KNOWN_CAP, MEMORY_UNKNOWN_CAP = 0.85, 0.7  # without a figure for memory it may be forced by its lack
TOTALS = ("allocated", "reserved")
AMPLE_PCT = 70.0  # of the device's memory: with less in use, there is room for activations


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
    spent = {rank: measure(profile, "allocation_ms", rank=rank) for rank in ranks}
    wall_ms = {rank: float(profile.rank(rank).breakdown["wall_ns"].mean()) / 1e6 for rank in ranks}
    shares = {rank: 100.0 * spent[rank].value / wall_ms[rank] for rank in ranks}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    total_ms = spent[worst].value * (len(profile.rank(worst).steps) - 1)
    if not chosen or total_ms < profile.thresholds["allocation_ms"]:
        calls = measure(profile, "allocation_calls", rank=worst)
        text = "After the first step a step makes {0} that allocate or free device memory; they take {1}."
        return clean(say(text, calls, spent[worst]))
    return _pressure(profile, chosen, worst, shares[worst])


def _pressure(profile: Profile, ranks: tuple[int, ...], worst: int, share_pct: float) -> Finding:
    view, rows = profile.rank(worst), allocation_rows(profile.rank(worst))
    name = commonest(view, rows, view.end[rows] - view.start[rows])
    metrics = ("allocation_calls", "allocation_ms", "allocation_exposed_ms")
    calls, spent, starving = measure_all(profile, *metrics, rank=worst)
    text = (
        "After the first step, each step still makes {0} that allocate or free device memory, most of it in {n0};"
        " they take {1}."
    )
    change: Change = ()  # the calls are gone, and with those that free memory the waiting for the device in them
    for rank in ranks:
        own, calling = profile.rank(rank), allocation_rows(profile.rank(rank))
        freeing = calling[own.named("device_free")[calling]]
        change += shortened(own, calling, 0.0)
        change += (Unblock(rank, freeing),) if len(freeing) else ()
    return Finding(
        cause="memory_pressure",
        mechanism="allocator_retry",
        claim=say(text, calls, spent, names=(name,)),
        confidence=confidence((share_pct, profile.thresholds["cause_share_pct"]), at_most=0.85),
        ranks=ranks,
        steps=tuple(int(step) for step in np.unique(view.step_of(rows))),
        change=change,
        details=(say("The device is idle during {0} of it.", starving), *_fullness(profile, worst)),
        disproved_by="the calls stop after a few more steps, once the allocator's cache has grown",
        signals=("cudaMalloc or cudaFree inside steady steps", "cache flushes"),
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
    used = measured(profile, "memory_used_pct", rank=worst)
    if used is not None and used.value > AMPLE_PCT:
        text = "Recomputation takes {0} of the step, and the device's memory is so full that it is needed."
        return clean(say(text, share))
    text = "The backward computes {0} of the forward a second time per step, for {1} ({2})."
    change: Change = ()
    for rank in chosen:
        change += tuple(Scale(rank, track, moments) for track, moments in recomputed(profile, rank).items())
        change += shortened(profile.rank(rank), recomputed_kernels(profile, rank), 0.0)
    return Finding(
        cause="memory_pressure",
        mechanism="recomputation",
        claim=say(text, regions, amount, share),
        confidence=confidence(
            (share.value, 0.5 * profile.thresholds["cause_share_pct"]),
            at_most=MEMORY_UNKNOWN_CAP if used is None else MEMORY_KNOWN_CAP,
        ),
        ranks=chosen,
        steps=share.steps,
        change=change,
        against=() if used else (say("Whether memory would suffice without it was not recorded."),),
        disproved_by="a step without activation checkpointing that does not fit into memory, or is as long",
        signals=("recomputation of activations in the backward",),
    )
