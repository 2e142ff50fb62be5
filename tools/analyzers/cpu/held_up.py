"""Are host operators held up now and then, as when another thread has the core? From traces alone."""

from __future__ import annotations

import numpy as np

from tools.analyzers.cpu.contention import contention
from tools.analyzers.cpu.profiling import profiling_overhead
from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.changes import host_shortened, shortened
from tools.analyzers.support.figures import measure_ranks, measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.metrics.registry import measure
from tools.views.host.held_up import held_up, one_operator, undisturbed
from tools.views.host.scheduler_ticks import on_ticks
from tools.views.profile import Profile
from tools.whatif.change import Scale

CAP = 0.7  # what ran instead is not in a trace
SHORT_CAP = 0.45  # below the confidence of a verdict: a short recording may lie in one passing disturbance
TICKS_CAP = 0.85  # nothing else makes operators last whole ticks; what has the core meanwhile is not in a trace
# Of an operator that lasts whole ticks: two that take turns have a core for half of the time each, and the operator
# itself needs less than that, as its threads wait at every meeting. So between nothing and half of it is left.
LEFT_OF_TICKS, MOST_OF_TICKS = 0.25, 0.5
TOO_SHORT = "All of it was recorded within {0}, so whether it lasts is not known."
ONLY = "Profiled steps take {0} longer than the others: what takes the core then is not there without the profiler."
ONLY_PROFILED = 0.5  # of the delay: if traced steps are longer than the rest by this much, only they are delayed
FEWEST_STEPS = 2
UNSEEN = "A trace does not show what ran meanwhile: other processes, more threads than cores, or too few allowed cores."


@check(
    *("cpu.held_up", "Operators held up", "Do operators take far longer now and then than they usually do?"),
    causes=("cpu_contention",),
)
def operators_held_up(profile: Profile) -> Check | Finding | None:
    """Calls of operators that exceed their own usual time by a scheduler's slice, unless records show why."""
    recorded, profiler = contention.once(profile), profiling_overhead.once(profile)
    if profile.run.has_device or any(each is not None and each.status == "found" for each in (recorded, profiler)):
        return None
    ranks = profile.run.rank_numbers
    if not any(len(profile.rank(rank).events.details.operators) for rank in ranks):
        return cannot_answer("no operators with shapes are recorded", "a trace taken with record_shapes=True")
    if max(len(profile.rank(rank).steps) for rank in ranks) < FEWEST_STEPS:
        return cannot_answer("one step alone does not show what a call usually takes", "several steps in one trace")
    if answer := _taking_turns(profile):
        return answer
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
    taken = measured(profile, "core_taken_pct", rank=worst)
    if taken is not None and taken.value < limit:
        text = (
            "Long operators take {0} of the step more than usual now and then, but brief ones only {1}: their own time"
            " varies, nobody takes the core."
        )
        return clean(say(text, share, taken))
    if recorded is not None and recorded.status == "clean":
        text = "Operators are held up for {0} of the traced steps, which the rest of the run is not."
        return clean(say(text, share), *recorded.support)
    excess = measured(profile, "profiled_excess_pct")
    if excess is not None and excess.value >= ONLY_PROFILED * 100.0 * share.value / max(100.0 - share.value, 1.0):
        return clean(say(ONLY, excess))
    span = measure(profile, "recorded_ms", rank=worst)
    passing = excess is None and span.value < profile.thresholds["disturbance_ms"]
    count = measure(profile, "delayed_calls_count", rank=worst)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    text = (
        "The same operators with the same shapes take far longer now and then, by a scheduler's slice: {0} of a step"
        " lose {1} of it."
    )
    return Finding(
        cause="cpu_contention",
        claim=say(text, count, share),
        confidence=confidence((share.value, limit), at_most=SHORT_CAP if passing or taken is None else CAP),
        ranks=chosen,
        steps=share.steps,
        change=tuple(scale for rank in chosen for scale in _undisturbed(profile, rank)),
        against=(say(UNSEEN), *((say(TOO_SHORT, span),) if passing else ())),
        disproved_by="the monitor's records show that the training thread hardly waits for a core",
        signals=("run-queue pressure", "involuntary context switches"),
    )


def _taking_turns(profile: Profile) -> Finding | None:
    """Operators whose threads share a core with a program that never sleeps: they last whole ticks."""
    shares = measure_ranks(profile, profile.run.rank_numbers, "tick_calls_pct")
    worst, limit = worst_of(shares), profile.thresholds["delayed_calls_pct"]
    if shares[worst].value < limit:
        return None
    chosen = affected(shares, profile.thresholds["noted_pct"])
    text = "Operators of very different work last whole ticks of the scheduler, in all {0} of the step."
    return Finding(
        cause="cpu_contention",
        claim=say(text, shares[worst]),
        confidence=confidence((shares[worst].value, limit), at_most=TICKS_CAP),
        ranks=chosen,
        steps=shares[worst].steps,
        change=tuple(
            scale
            for rank in chosen
            for scale in shortened(profile.rank(rank), on_ticks(profile, rank), LEFT_OF_TICKS, MOST_OF_TICKS)
        ),
        against=(say(UNSEEN),),
        disproved_by="the monitor's records show that no thread of the training waits for a core",
        signals=("run-queue pressure", "involuntary context switches"),
    )


def _undisturbed(profile: Profile, rank: int) -> tuple[Scale, ...]:
    calls = held_up(profile, rank)
    if calls.empty:
        return ()
    view, left = profile.rank(rank), undisturbed(profile, rank)
    return (*shortened(view, calls["row"].to_numpy(np.int64), left.late), *host_shortened(view, left.rest, left.rest))
