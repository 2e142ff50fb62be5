"""Does recomputing activations in the backward cost a noticeable part of the step?"""

from __future__ import annotations

from tools.analyzers.support.affected import affected, worst_of
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.confidence import confidence
from tools.errors import UsageError
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.memory import recomputed, recomputed_kernels
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.whatif.change import Change, Scale

NAME = "memory.recomputation"
MEMORY_KNOWN_CAP, MEMORY_UNKNOWN_CAP = 0.85, 0.7  # without a figure for memory it may be forced by its lack
AMPLE_PCT = 70.0  # of the device's memory: with less in use, there is room for activations


def recomputation(profile: Profile) -> Check:
    """The forward that runs again inside the backward."""
    if not any(view.named("backward_node").any() for view in profile.ranks):
        return cannot_answer(NAME, "no nodes of a backward are recorded", "a trace with ProfilerActivity.CPU")
    shares = {view.rank.rank: measure(profile, "recomputed_pct", rank=view.rank.rank).value for view in profile.ranks}
    worst = worst_of(shares)
    share, amount = measure(profile, "recomputed_pct", rank=worst), measure(profile, "recomputed_ms", rank=worst)
    regions = measure(profile, "recomputed_regions", rank=worst)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        return clean(NAME, Sentence("Recomputation inside the backward takes {0} of the step.", (share,)))
    used = _memory_used_pct(profile, worst)
    if used is not None and used > AMPLE_PCT:
        text = "Recomputation takes {0} of the step, and the device's memory is so full that it is needed."
        return clean(NAME, Sentence(text, (share,)))
    return found(
        NAME,
        Finding(
            cause="memory_pressure",
            mechanism="recomputation",
            claim=Sentence(
                "The backward computes {0} of the forward a second time per step, for {1} ({2}).",
                (regions, amount, share),
            ),
            confidence=confidence(
                (share.value, 0.5 * profile.thresholds["cause_share_pct"]),
                at_most=MEMORY_UNKNOWN_CAP if used is None else MEMORY_KNOWN_CAP,
            ),
            ranks=chosen,
            steps=share.steps,
            change=_without(profile, chosen),
            against=()
            if used is not None
            else (Sentence("Whether memory would suffice without it was not recorded."),),
            disproved_by="a step without activation checkpointing that does not fit into memory, or is as long",
            signals=("recomputation of activations in the backward",),
        ),
    )


def _memory_used_pct(profile: Profile, rank: int) -> float | None:
    try:
        return measure(profile, "memory_used_pct", rank=rank).value
    except UsageError:
        return None


def _without(profile: Profile, ranks: tuple[int, ...]) -> Change:
    change: Change = ()
    for rank in ranks:
        view, rows = profile.rank(rank), recomputed_kernels(profile, rank)
        change += tuple(Scale(rank, track, moments, 0.0, 0.5) for track, moments in recomputed(profile, rank).items())
        change += shortened(view, rows, 0.0, 0.5) if len(rows) else ()
    return change
