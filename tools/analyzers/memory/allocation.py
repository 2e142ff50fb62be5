"""Does allocating device memory take time, and how full is the device?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.memory.recomputation import recomputation
from tools.analyzers.support.affected import affected, worst_of
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.confidence import confidence
from tools.errors import UsageError
from tools.findings import Check, Fact, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.memory import allocation_rows
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.host_calls import commonest
from tools.views.profile import Profile
from tools.whatif.change import Change, Unblock

ALLOCATION = "memory.allocation"
PEAK = "memory.peak"


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Allocation calls in steady steps, peak use where the allocator was recorded, and recomputation."""
    return _allocation(profile), _peak(profile), recomputation(profile)


def _allocation(profile: Profile) -> Check:
    seen = [view for view in profile.ranks if np.any(view.kind == EventKind.RUNTIME)]
    ranks = [view.rank.rank for view in seen if len(view.steps) > 1]
    if not ranks:
        reason = (
            "only one step is recorded, and allocations in the first step are usual"
            if seen
            else "no runtime calls are recorded"
        )
        return cannot_answer(ALLOCATION, reason, "a trace of at least two steps with ProfilerActivity.CPU and CUDA")
    shares = {rank: _share_pct(profile, rank) for rank in ranks}
    worst = worst_of(shares)
    calls = measure(profile, "allocation_calls", rank=worst)
    spent = measure(profile, "allocation_ms", rank=worst)
    total_ms = spent.value * (len(profile.rank(worst).steps) - 1)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen or total_ms < profile.thresholds["allocation_ms"]:
        text = "After the first step a step makes {0} that allocate or free device memory; they take {1}."
        return clean(ALLOCATION, Sentence(text, (calls, spent)))
    return found(ALLOCATION, _pressure(profile, chosen, worst, shares[worst]))


def _pressure(profile: Profile, ranks: tuple[int, ...], worst: int, share_pct: float) -> Finding:
    view = profile.rank(worst)
    rows = allocation_rows(view)
    name = commonest(view, rows, view.end[rows] - view.start[rows])
    calls, spent, starving = (
        measure(profile, metric, rank=worst)
        for metric in ("allocation_calls", "allocation_ms", "allocation_exposed_ms")
    )
    text = (
        "After the first step, each step still makes {0} that allocate or free device memory, most of it in {n0};"
        " they take {1}."
    )
    exposed = Sentence("The device has nothing to do during {0} of it.", (starving,))
    return Finding(
        cause="memory_pressure",
        mechanism="allocator_retry",
        claim=Sentence(text, (calls, spent), (name,)),
        confidence=confidence((share_pct, profile.thresholds["cause_share_pct"]), at_most=0.85),
        ranks=ranks,
        steps=tuple(int(step) for step in np.unique(view.step_of(rows))),
        change=_removal(profile, ranks),
        details=(exposed, *_fullness(profile, worst)),
        disproved_by="the calls stop after a few more steps, once the allocator's cache has grown",
        signals=("cudaMalloc or cudaFree inside steady steps", "cache flushes"),
        hints={"call": name},
    )


def _share_pct(profile: Profile, rank: int) -> float:
    wall_ms = float(profile.rank(rank).breakdown["wall_ns"].mean()) / 1e6
    return 100.0 * measure(profile, "allocation_ms", rank=rank).value / wall_ms


def _removal(profile: Profile, ranks: tuple[int, ...]) -> Change:
    """The calls are gone, and with those that free memory the waiting for the device in them."""
    change: Change = ()
    for rank in ranks:
        view, rows = profile.rank(rank), allocation_rows(profile.rank(rank))
        freeing = rows[view.named("device_free")[rows]]
        change += shortened(view, rows, 0.0, 0.5)
        change += (Unblock(rank, freeing),) if len(freeing) else ()
    return change


def _peak(profile: Profile) -> Check:
    for rank in profile.run.rank_numbers:
        facts = _recorded(profile, rank)
        if facts:
            text = "Device memory in use peaks at {0} of {1} reserved; {2} of the reserved memory is unused then."
            return clean(PEAK, Sentence(text, facts), *_fullness(profile, rank))
    return cannot_answer(
        PEAK, "the allocator's marks hold no device totals", "a trace recorded with profile_memory=True"
    )


def _recorded(profile: Profile, rank: int) -> tuple[Fact, ...]:
    try:
        return (
            measure(profile, "memory_peak_mib", rank=rank, what="allocated"),
            measure(profile, "memory_peak_mib", rank=rank, what="reserved"),
            measure(profile, "memory_unused_pct", rank=rank),
        )
    except UsageError:
        return ()


def _fullness(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    try:
        return (Sentence("The device's memory is {0} full.", (measure(profile, "memory_used_pct", rank=rank),)),)
    except UsageError:
        return ()
