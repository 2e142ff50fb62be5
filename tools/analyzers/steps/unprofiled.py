"""The step time by monitor records and step logs: a series longer than a trace and free of its profiler."""

from __future__ import annotations

from tools.analyzers.support.answers import measure_all, say, values, worst_of
from tools.analyzers.support.recorded import by_rank
from tools.findings import Fact, Sentence
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.step_shape import Level

FEW_SAMPLES = "Too few samples of processes and machines were taken in these steps: their figures cover the whole run."
UNPROFILED = "without a profiler"


def unprofiled(profile: Profile) -> tuple[Sentence, ...]:
    """The step time without a profiler as far as it is known, and what the profiler added to the traced steps."""
    series = profile.series
    if series is None:
        return ()
    facts = (measure(profile, "series_step_ms", statistic=each) for each in ("mean", "median", "p95"))
    source = "the monitor's records" if series.origin == "monitor" else "the step log"
    qualifier, stretch = untouched(profile), _stretch(series.level)
    steps = "unprofiled steps" if qualifier == UNPROFILED else f"steps {qualifier}"
    which = f"{stretch}{steps}" if stretch else steps.capitalize()
    said = [say(f"{which} take {{0}} on average by {source}; their median is {{1}}, their p95 {{2}}.", *facts)]
    if profile.host_records is not None and profile.host_records.sampled is not series:
        said.append(say(FEW_SAMPLES))
    if active := profiler_seen(profile):
        said.append(say("A profiler was active in {0} of the samples taken in these steps.", active))
    if not series.captured.empty:
        cost = measure(profile, "profiled_excess_pct")
        said += [say("The profiled steps took {0} longer than that median.", cost)] if cost.value > 0 else []
    return tuple(said)


def _stretch(level: Level) -> str:
    """Which stretch of a run that changed the steps are of: the beginning of a sentence."""
    if level.since is None:
        return "" if level.until is None else f"Until step {level.until}, where the run changed, "
    if level.until is None:
        return f"Since step {level.since}, where the run changed, "
    return f"Between the changes at steps {level.since} and {level.until} "


def untouched(profile: Profile) -> str:
    """What is known of profilers in the steps of the series, as words that follow "step" or "steps"."""
    if profiler_seen(profile):
        return "without a trace"
    return UNPROFILED if profile.traced else "of which no profiling is recorded"


def profiler_seen(profile: Profile) -> Fact | None:
    """How often samples in the series' steps found a profiler active; None where they never did or do not show it."""
    records = profile.host_records
    active = {} if records is None else by_rank(profile, records, "profiler_active_pct")
    most = active[worst_of(values(active))] if active else None
    return most if most is not None and most.value > 0 else None


def own_time(profile: Profile, rank: int) -> tuple[Fact, ...]:
    """A rank's own time per step of the series, and what it has over the other ranks'."""
    return measure(profile, "series_part_ms", part="own", rank=rank), *measure_all(profile, "own_excess_pct", rank=rank)
