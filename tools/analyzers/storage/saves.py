"""Does the training stop while its state is saved: by the rhythm of its steps, or by a trace?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from tools.analyzers.steps.side_work import UNDIVIDED, WANTED, works_named
from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.figures import measure_all, measured, saving
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Fact, Finding, Sentence
from tools.intervals import length
from tools.metrics.host.state_saves import state_saves
from tools.metrics.recorded.logged_saves import ended_by_limit
from tools.metrics.recorded.saves import FEW_STEPS, StallWrites, saves, stall_writes
from tools.metrics.recorded.series import rank_stalls
from tools.metrics.registry import measure
from tools.views.device.unrecorded import without_launches
from tools.views.host.phases import evaluation
from tools.views.profile import Profile
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import PERIOD_STEPS, Stalls
from tools.whatif.change import Scale

NEEDED = "a step log or monitor records over several save intervals"
OTHER_PARTS = ("gc_ms", "data_wait_ms")  # a stall that these fill is not one of saving
EXPLAINS = 0.5
WRITTEN_SHARE = 0.5  # of all that is written must fall to the long steps
OPEN = "What happens in the long steps is not recorded; evaluation or logging would look the same."
OPEN_COLLECTOR = (
    "What happens in the long steps is not recorded; collections, evaluation or logging would look the same."
)
COMPUTED = (
    "What is computed in the long steps is not recorded; metrics or statistics of the program would look the same."
)
OPEN_PLACE = {"open": "long_steps", "part": "step"}  # stalls of which only the length is known: a lead, no cause
UNSEEN = "That a checkpoint is what is written then is not recorded: no storage of the machine sees it."
BLOCKED = ": all ranks are blocked then, as by a checkpoint on its way to a slow place."
WRITING = ": it is then that the process writes, as a checkpoint is saved."
TAKEN = ": a traced step takes the values of all parameters, as `state_dict()` does, and then pauses."
SAVING = ": next to them the output says that a checkpoint is saved."
LOGGED = "In the output {0} stand next to a line that says so."
EVALUATING_AND_SAVING = (
    "Every {0} a step takes {1} longer than usual, which adds {2} to the mean step: next to them the output says that"
    " the model is evaluated and that its state is saved."
)
EVALUATING = (
    "Every {0} a step takes {1} longer than usual, which adds {2} to the mean step: next to them the output says that"
    " the model is evaluated."
)
BOTH_WORKS = "Long steps recur every {0}; the output names evaluations and saves at them, which are counted apart."
RARER = "They would cost 5 % of the mean step every {0}, and 1 % every {1}."
WRITING_SOMETIME = ": the process writes as much as a checkpoint to storage meanwhile."
UNPLACED_CAP = 0.65  # samples are too far apart to show that it is written in the long steps
BLOCKED_SHARE = 0.7  # of a stall: the thread does not compute, as in an evaluation, but waits for something to be done
NAMED_PCT = 50.0  # of the pauses inside frames that save: then the cause is read, not inferred
NAMED_CAP, FEW_CAP = 0.92, 0.6  # by frames; where too few steps show how often it happens
SEVERAL_CAP, ONCE_CAP = 0.45, 0.35  # hypotheses: by copies and pauses alone, in several steps and in one
TRACED_OPEN = (
    "What the host does in these pauses is not recorded; computing or writing out results would look the same."
)
RARE = "So few steps are recorded that the saving may come far more seldom than in them."
UNCLEAR = (
    "a large copy to the host in so few steps may be what every step does, and no Python frame shows what it is for"
)
NEEDS = "a trace of a whole save interval with Python frames (with_stack=True)"


@check(
    *("storage.periodic_stall", "Periodic stalls", "Do saves stall the training at intervals?"),
    causes=("checkpoint_stall", "evaluation_stall"),
    mechanisms=("synchronous_save", "slow_storage"),
    from_records="steps",
)
def periodic_stall(profile: Profile) -> Check | Finding:
    """Long steps at one distance, and whether the ranks write or compute then."""
    series = profile.series
    if series is None:
        return cannot_answer("the steps of a trace are too few to show a rhythm", NEEDED)
    if unseen := series.unseen(PERIOD_STEPS):
        return cannot_answer(unseen, NEEDED)
    stalls = rank_stalls(profile)
    if not stalls:
        facts = (measure(profile, "series_variation_pct"), measure(profile, "series_long_steps"))
        text = "No periodic stalls: the step time varies by {0}, {1} are far above the median."
        return clean(say(text, *facts))
    worst = max(stalls, key=lambda rank: (stalls[rank].cost_ms, -rank))
    cost = measure(profile, "stall_cost_ms", rank=worst)
    if (other := _otherwise_long(profile, series, stalls[worst], worst, cost)) is not None:
        return other
    writers, logged = _writers(profile, series, stalls), measured(profile, "logged_save_steps", rank=worst)
    evaluated = None if writers else measured(profile, "logged_evaluation_steps", rank=worst)
    if evaluated is not None:
        return _evaluating(profile, series, stalls, evaluated, logged)
    traced = () if writers else _traced(profile, stalls)
    ran = None if writers or traced or logged else _running(profile, stalls)
    if ran is not None and not profile.traced:
        return _computing(profile, series, stalls, ran)
    if ran is not None:
        text = "Long steps recur every {0}, but the training thread computes for {1} of what they take longer."
        return clean(say(text, measure(profile, "stall_period_steps", rank=ran.ranks[0]), ran))
    blocked = not writers and not traced and _blocked(series, stalls)
    what, sure = (BLOCKED, 0.75) if blocked else (TAKEN, 0.85) if traced else (".", 0.45)
    if writers:
        placed = all(each.placed for each in writers.values())
        what, sure = (WRITING, 0.92) if placed else (SAVING, 0.92) if logged else (WRITING_SOMETIME, UNPLACED_CAP)
    elif logged is not None:
        what, sure = SAVING, 0.85
    share_pct = 100.0 * cost.value / series.mean_ms
    return Finding(
        cause="checkpoint_stall",
        mechanism="synchronous_save"
        if logged and not writers
        else "slow_storage"
        if blocked
        else "synchronous_save"
        if traced
        else _mechanism(profile, writers),
        claim=say(
            "Every {0} a step takes {1} longer than usual, which adds {2} to the mean step" + what,
            *(*measure_all(profile, "stall_period_steps", "stall_excess_ms", rank=worst), cost),
        ),
        confidence=confidence((share_pct, profile.thresholds["noted_pct"]), at_most=sure),
        ranks=tuple(sorted(writers)) or traced or tuple(sorted(stalls)),
        steps=stalls[worst].steps,
        saving=replace(
            saving(profile, cost.value, 0.6, 1.1, "mean step with the long steps minus without them"),
            error_ms=_error_ms(series, worst, stalls[worst]),
        ),
        details=(
            *(_written(profile, rank) for rank, each in sorted(writers.items()) if each.placed),
            *(() if logged is None else (say(LOGGED, logged),)),
            *((say(RARER, *_spacings(profile, worst)),) if writers or logged else ()),
        ),
        against=() if writers or traced or logged else (say(UNSEEN if blocked else _open(series)),),
        hints={} if writers or traced or logged or blocked else OPEN_PLACE,
        signals=("periodic long steps at the save interval", *(("time in write or fsync",) if writers else ())),
    )


def _otherwise_long(profile: Profile, series: RunSeries, stalls: Stalls, rank: int, cost: Fact) -> Check | None:
    """The answer where the long steps cost little, or where something that is recorded makes them long."""
    small = 100.0 * cost.value < profile.thresholds["noted_pct"] * series.mean_ms
    if small or _filled_by_other(series, stalls, rank):
        text = "Long steps recur every {0}; they cost {1} of the mean step, or it is not saving that fills them."
        return clean(say(text, measure(profile, "stall_period_steps", rank=rank), cost))
    if len(works_named(profile)) > 1:
        return clean(say(BOTH_WORKS, measure(profile, "stall_period_steps", rank=rank)))
    if ended_by_limit(profile, rank, stalls):
        text = "Long steps recur every {0} until the output reports the limit of recompilations, and end there."
        return clean(say(text, measure(profile, "stall_period_steps", rank=rank)))
    return None


def _spacings(profile: Profile, rank: int) -> tuple[Fact, Fact]:
    """The least distances of saves at which they cost 5 and 1 % of the mean step."""
    five, one = (measure(profile, "stall_spacing_steps", pct=pct, rank=rank) for pct in (5, 1))
    return five, one


def _evaluating(
    profile: Profile, series: RunSeries, stalls: dict[int, Stalls], evaluated: Fact, saved: Fact | None
) -> Check | Finding:
    """Long steps of which the output says that the model is evaluated; where a trace shows that, its check answers.
    Of steps in which the state is ``saved`` as well it is not known which of both makes them long."""
    (rank,) = evaluated.ranks
    cost = measure(profile, "stall_cost_ms", rank=rank)
    facts = measure_all(profile, "stall_period_steps", "stall_excess_ms", rank=rank)
    if profile.traced and any(evaluation(profile, each) is not None for each in profile.run.rank_numbers):
        return clean(say("Long steps recur every {0}, {1} longer than usual: the trace shows evaluations.", *facts))
    return Finding(
        cause="evaluation_stall",
        claim=say(EVALUATING if saved is None else EVALUATING_AND_SAVING, *facts, cost),
        confidence=confidence(
            (100.0 * cost.value / series.mean_ms, profile.thresholds["noted_pct"]),
            at_most=0.85 if saved is None else SEVERAL_CAP,
        ),
        ranks=tuple(sorted(stalls)),
        steps=stalls[rank].steps,
        saving=replace(
            saving(
                *(profile, cost.value, 0.3 if saved is None else 0.0, 1.1),
                "mean step with the long steps minus without them",
            ),
            error_ms=_error_ms(series, rank, stalls[rank]),
        ),
        details=(say(LOGGED, evaluated), say(RARER, *_spacings(profile, rank))),
        against=(*(() if saved is None else (say(UNDIVIDED),)), say(WANTED)),
        hints={} if saved is None else OPEN_PLACE,
        disproved_by="the long steps stay with evaluation turned off",
        signals=("evaluation lines in the log",),
    )


def _open(series: RunSeries) -> str:
    """What the long steps may be instead: collections too, where their time is not recorded."""
    known = "gc_ms" in series.usual and bool(series.usual["gc_ms"].notna().all())
    return OPEN if known else OPEN_COLLECTOR


def _computing(profile: Profile, series: RunSeries, stalls: dict[int, Stalls], ran: Fact) -> Finding:
    """The hypothesis that the model is evaluated in the long steps, where no trace shows what the thread computes."""
    (rank,) = ran.ranks
    cost = measure(profile, "stall_cost_ms", rank=rank)
    share_pct = 100.0 * cost.value / series.mean_ms
    text = (
        "Every {0} a step takes {1} longer than usual, which adds {2} to the mean step, and the training thread"
        " computes for {3} of that, as in an evaluation."
    )
    return Finding(
        cause="evaluation_stall",
        claim=say(text, *measure_all(profile, "stall_period_steps", "stall_excess_ms", rank=rank), cost, ran),
        confidence=confidence((share_pct, profile.thresholds["noted_pct"]), at_most=SEVERAL_CAP),
        ranks=tuple(sorted(stalls)),
        steps=stalls[rank].steps,
        saving=replace(
            saving(profile, cost.value, 0.3, 1.1, "mean step with the long steps minus without them"),
            error_ms=_error_ms(series, rank, stalls[rank]),
        ),
        against=(say(COMPUTED),),
        disproved_by="the long steps stay with evaluation turned off",
        hints={"alike": "computing_steps"},
    )


def _traced(profile: Profile, stalls: dict[int, Stalls]) -> tuple[int, ...]:
    """The ranks of whose trace some step takes the model's state and then pauses for most of what a stall takes."""
    hosts = {rank.rank for rank in profile.run.ranks if not rank.has_device}
    saving = [rank for rank in sorted(hosts & set(stalls)) if state_saves(profile, rank).steps]
    each_ms = {rank: measure(profile, "state_save_each_ms", rank=rank).value for rank in saving}
    return tuple(rank for rank in saving if each_ms[rank] >= EXPLAINS * stalls[rank].excess_ms)


