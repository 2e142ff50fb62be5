"""Are the same gradients exchanged more than once before the parameters are updated?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.registry import measure
from tools.views.communication.gradient_sync import (
    gradient_passes,
    needless_bitmaps,
    repeated,
    repeated_broadcasts,
    repeated_copies,
    unused_searches,
)
from tools.views.profile import Profile
from tools.whatif.change import Change, Omit
from tools.whatif.predict import saved_ms

SEARCH_CAP = 0.8
OTHER_STEPS = "Steps that were not recorded may leave parameters unused."


@check(
    *(
        "communication.redundant",
        "Redundant gradient synchronization",
        "Are the same gradients exchanged several times per update?",
    ),
    causes=("redundant_synchronization",),
    mechanisms=("accumulation_without_no_sync", "find_unused_parameters"),
)
def redundant(profile: Profile) -> Check | None:
    """All-reduces of whole gradients in every micro-batch of an accumulation, and searches for unused parameters."""
    ranks = tuple(rank for rank in profile.run.rank_numbers if len(gradient_passes(profile, rank)))
    if not ranks:
        return None
    if not any(gradient_passes(profile, rank)["bytes"].gt(0).any() for rank in ranks):
        return cannot_answer(
            "the sizes of the all-reduces were not recorded", "a profile taken with record_shapes=True"
        )
    findings = [*_repeated(profile, ranks), *_searching(profile, ranks)]
    if findings:
        return found(*findings)
    rank = ranks[0]
    also = _counted(profile, rank)
    return clean(say("Gradients are exchanged in {0} per optimizer step.", _passes(profile, rank)), *also)


def _passes(profile: Profile, rank: int) -> Fact:
    """How many backward passes with an all-reduce come before an update."""
    return measure(profile, "passes_per_update", rank=rank)


def _counted(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    """That the run searches for unused parameters, and what it costs where all are used."""
    searched = measure(profile, "unused_searches", rank=rank)
    if not searched.value:
        return ()
    if not len(needless_bitmaps(profile, rank)):
        return (say("It searches for unused parameters {0} per step.", searched),)
    cost = measure(profile, "unused_search_ms", rank=rank)
    text = "It also looks for unused parameters: {0} per step find none; they are under way for {1}."
    return (say(text, searched, cost),)


def _repeated(profile: Profile, ranks: tuple[int, ...]) -> tuple[Finding, ...]:
    """Gradients that are exchanged in every micro-batch."""
    under_way = measure_ranks(profile, ranks, "repeated_exchange_ms")
    rank = max(ranks, key=lambda each: (len(repeated(profile, each)), under_way[each].value, -each))
    change = _without(profile, ranks)
    if not change:
        return ()
    passes = _passes(profile, rank)
    exchange, again = measure_all(profile, "pass_bytes", "repeated_exchange_ms", rank=rank)
    limit, saved_pct = profile.thresholds["noted_pct"], 100.0 * saved_ms(profile, change) / profile.mean_step_ms
    everywhere = len(ranks) > 1 and ranks == profile.run.rank_numbers
    where, longest = (" on every rank", f" on rank {rank}, the longest") if everywhere else ("", "")
    text = (
        f"All-reduces of the same {{1}} of gradients run in {{0}} before each optimizer step{where}, where one exchange"
        f" of the accumulated gradients is enough; the others are under way for {{2}} per step{longest}."
    )
    return (
        Finding(
            cause="redundant_synchronization",
            mechanism="accumulation_without_no_sync",
            claim=say(text, passes, exchange, again),
            confidence=confidence((max(saved_pct, limit), limit), (passes.value, 1.2), at_most=0.92),
            ranks=ranks,
            steps=passes.steps,
            change=change,
            details=_counted(profile, rank),
            disproved_by="exchange in the last micro-batch only (DDP: `no_sync()`) leaves the step time as it is",
            signals=("several all-reduces of the same elements per optimizer step",),
        ),
    )


def _searching(profile: Profile, ranks: tuple[int, ...]) -> tuple[Finding, ...]:
    """A search for unused parameters in every pass although each parameter gets a gradient, on every rank.

    One pass of a rank may lie half outside of the recording. A single parameter without a gradient needs the search.
    """
    searching = tuple(rank for rank in ranks if len(unused_searches(profile, rank)))
    needless = [len(needless_bitmaps(profile, rank)) for rank in searching]
    searches = [len(unused_searches(profile, rank)) for rank in searching]
    if not any(needless) or any(own < each - 1 for own, each in zip(needless, searches, strict=True)):
        return ()
    rank = max(searching, key=lambda each: measure(profile, "unused_search_ms", rank=each).value)

    bitmaps = tuple(Omit(number, needless_bitmaps(profile, number)) for number in searching)
    change = (*bitmaps, *shortened_on(profile, searching, lambda view: unused_searches(profile, view.rank.rank), 0.0))
    limit, saved_pct = profile.thresholds["noted_pct"], 100.0 * saved_ms(profile, change) / profile.mean_step_ms
    if saved_pct < limit:
        return ()
    searched, cost = measure_all(profile, "unused_searches", "unused_search_ms", rank=rank)
    text = (
        "{0} per step look for parameters without a gradient and exchange the result, for {1}; every parameter gets a"
        " gradient."
    )
    return (
        Finding(
            cause="redundant_synchronization",
            mechanism="find_unused_parameters",
            claim=say(text, searched, cost),
            confidence=confidence((saved_pct, limit), at_most=SEARCH_CAP),
            ranks=searching,
            steps=searched.steps,
            change=change,
            against=(say(OTHER_STEPS),),
            disproved_by="`find_unused_parameters=False` leaves the step time as it is",
            signals=("a small bitmap all-reduce per backward",),
        ),
    )


def _without(profile: Profile, ranks: tuple[int, ...]) -> Change:
    """The repeated exchanges, and the broadcasts and copies that go with them, no longer take place."""
    rows = {
        rank: np.concatenate((repeated(profile, rank)["row"].to_numpy(np.int64), repeated_broadcasts(profile, rank)))
        for rank in ranks
    }
    without = tuple(Omit(rank, chosen) for rank, chosen in rows.items() if len(chosen))
    return (*without, *shortened_on(profile, ranks, lambda view: repeated_copies(profile, view.rank.rank), 0.0))
