"""Does the step wait for data by the timers that a job's own step lines print?"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from tools.analyzers.support.answers import clean, confidence, say, worst_of
from tools.analyzers.support.figures import BEHIND_DEVICE, measured, saving
from tools.findings import Check, Fact, Finding, Saving, Sentence
from tools.metrics.recorded.logged_data_wait import resampled_shares, waiting_rows
from tools.metrics.registry import measure
from tools.views.profile import Profile

SURE = 0.65  # that the loop waits is measured; whether for reading or for processing is not
LEAST_LINES, LEAST_STEPS = 3, 10  # that fewer show may be the start of the workers alone
FEW_WORKERS = {
    0: ": the training process makes each batch itself, between two steps.",
    1: ": one process makes all batches.",
}
MOSTLY_WAIT_PCT = 50.0  # of a step: a smaller wait leaves open what takes most of it
CAUTIOUS = 0.5  # of the wait, where no line shows a step without it
METHOD = "the wait for data that the step lines state, the most that a step can lose to it"
METHOD_SPARED = "the wait for data that the step lines state; the range by resampling them"
OUTSIDE = "By the time stamps of its lines a step takes {0} more than the job's timer states; that time stays."
OPEN = "Whether batches are slow to read or slow to make is not in these lines."
ASYNCHRONOUS = (
    "The device works on what was launched before: as far as it computes during the wait, the step loses nothing to it."
)
STATED = "The line of step {} states {{0}} per step, {{1}} of it wait for data."
COMPUTED = "By the running means up to step {} a step takes {{0}} there, {{1}} of it wait for data."
COMPUTED_SPARED = "Lines with hardly any wait for data give {0} per step by their running means."
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
    long = _long_without(profile, worst)
    rows = waiting_rows(profile, worst)
    few = _few(rows)
    others = (*long, *_where(few))
    limit = profile.thresholds["data_wait_pct"]
    if share.value < limit:
        text = "By the job's own timer a step waits {0} for data, {1} of it: waiting for data does not make it long."
        return clean(say(text, amount, share), *others)
    spared = measured(profile, "logged_spared_step_ms", rank=worst)
    shorter = spared is not None and spared.value < step.value
    least = CAUTIOUS
    if spared is not None and amount.value > 0:
        least = min(max((step.value - spared.value) / amount.value, 0.0), 1.0)
    outside = measured(profile, "logged_outside_ms", rank=worst)
    workers = measured(profile, "stated_loader_workers")
    enough = len(rows) >= LEAST_LINES and int(rows["span"].sum()) >= LEAST_STEPS
    return Finding(
        cause="slow_data_processing",
        mechanism="unexplained_wait" if workers is None or int(workers.value) not in FEW_WORKERS else "too_few_workers",
        steps=few,
        claim=_claim(amount, step, share, (*(() if outside is None else (say(OUTSIDE, outside),)), *others), workers),
        confidence=confidence((share.value, limit), at_most=SURE if enough else BEHIND_DEVICE),
        ranks=tuple(rank for rank, fact in shares.items() if fact.value >= limit) or (worst,),
        saving=_saving(profile, amount, least, spared is not None, bool(long), outside, rows),
        details=_spared(spared, shorter, _computed(profile), bool(long)),
        against=(say(OPEN), *(() if shorter else (say(ASYNCHRONOUS),))),
        disproved_by=DECIDE,
        signals=("data wait",),
        hints={"alike": "stated_data_wait"},
    )


def _saving(
    profile: Profile, amount: Fact, least: float, spared: bool, hidden: bool, outside: Fact | None, rows: pd.DataFrame
) -> Saving:
    """What a step loses to the wait: with an interval where lines show steps without it or a wait that may be
    ``hidden`` in others, else the most that it is."""
    method = METHOD_SPARED if spared else METHOD
    found = replace(
        saving(profile, amount.value, least, 1.0, method),
        at_most=not spared and not hidden,
        outside_ms=0.0 if outside is None else outside.value,
        bound_ms=amount.value,  # no steps drawn again lose more than the whole wait that is stated
    )
    if found.at_most:
        return found
    shares = resampled_shares(rows)
    return replace(found, resampled_ms=(shares[0] * found.step_ms, shares[1] * found.step_ms))


def _claim(
    amount: Fact, step: Fact, share: Fact, others: tuple[Sentence, ...], workers: Fact | None = None
) -> Sentence:
    """The wait, how many processes load data where the arguments say it, and the step that is long without a wait."""
    text = "Waiting for data takes {0} of each {1} step ({2}), by the job's own timer; "
    facts = [amount, step, share]
    if workers is None:
        text += "why is not in its lines."
    else:
        text += "its arguments state {3}"
        text += FEW_WORKERS.get(int(workers.value), ".")
        facts.append(workers)
    if share.value < MOSTLY_WAIT_PCT:
        text += " The rest of the step is not divided by the lines, as far as they are read."
    for other in others:
        places = (f"{{{len(facts) + place}}}" for place in range(len(other.facts)))
        text += f" {other.template.format(*places)}"
        facts += other.facts
    return say(text, *facts)


NEARLY_ALL = 0.95  # of the wait
MOST_NAMED = 5  # lines


def _few(rows: pd.DataFrame) -> tuple[int, ...]:
    """The steps of the few lines that hold nearly all of the wait, where most others hardly wait."""
    waits = (rows["data_wait_ms"] * rows["span"]).sort_values(ascending=False, kind="stable")
    if len(rows) < LEAST_LINES or waits.sum() <= 0:
        return ()
    count = int((waits.cumsum() < NEARLY_ALL * waits.sum()).sum()) + 1
    if count > min(MOST_NAMED, len(rows) // 2):
        return ()
    return tuple(sorted(int(step) for step in rows.loc[waits.index[:count], "step"]))


def _where(few: tuple[int, ...]) -> tuple[Sentence, ...]:
    if not few:
        return ()
    *others, last = [str(step) for step in few]
    lines = f"lines of steps {', '.join(others)} and {last}" if others else f"line of step {last}"
    return (say(f"Nearly all of the wait is in the {lines}."),)


def _computed(profile: Profile) -> bool:
    """Whether the times of the lines are computed here from running means."""
    return profile.run.job_log is not None and profile.run.job_log.step_time == "unwound"


def _spared(spared: Fact | None, shorter: bool, computed: bool, others: bool) -> tuple[Sentence, ...]:
    text = COMPUTED_SPARED if computed else "Lines with hardly any wait for data state {0} per step."
    text = f"The other lines{text.removeprefix('Lines')}" if others else text  # but for the long one
    return (say(text, spared),) if spared is not None and shorter else ()


def _long_without(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    """The step that is long without waiting for data on this rank."""
    wall = measured(profile, "logged_long_rest_ms", rank=rank, what="wall")
    if wall is None:
        return ()
    wait = measure(profile, "logged_long_rest_ms", rank=rank, what="data_wait")
    return (
        say(
            (COMPUTED if _computed(profile) else STATED).format(wall.steps[0]) + f" {ELSEWHERE}",
            wall,
            wait,
        ),
    )