def _error_ms(series: RunSeries, rank: int, stalls: Stalls) -> float:
    """Standard error of what the long steps add to the mean step: saves differ in length, and few are seen."""
    own = series.of(rank)
    long_ms = own.loc[own["step"].isin(stalls.steps), "wall_ms"].to_numpy()
    return float(np.std(long_ms, ddof=1) * np.sqrt(len(long_ms)) / len(own)) if len(long_ms) > 1 else 0.0


def _running(profile: Profile, stalls: dict[int, Stalls]) -> Fact | None:
    """The share in which a thread computes, where one does (with devices: all do): then the others wait for that."""
    shares = {rank: measured(profile, "stall_running_pct", rank=rank) for rank in stalls}
    known = [fact for fact in shares.values() if fact is not None]
    if not known:
        return None
    devices = profile.accelerated
    chosen = (min if devices else max)(known, key=lambda fact: fact.value)
    return chosen if chosen.value >= 100.0 * EXPLAINS and (len(known) == len(shares) or not devices) else None


def _filled_by_other(series: RunSeries, stalls: Stalls, rank: int) -> bool:
    """Whether the collector or data loader takes half of what the stalls cost: of some rank over all usual steps, or
    of this one in the long steps themselves, beyond what it takes in its other steps."""
    names = [name for name in OTHER_PARTS if name in series.usual]
    over_all = (series.usual.groupby("rank")[name] for name in names)
    if any(float((own.mean() - own.median()).max()) >= EXPLAINS * stalls.cost_ms for own in over_all):
        return True
    table = series.of(rank)
    lasted_ms = _beyond_others(table, "wall_ms", stalls)
    return any(_beyond_others(table, name, stalls) >= EXPLAINS * lasted_ms for name in names)


