"""The coarse questions asked of the series, which is longer than a trace and free of the profiler."""

from __future__ import annotations

from tools.analyzers.support.affected import worst_of
from tools.analyzers.support.recorded import by_rank, values
from tools.errors import UsageError
from tools.findings import Check, Fact, Sentence, cannot_answer, clean
from tools.metrics.recorded.series import own_means, rank_stalls, step_series_of
from tools.metrics.registry import measure
from tools.views.coarse import spread_pct
from tools.views.profile import Profile
from tools.views.series import RunSeries
from tools.views.step_shape import KENDALL_Z, PETTITT_P, TREND_STEPS, Level

MORE = "a longer series: more steps under the monitor, or in the step log"
FEW_SAMPLES = (
    "Too few samples of processes and machines were taken in these steps: figures of them are of the whole run."
)
OWN_TIME = "`monitor.watch_model(model)` or `with monitor.waiting():`, which tell a rank's own time"


def series_checks(profile: Profile, series: RunSeries) -> tuple[Check, ...]:
    """Fluctuation, trend, change of level, rhythm and slowest rank of the unprofiled steps."""
    return (
        _fluctuation(profile, series),
        _trend(profile, series),
        _change_point(profile, series),
        _rhythm(profile),
        _slowest_rank(profile, series),
    )


def level(profile: Profile) -> Check:
    """The step time where only the series tells it."""
    return clean("step_time.level", *unprofiled(profile))


def unprofiled(profile: Profile) -> tuple[Sentence, ...]:
    """The step time without a profiler as far as that is known, and what the profiler added to the traced steps."""
    series = profile.series
    if series is None:
        return ()
    facts = tuple(measure(profile, "series_step_ms", statistic=each) for each in ("mean", "median", "p95"))
    whose = "the monitor's records" if series.origin == "monitor" else "the step log"
    which = f"{_stretch(series.level)}teps {untouched(profile)}"
    text = f"{which} take {{0}} on average by {whose}; their median is {{1}}, their p95 {{2}}."
    told = [Sentence(text, facts)]
    if profile.host_records is not None and profile.host_records.sampled is not series:
        told.append(Sentence(FEW_SAMPLES))
    if active := _profiler_seen(profile):
        told.append(Sentence("In {0} of the samples taken in these steps a profiler was at work.", (active,)))
    if not series.captured.empty:
        cost = measure(profile, "profiled_excess_pct")
        if cost.value > 0:
            told.append(Sentence("The profiled steps took {0} longer than that median.", (cost,)))
    return tuple(told)


def _stretch(level: Level) -> str:
    """Where the run changed, which stretch of it the steps are of: the beginning of a sentence, up to an s."""
    if level.since is None:
        return "S" if level.until is None else f"Until step {level.until}, where the run changed, s"
    if level.until is None:
        return f"Since step {level.since}, where the run changed, s"
    return f"Between the changes at steps {level.since} and {level.until} s"


def untouched(profile: Profile) -> str:
    """What is known of profilers in the steps of the series: without a trace nobody told which ones were profiled."""
    if _profiler_seen(profile):
        return "of which no trace was read"
    return "that no profiler touched" if profile.traced else "of which no profiling is recorded"


def _profiler_seen(profile: Profile) -> Fact | None:
    """How often samples in the series' steps found a profiler at work; None where they never did or do not tell."""
    records = profile.host_records
    active = {} if records is None else by_rank(profile, records, "profiler_active_pct")
    most = active[worst_of(values(active))] if active else None
    return most if most is not None and most.value > 0 else None


def _kind(profile: Profile) -> str:
    return "unprofiled" if profile.traced and not _profiler_seen(profile) else "recorded"


def symptom(name: str, *support: Sentence) -> Check:
    """Something was found that is not itself a cause."""
    return Check(name, "found", support=support)


def _fluctuation(profile: Profile, series: RunSeries) -> Check:
    facts = (measure(profile, "series_variation_pct"), measure(profile, "series_long_steps"))
    sentence = Sentence(f"The {_kind(profile)} step time varies by {{0}}; {{1}} are far over the usual one.", facts)
    return symptom("step_time.fluctuation", sentence) if facts[1].value else clean("step_time.fluctuation", sentence)


def _trend(profile: Profile, series: RunSeries) -> Check:
    name, steps = "step_time.trend", step_series_of(series)
    trend = steps.trend()
    if trend is None:
        return cannot_answer(name, "too few steps were recorded for a trend", MORE)
    drift = measure(profile, "series_trend_pct")
    sentence = Sentence(f"From first to last {_kind(profile)} step the step time drifts by {{0}}.", (drift,))
    drifts = abs(trend.z) >= KENDALL_Z and abs(trend.total_pct) >= profile.thresholds["fluctuation_pct"]
    return symptom(name, sentence) if drifts and not steps.jumps() else clean(name, sentence)


def _change_point(profile: Profile, series: RunSeries) -> Check:
    name, steps = "step_time.change_point", step_series_of(series.whole)
    change = steps.change_point()
    if len(steps) < TREND_STEPS or change is None:
        return cannot_answer(name, "too few steps were recorded for a change of level", MORE)
    shift = (measure(profile, "series_shift_pct"),)
    if change.p <= PETTITT_P and abs(change.shift_pct) >= profile.thresholds["fluctuation_pct"] and steps.jumps():
        text = f"From step {change.step} on, the {_kind(profile)} step time is at another level, {{0}} away."
        return symptom(name, Sentence(text, shift))
    return clean(name, Sentence("The clearest change of level is {0}, which is not one.", shift))


def _rhythm(profile: Profile) -> Check:
    name = "step_time.periodicity"
    stalls = rank_stalls(profile)
    if not stalls:
        variation = measure(profile, "series_variation_pct")
        text = f"The {_kind(profile)} step time varies by {{0}} and no long step comes again regularly."
        return clean(name, Sentence(text, (variation,)))
    rank = max(stalls, key=lambda each: (stalls[each].cost_ms, -each))
    facts = (measure(profile, "stall_period_steps", rank=rank), measure(profile, "stall_excess_ms", rank=rank))
    return symptom(name, Sentence(f"On rank {rank} a long step comes again every {{0}}; it takes {{1}} longer.", facts))


def _slowest_rank(profile: Profile, series: RunSeries) -> Check:
    name = "step_time.slowest_rank"
    try:
        own = own_means(series)
    except UsageError:
        return cannot_answer(name, "the series does not tell the ranks' own time", OWN_TIME)
    if len(own) < 2:
        return cannot_answer(name, "one rank only is recorded", "the records of the other ranks")
    slowest = int(own.sort_values().index[-1])
    facts = (
        measure(profile, "series_part_ms", part="own", rank=slowest),
        measure(profile, "own_excess_pct", rank=slowest),
    )
    per = f"per {_kind(profile)} step"
    text = f"Rank {slowest} takes longest itself, {{0}} {per}, {{1}} of a step more than the others."
    apart = spread_pct(own) >= profile.thresholds["rank_spread_pct"]
    return symptom(name, Sentence(text, facts)) if apart else clean(name, Sentence(text, facts))
