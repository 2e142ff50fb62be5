"""Are the same gradients exchanged more than once before the parameters are updated?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import cannot_answer, clean, confidence, say
from tools.analyzers.support.figures import measure_all
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.metrics.registry import measure
from tools.views.gradient_sync import gradient_passes, repeated, repeated_broadcasts
from tools.views.profile import Profile
from tools.whatif.change import Change, Omit
from tools.whatif.predict import saved_ms


@check(
    *(
        "communication.redundant",
        "Redundant gradient synchronization",
        "Are the same gradients exchanged several times per update?",
    ),
    causes=("redundant_synchronization",),
    mechanisms=("accumulation_without_no_sync",),
)
def redundant(profile: Profile) -> Check | Finding | None:
    """All-reduces of whole gradients in every micro-batch of an accumulation, and searches for unused parameters."""
    ranks = [rank for rank in profile.run.rank_numbers if len(gradient_passes(profile, rank))]
    if not ranks:
        return None
    if not any(gradient_passes(profile, rank)["bytes"].gt(0).any() for rank in ranks):
        return cannot_answer(
            "the sizes of the all-reduces were not recorded", "a profile taken with record_shapes=True"
        )
    rank = max(ranks, key=lambda each: (len(repeated(profile, each)), -each))
    passes = measure(profile, "passes_per_update", rank=rank)
    searched = measure(profile, "unused_searches", rank=rank)
    change = _without(profile, ranks)
    if not change:
        also = (say("It searches for unused parameters {0} per step.", searched),) if searched.value else ()
        return clean(say("Gradients are exchanged in {0} per optimizer step.", passes), *also)
    exchange, again = measure_all(profile, "pass_bytes", "repeated_exchange_ms", rank=rank)
    limit, saved_pct = profile.thresholds["noted_pct"], 100.0 * saved_ms(profile, change) / profile.mean_step_ms
    text = (
        "All-reduces of the same {1} of gradients run in {0} before each optimizer step, where one exchange of the"
        " accumulated gradients is enough; the others are under way for {2} per step."
    )
    search = say("Every backward pass also searches for unused parameters: {0} per step.", searched)
    return Finding(
        cause="redundant_synchronization",
        mechanism="accumulation_without_no_sync",
        claim=say(text, passes, exchange, again),
        confidence=confidence((max(saved_pct, limit), limit), (passes.value, 1.2), at_most=0.92),
        ranks=tuple(ranks),
        steps=passes.steps,
        change=change,
        details=(search,) if searched.value else (),
        disproved_by="`no_sync()` around all but the last micro-batch leaves the step time as it is",
        signals=("several all-reduces of the same elements per optimizer step",),
    )


def _without(profile: Profile, ranks: list[int]) -> Change:
    """The repeated exchanges, and the broadcasts of buffers that go with them, no longer take place."""
    rows = {
        rank: np.concatenate((repeated(profile, rank)["row"].to_numpy(np.int64), repeated_broadcasts(profile, rank)))
        for rank in ranks
    }
    return tuple(Omit(rank, chosen) for rank, chosen in rows.items() if len(chosen))
