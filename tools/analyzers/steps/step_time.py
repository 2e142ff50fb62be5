"""Is the step time steady, over steps and over ranks? These coarse tests name suspect steps and ranks, not causes."""

from __future__ import annotations

import numpy as np

from tools.analyzers.steps.series_steps import series_checks, unprofiled
from tools.findings import Check, Sentence, cannot_answer, clean
from tools.metrics.registry import measure
from tools.views.coarse import own_ms, spread_pct, step_series
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.step_shape import KENDALL_Z, PERIOD_STEPS, PETTITT_P, TREND_STEPS, StepSeries

SPIKE_STEPS = 3
IN_WORDS = {TREND_STEPS: "ten", PERIOD_STEPS: "twenty"}  # what is needed is no measured figure, so it is no digit
SPIKES_TOLD = 3
RHYTHM_CORRELATION = 0.5
OWN_SHARE = 0.5  # a rank that adds this much of the largest excess by itself explains what others wait for


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Level, fluctuation, drift, jumps, rhythm, and the slowest rank; "found" here is a symptom without a cause.

    Asked of the series where there is one: it is longer than a trace, and no profiler changed it.
    """
    series = step_series(profile)
    if profile.series is not None and len(profile.series.slowest_ms) > len(series):
        longer = series_checks(profile, profile.series)
        traced = _slowest_rank(profile)
        told = {check.name: check for check in (traced, *longer) if check.status != "cannot_answer"}
        return (_level(profile), *(told.get(check.name, check) for check in longer))
    return (
        _level(profile),
        _fluctuation(profile, series),
        _trend(profile, series),
        _change_point(profile, series),
        _rhythm(profile, series),
        _slowest_rank(profile),
    )


def _symptom(name: str, *support: Sentence) -> Check:
    """Something was found that is not itself a cause."""
    return Check(name, "found", support=support)


def _level(profile: Profile) -> Check:
    usual = measure(profile, "step_time_ms")
    if all(view.rank.step_origin == "window" for view in profile.ranks):
        text = "No steps are marked: the whole recording, start-up included, stands for one step of {0}."
        return clean("step_time.level", Sentence(text, (usual,)))
    behind = max(profile.ranks, key=lambda view: view.backlog_ns).rank.rank
    backlog = measure(profile, "device_backlog_ms", rank=behind)
    told = backlog.value * 100.0 >= usual.value * profile.thresholds["fluctuation_pct"]
    text = (
        f"On rank {behind} the device began {{0}} behind the host: the last step as recorded, and with it the mean,"
        " holds work of steps before the recording."
    )
    late = (Sentence(text, (backlog,)),) if told else ()
    ranks = "" if len(profile.ranks) == 1 else ", the slowest rank of each"
    return clean(
        "step_time.level", Sentence(f"The median step takes {{0}}{ranks}.", (usual,)), *unprofiled(profile), *late
    )


def _fluctuation(profile: Profile, series: StepSeries) -> Check:
    name = "step_time.fluctuation"
    if len(series) < SPIKE_STEPS:
        return cannot_answer(name, "too few steps were recorded", "three steps or more, better a series of step times")
    spikes = series.fluctuating(profile.thresholds["fluctuation_pct"])
    variation = Sentence(
        "The step time varies by {0}; {1} steps are far over the usual one.",
        (measure(profile, "step_variation_pct"), measure(profile, "fluctuating_steps")),
    )
    if not len(spikes):
        return clean(name, variation)
    return _symptom(name, variation, *[_spike(profile, int(step)) for step in spikes[:SPIKES_TOLD]])


def _spike(profile: Profile, step: int) -> Sentence:
    """Where the extra time of a long step went: on the rank that took longer itself before those that waited."""
    table = profile.breakdown
    columns = [f"{part}_ns" for part in PARTS]
    excess = table[columns] - table.groupby("rank")[columns].transform("median")
    here = np.flatnonzero((table["number"] == step).to_numpy())
    values = excess.to_numpy()[here]
    own = np.where(np.array(PARTS) == "exposed_communication", 0, values)
    if own.max() >= OWN_SHARE * values.max():
        values = own
    row, column = np.unravel_index(int(values.argmax()), values.shape)
    rank, part = int(table["rank"].iloc[here[row]]), PARTS[column]
    facts = (
        measure(profile, "step_excess_ms", step=step),
        measure(profile, "step_part_excess_ms", part=part, step=step, rank=rank),
    )
    what = part.replace("_", " ")
    return Sentence(
        f"step {step} takes {{0}} longer than usual; on rank {rank} the part {what} takes {{1}} longer.", facts
    )


def _trend(profile: Profile, series: StepSeries) -> Check:
    name = "step_time.trend"
    trend = series.trend()
    if trend is None:
        return cannot_answer(name, "too few steps were recorded for a trend", _steps_needed(TREND_STEPS))
    sentence = Sentence("From first to last step the step time drifts by {0}.", (measure(profile, "step_trend_pct"),))
    drifts = abs(trend.z) >= KENDALL_Z and abs(trend.total_pct) >= profile.thresholds["fluctuation_pct"]
    return _symptom(name, sentence) if drifts and not series.jumps() else clean(name, sentence)


def _change_point(profile: Profile, series: StepSeries) -> Check:
    name = "step_time.change_point"
    if len(series) < TREND_STEPS:
        return cannot_answer(name, "too few steps were recorded for a change of level", _steps_needed(TREND_STEPS))
    change = series.change_point()
    if change is None:
        return clean(name, Sentence("The step time varies by {0}.", (measure(profile, "step_variation_pct"),)))
    shift = (measure(profile, "level_shift_pct"),)
    if change.p <= PETTITT_P and abs(change.shift_pct) >= profile.thresholds["fluctuation_pct"] and series.jumps():
        return _symptom(
            name, Sentence(f"From step {change.step} on, the step time is at another level, {{0}} away.", shift)
        )
    return clean(name, Sentence("The clearest change of level is {0}, which is not one.", shift))


def _rhythm(profile: Profile, series: StepSeries) -> Check:
    name = "step_time.periodicity"
    if len(series) < PERIOD_STEPS:
        return cannot_answer(name, "too few steps were recorded for a rhythm", _steps_needed(PERIOD_STEPS))
    rhythm = series.rhythm()
    variation = measure(profile, "step_variation_pct")
    limit = profile.thresholds["fluctuation_pct"]
    if rhythm is None or rhythm.correlation < RHYTHM_CORRELATION or rhythm.excess_pct < limit:
        return clean(
            name, Sentence("The step time varies by {0} and no long step comes again regularly.", (variation,))
        )
    return _symptom(name, Sentence("A long step comes again every {0} steps.", (measure(profile, "long_step_period"),)))


def _slowest_rank(profile: Profile) -> Check:
    name = "step_time.slowest_rank"
    if len(profile.ranks) < 2:
        return cannot_answer(name, "there is one rank's trace only", "the traces of the other ranks for the same steps")
    own = own_ms(profile)
    slowest = int(own.sort_values().index[-1])
    facts = (measure(profile, "rank_time_ms", of="own", rank=slowest), measure(profile, "rank_spread_pct", of="own"))
    sentence = Sentence(
        f"Without exposed communication rank {slowest} takes longest, {{0}} per step; the ranks are {{1}} apart.", facts
    )
    apart = spread_pct(own) >= profile.thresholds["rank_spread_pct"]
    return _symptom(name, sentence) if apart else clean(name, sentence)


def _steps_needed(count: int) -> str:
    return f"a series of at least {IN_WORDS[count]} steps: a longer profile, or the step times of a log"