def _beyond_others(table: pd.DataFrame, column: str, stalls: Stalls) -> float:
    """What a rank's long steps take more of a column than its other steps do in the median, summed; ms."""
    long = table["step"].isin(stalls.steps)
    return float((table.loc[long, column] - table.loc[~long, column].median()).sum())


def _blocked(series: RunSeries, stalls: dict[int, Stalls]) -> bool:
    """Whether no rank runs while a stall lasts: then it is not computation that some of them wait for."""
    table = series.usual
    if set(stalls) != set(series.ranks) or "thread_cpu_ms" not in table or table["thread_cpu_ms"].isna().any():
        return False
    for rank, own in stalls.items():
        steps = series.of(rank)
        if _beyond_others(steps, "thread_cpu_ms", own) > (1.0 - BLOCKED_SHARE) * _beyond_others(steps, "wall_ms", own):
            return False
    return True


def _mechanism(profile: Profile, writers: dict[int, StallWrites]) -> str | None:
    if not writers:
        return None
    fastest = max(each.bytes_per_s for each in writers.values())
    return "slow_storage" if fastest < profile.thresholds["slow_storage_bytes_per_s"] else "synchronous_save"


def _written(profile: Profile, rank: int) -> Sentence:
    facts = measure_all(profile, "stall_written_bytes", "stall_written_bytes_per_s", rank=rank)
    return say(f"Around each of them rank {rank} writes {{0}}, {{1}} over the time they take longer.", *facts)


