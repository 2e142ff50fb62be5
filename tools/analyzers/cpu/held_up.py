"""Are host operators held up now and then, as when another thread has the core? From traces alone."""

from __future__ import annotations

import numpy as np

from tools.analyzers.cpu.contention import contention
from tools.analyzers.cpu.profiling import profiling_overhead
from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.changes import host_shortened, shortened
from tools.analyzers.support.figures import measure_ranks
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.metrics.registry import measure
from tools.views.held_up import held_up, one_operator, undisturbed_shares
from tools.views.profile import Profile
from tools.whatif.change import Scale

CAP = 0.7  # what ran instead is not in a trace
UNSEEN = "A trace does not show what ran meanwhile: other processes, more threads than cores, or too few allowed cores."


@check(
    *("cpu.held_up", "Operators held up", "Do operators take far longer now and then than they usually do?"),
    causes=("cpu_contention",),
)
def operators_held_up(profile: Profile) -> Check | Finding | None:
    """Calls of operators that exceed their own usual time by a scheduler's slice, unless records show why."""
    known = (contention.once(profile), profiling_overhead.once(profile))
    if profile.run.has_device or any(each is not None and each.status == "found" for each in known):
        return None
    ranks = profile.run.rank_numbers
    if not any(len(profile.rank(rank).events.details.operators) for rank in ranks):
        return cannot_answer("no operators with shapes are recorded", "a trace taken with record_shapes=True")
    shares = measure_ranks(profile, ranks, "delayed_calls_pct")
    worst, limit = worst_of(shares), profile.thresholds["delayed_calls_pct"]
    share = shares[worst]
    if share.value < limit:
        return clean(say("Operators that take far longer than usual cost {0} of the step at most.", share))
    if one_operator(profile, worst):
        text = (
            "Operators that take far longer than usual cost {0} of the step, nearly all of it in one kind of operator."
        )
        return clean(say(text, share))
    count = measure(profile, "delayed_calls_count", rank=worst)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    text = (
        "The same operators with the same shapes take far longer now and then, by a scheduler's slice: {0} of a step"
        " lose {1} of it."
    )
    return Finding(
        cause="cpu_contention",
        claim=say(text, count, share),
        confidence=confidence((share.value, limit), at_most=CAP),
        ranks=chosen,
        steps=share.steps,
        change=tuple(scale for rank in chosen for scale in _undisturbed(profile, rank)),
        against=(say(UNSEEN),),
        disproved_by="the monitor's records show that the training thread hardly waits for a core",
        signals=("run-queue pressure", "involuntary context switches"),
    )


def _undisturbed(profile: Profile, rank: int) -> tuple[Scale, ...]:
    calls = held_up(profile, rank)
    if calls.empty:
        return ()
    view, (late, rest) = profile.rank(rank), undisturbed_shares(profile, rank)
    return (*shortened(view, calls["row"].to_numpy(np.int64), late), *host_shortened(view, rest, rest))
