"""Does the step wait for data by the timers that a job's own step lines print?"""

from __future__ import annotations

from tools.analyzers.support.answers import clean, confidence, say, worst_of
from tools.analyzers.support.figures import BEHIND_DEVICE, measured, saving
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.recorded.logged_data_wait import waiting_rows
from tools.metrics.registry import measure
from tools.views.profile import Profile

SURE = 0.65  # that the loop waits is measured; whether for reading or for processing is not
LEAST_LINES, LEAST_STEPS = 3, 10  # that fewer show may be the start of the workers alone
CAUTIOUS = 0.5  # of the wait, where no line shows a step without it
METHOD = "the wait for data that the step lines state"
METHOD_SPARED = "steps that hardly wait, by the same lines, for the least; the whole wait for the most"
OPEN = "Whether batches are slow to read or slow to make is not in these lines."
ASYNCHRONOUS = (
    "The device works on what was launched before: as far as it computes during the wait, the step loses nothing to it."
)
ELSEWHERE = (
    "What else takes so long is not in these lines; in a job of several ranks a wait for the data of another rank looks"
    " the same."
)
DECIDE = (
    "the job's lines with more loader workers, or with one batch repeated: a step as short as the rest shows that it is"
    " the input"
)


def logged_data_wait(profile: Profile) -> Check | Finding | None:
    """The wait that step lines state, and how long steps are that do not wait; None where they state none."""
    ranks = () if profile.series is None else profile.series.ranks
    stated = {rank: measured(profile, "logged_data_wait_pct", rank=rank) for rank in ranks}
    shares = {rank: fact for rank, fact in stated.items() if fact is not None}
    if not shares:
        return None
    worst = worst_of({rank: fact.value for rank, fact in shares.items()})
    share, amount = shares[worst], measure(profile, "logged_data_wait_ms", rank=worst)
    step = measure(profile, "series_step_ms", statistic="mean", rank=worst)
    others = _long_without(profile, worst)
    limit = profile.thresholds["data_wait_pct"]
    if share.value < limit:
        text = "By the job's own timer a step waits {0} for data, {1} of it: waiting for data does not make it long."
        return clean(say(text, amount, share), *others)
    spared = measured(profile, "logged_spared_step_ms", rank=worst)
    shorter = spared is not None and spared.value < step.value
    least = CAUTIOUS
    if spared is not None and amount.value > 0:
        least = min(max((step.value - spared.value) / amount.value, 0.0), 1.0)
    rows = waiting_rows(profile, worst)
    enough = len(rows) >= LEAST_LINES and int(rows["span"].sum()) >= LEAST_STEPS
    return Finding(
        cause="slow_data_processing",
        mechanism=None,
        claim=_claim(amount, step, share, others),
        confidence=confidence((share.value, limit), at_most=SURE if enough else BEHIND_DEVICE),
        ranks=tuple(rank for rank, fact in shares.items() if fact.value >= limit) or (worst,),
        saving=saving(profile, amount.value, least, 1.0, METHOD_SPARED if shorter else METHOD),
        details=_spared(spared, shorter),
        against=(say(OPEN), *(() if shorter else (say(ASYNCHRONOUS),))),
        hints={"seen_as": "waiting for data"},
        disproved_by=DECIDE,
        signals=("data wait",),
    )


def _claim(amount: Fact, step: Fact, share: Fact, others: tuple[Sentence, ...]) -> Sentence:
    """The wait, and the step that is long without one."""
    text = "Waiting for data takes {0} of each {1} step ({2}), by the job's own timer; why is not in its lines."
    if not others:
        return say(text, amount, step, share)
    (other,) = others
    further = other.template.replace("{1}", "{4}").replace("{0}", "{3}")
    return say(f"{text} {further}", amount, step, share, *other.facts)


def _spared(spared: Fact | None, shorter: bool) -> tuple[Sentence, ...]:
    text = "Lines with hardly any wait for data state {0} per step."
    return (say(text, spared),) if spared is not None and shorter else ()


def _long_without(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    """The step that is long without waiting for data on this rank."""
    wall = measured(profile, "logged_long_rest_ms", rank=rank, what="wall")
    if wall is None:
        return ()
    wait = measure(profile, "logged_long_rest_ms", rank=rank, what="data_wait")
    return (say(f"At step {wall.steps[0]} a step takes {{0}}, {{1}} of it wait for data. {ELSEWHERE}", wall, wait),)