def _writers(profile: Profile, series: RunSeries, stalls: dict[int, Stalls]) -> dict[int, StallWrites]:
    """The ranks that write around their long steps, at least half as much as the one that writes most."""
    records = profile.host_records
    if records is None:
        return {}
    found_on = {rank: stall_writes(records, series, own, rank) for rank, own in stalls.items()}
    known = {rank: each for rank, each in found_on.items() if each is not None and each.share >= WRITTEN_SHARE}
    most = max((each.bytes_per_stall for each in known.values()), default=0.0)
    return {rank: each for rank, each in known.items() if each.bytes_per_stall >= EXPLAINS * most}


@check(
    *("storage.traced_save", "Saves in the trace", "Do traced steps stop while state is saved?"),
    causes=("checkpoint_stall",),
    mechanisms=("synchronous_save",),
    needs=(Need.COPIES,),
)
def traced_saves(profile: Profile) -> Check | Finding:
    """Steps that bring a state to the host and then pause, on ranks with a device."""
    devices = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    if not devices:
        return cannot_answer(
            "no work on a device is recorded, so no copy of a state to the host", "a trace with device activity"
        )
    unknown = without_launches(profile)
    devices = [rank for rank in devices if rank not in unknown]
    if not devices:
        return cannot_answer(*next(iter(unknown.values())))
    copying = [rank for rank in devices if saves(profile, rank).steps]
    saving = [rank for rank in copying if not _otherwise(profile, rank)]
    if copying and not saving:
        text = "Some steps copy {0} to the host and then pause, but Python frames that save fill {1} of the pauses."
        return clean(say(text, *measure_all(profile, "saved_bytes", "save_frames_pct", rank=copying[0])))
    if not saving:
        text = "No step stands out by copying a state to the host; a step has {0} that wait for the device."
        return clean(say(text, measure(profile, "blocking_calls_per_step", rank=devices[0])))
    shares = {
        rank: 100.0 * measure(profile, "save_stall_ms", rank=rank).value / profile.mean_step_ms for rank in saving
    }
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    copied, cost = measure_all(profile, "saved_bytes", "save_stall_ms", rank=worst)
    if not chosen:
        text = "Some steps copy {0} to the host, for which the device waits {1} per step on average."
        return clean(say(text, copied, cost))
    if _few(profile, worst) and not _named(profile, worst):
        return cannot_answer(UNCLEAR, NEEDS)
    metrics = ("save_stall_ms", "save_pause_ms", "save_steps", "saved_bytes", "save_frames_pct")
    cost, pause, steps, copied, frames = measure_all(profile, *metrics, rank=worst)
    named, few = _named(profile, worst), _few(profile, worst)
    cap = (FEW_CAP if few else NAMED_CAP) if named else SEVERAL_CAP if steps.value > 1 else ONCE_CAP
    pausing = 100.0 * pause.value / profile.mean_step_ms
    text = (
        "In {0} the host copies {1} to its memory and then pauses, as for a checkpoint: the device waits {2} per step."
    )
    return Finding(
        cause="checkpoint_stall",
        mechanism="synchronous_save",
        claim=say(text, steps, copied, cost),
        confidence=confidence(
            (shares[worst], profile.thresholds["noted_pct"]), (pausing, profile.thresholds["noted_pct"]), at_most=cap
        ),
        ranks=chosen,
        steps=saves(profile, worst).steps,
        # The state is still copied, but packed and written in parallel with the training.
        change=tuple(Scale(rank, saves(profile, rank).track, saves(profile, rank).moments) for rank in chosen),
        details=(
            say("Of that the pauses after the copies take {0}.", pause),
            *((say("Frames that save fill {0} of the pauses.", frames),) if named else ()),
        ),
        against=(*(() if named else (say(TRACED_OPEN),)), *((say(RARE),) if few else ())),
    )


def _otherwise(profile: Profile, rank: int) -> bool:
    """Whether the frames show what the host does in the pauses, and none of them saves."""
    found = saves(profile, rank)
    return not len(found.frames) and 100.0 * length(found.framed) > NAMED_PCT * length(found.moments)


def _named(profile: Profile, rank: int) -> bool:
    return measure(profile, "save_frames_pct", rank=rank).value >= NAMED_PCT


def _few(profile: Profile, rank: int) -> bool:
    return len(profile.rank(rank).steps) <= FEW_STEPS
