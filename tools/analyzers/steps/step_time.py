"""Is the step time steady over steps and ranks? By records or a step log where they are longer than the trace."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tools.analyzers.communication.arrival import slowest_by_waiting
from tools.analyzers.steps.output_warnings import bars_apart
from tools.analyzers.steps.step_groups import groups
from tools.analyzers.support.answers import cannot_answer, clean, say, symptom, values, worst_of
from tools.analyzers.support.figures import by_rank, measure_all, measured
from tools.analyzers.support.spec import check
from tools.errors import UsageError
from tools.findings import Check, Fact, Sentence
from tools.metrics.recorded.level_change import levels_of, turning
from tools.metrics.recorded.series import own_means, rank_stalls, run_series, step_series_of
from tools.metrics.registry import measure
from tools.run.recorded.job_log import SINGLE, JobLog
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.steps.coarse import own_ms, spread_pct, step_series
from tools.views.steps.levels import Level, comes_back, plateaus, steady_trend
from tools.views.steps.series import P95_STEPS, RunSeries, SeriesOrigin, longest_steps, stated_by
from tools.views.steps.shape import PERIOD_STEPS, PETTITT_P, TREND_STEPS, StepSeries

FEW_SAMPLES = "Too few samples of processes and machines were taken in these steps: their figures cover the whole run."
UNPROFILED = "without a profiler"
coarse = partial(check, family="parallel", stage="coarse", from_records="steps")
SPIKE_STEPS = 3
IN_WORDS = {TREND_STEPS: "ten", PERIOD_STEPS: "twenty"}  # what is needed is no measured figure, so it is no digit
SHOWN_SPIKES = 3
USUAL_SHARE = 0.5  # of the steps must be near the median, else it is no step that another one could be held against
RHYTHM_CORRELATION = 0.5
OWN_SHARE = 0.5  # a rank that adds this much of the largest excess by itself explains what others wait for
MORE_RECORDS = "a longer series: more steps under the monitor, or in a log"
SOURCES: dict[SeriesOrigin, str] = {
    "monitor": "the monitor's records",
    "step_log": "the step log",
    "job_log": "the job's output",
    "ascend": "the profiler's tables",
    "operations": "the table of operations",
}
EVERY_STEP = "the time of each of many steps in the job's output (`--log-interval 1` or its like)"
OWN_TIME = "`monitor.watch_model(model)` or `with monitor.waiting():`, which record a rank's own time"


def unprofiled(profile: Profile) -> tuple[Sentence, ...]:
    """The step time without a profiler as far as it is known, and what the profiler added to the traced steps."""
    series = profile.series
    if series is None:
        return ()
    facts = [measure(profile, "series_step_ms", statistic=each) for each in ("mean", "median", "p95")]
    source = stated_by(profile.run) if series.origin == "job_log" else SOURCES[series.origin]
    qualifier, stretch = untouched(profile), _stretch(series.level)
    steps = "unprofiled steps" if qualifier == UNPROFILED else f"steps {qualifier}".rstrip()
    log = profile.run.job_log if series.origin == "job_log" else None
    if series.averaged and log is not None and log.step_time in SINGLE:
        steps = f"printed {steps}"
    which = f"{stretch}{steps}" if stretch else steps.capitalize()
    text = f"{which} take {{0}} on average by {source}; "
    if series.averaged:
        said = [say(f"{text}{series.averaged}.", facts[0]), *_single_rates(profile)]
    elif not (qualifier or stretch):  # the mean stands in the headline
        said = [_median(profile, series, source, facts)]
    else:
        said = [say(f"{text}their median is {{1}}, their p95 {{2}}.", *facts)]
    said += _start(profile, series)
    if series.origin == "job_log" and profile.run.job_log is not None:
        said += bars_apart(profile.run.job_log)
        said += one_of_several(profile.run.job_log)
        said += [say(OF_EPOCHS)] if _counts_epochs(profile.run.job_log) else []
        said += [say(SUMS)] if profile.run.job_log.step_time == "sum" else []
    if profile.host_records is not None and profile.host_records.sampled is not series:
        said.append(say(FEW_SAMPLES))
    if active := profiler_seen(profile):
        said.append(say("A profiler was active in {0} of the samples taken in these steps.", active))
    cost = measured(profile, "profiled_excess_pct")
    if cost is not None and cost.value > 0:
        ranks = ", by the slowest rank of each" if len(cost.ranks) > 1 else ""
        said.append(say(f"The median profiled step took {{0}} longer than the median of the others{ranks}.", cost))
    return tuple(said)


TRAININGS = "The output holds {} trainings below each other; the steps are those of lines {} to {} alone."
BEGINS = (
    "The step number begins again at {}, as another training, an epoch without its number or an evaluation does; the "
    "steps are those of lines {} to {} alone."
)
UNNAMED_BAR = "The progress bar does not name its work: that its items are training steps is assumed."
OF_TOKENS = (
    "The time of a step is the tokens of one, as line {} states them, over the tokens per second of each line: right "
    "as long as both are of all ranks."
)
VALIDATED = "The lines also state figures of a validation: the time of an epoch holds it, and a step takes less."


def one_of_several(log: JobLog) -> list[Sentence]:
    """That the steps are of one of several trainings in the output, and what else their times hold."""
    lines = (int(log.steps["line"].min()), int(log.steps["line"].max()))
    places = "1 place" if log.begins == 1 else f"{log.begins} places"
    said = [say(TRAININGS.format(log.trainings, *lines))] if log.trainings > 1 else []
    said += [say(BEGINS.format(places, *lines))] if log.begins else []
    said += [say(UNNAMED_BAR)] if log.unnamed_bar else []
    said += [say(OF_TOKENS.format(log.tokens_per_step.line))] if log.tokens_per_step else []
    return [*said, say(VALIDATED)] if log.validated else said


UNEVEN_RATES = 1.5  # the highest over the lowest: less is how evenly steps run
SINGLE_RATES = "The lines also state the rate of each single step, {0} to {1} (%s): the steps are not even."


def _single_rates(profile: Profile) -> list[Sentence]:
    """How far single steps differ where the times are means of several and a throughput of each step stands there."""
    rates = None if profile.run.job_log is None else profile.run.job_log.single_rates
    facts = [measured(profile, "single_step_rate", statistic=each) for each in ("min", "max")]
    low, high = facts
    if rates is None or low is None or high is None or high.value < UNEVEN_RATES * low.value:
        return []
    return [say(SINGLE_RATES % rates.unit.removesuffix("/s"), low, high)]


def _median(profile: Profile, series: RunSeries, source: str, facts: list[Fact]) -> Sentence:
    """The median step and the p95; of too few steps for that the longest."""
    if len(series.slowest_ms) >= P95_STEPS:
        return say(f"By {source} the median step takes {{0}}, the p95 {{1}}.", *facts[1:])
    longest = measure(profile, "series_step_ms", statistic="max")
    return say(
        f"By {source} the median step takes {{0}}; {longest_steps(series)} {{1}}, the longest.", facts[1], longest
    )


LONG_START_PCT = 100.0  # longer than the usual ones: a first line that takes twice as long is worth a sentence
FEW_LINES = 10  # printed steps: of so few the first one changes the mean, and a reader counts them


FIRST_LEFT_OUT = "%s, left out as start-up%s; over all lines the mean is {1}."
WAITING_FIRST_LEFT_OUT = "%s, {2} of it wait for data, left out as start-up%s; over all lines the mean is {1}."
SHORT_FIRST = "%s, far shorter than those after it (perhaps its launch): left out%s; over all lines the mean is {1}."
SHORT_PCT = -50.0  # against each of the usual ones: no step that warms up is so short
SUMS = "Each is the sum of the timers of forward, backward and step: a step takes at least as long."


OF_EPOCHS = "The progress bar counts to the number of epochs that the arguments state: a step here is an epoch."


def _counts_epochs(log: JobLog) -> bool:
    """Whether the items of the bar whose steps are used are epochs."""
    return log.bar_total > 1 and log.bar_total == log.whole("epochs")


def _start(profile: Profile, series: RunSeries) -> list[Sentence]:
    """The first line of a job's output where it is long and left out as start-up, with what it waits for data and what
    the lines take with it."""
    excess = measured(profile, "first_step_excess_pct")
    if excess is None or set(excess.steps) & set(series.usual["step"]):
        return []
    log = profile.run.job_log
    if excess.value < LONG_START_PCT and (log is None or len(log.steps) > FEW_LINES):
        return []
    first, waited = measure(profile, "first_step_ms"), measured(profile, "first_step_data_wait_ms")
    whole = measure(profile, "logged_mean_ms")
    words = (_first_steps(log), _left_out_with_it(log, series))
    if excess.value <= SHORT_PCT and first.value <= series.slowest_ms.min() * (1.0 + SHORT_PCT / 100.0):
        return [say(SHORT_FIRST % words, first, whole)]
    if waited is None:
        return [say(FIRST_LEFT_OUT % words, first, whole)]
    return [say(WAITING_FIRST_LEFT_OUT % words, first, whole, waited)]


def _left_out_with_it(log: JobLog | None, series: RunSeries) -> str:
    """The further lines of that rank that are left out with the first one, by the step of the last of them."""
    if log is None:
        return ""
    rank = int(log.steps[log.steps["wall_ms"].notna()].iloc[0]["rank"])
    used = series.of(rank)["step"]
    own = log.steps.loc[(log.steps["rank"] == rank) & log.steps["wall_ms"].notna(), "step"]
    before = own[own < used.min()] if len(used) else own
    if len(before) < 2:
        return ""
    last = int(before.iloc[-1])
    return f" with the line of step {last}" if len(before) == 2 else f" with the lines after it up to step {last}"


def _first_steps(log: JobLog | None) -> str:
    """The first time of the output, with the steps and the rank that it is of."""
    if log is None:
        return "First step: {0}"
    row = log.steps[log.steps["wall_ms"].notna()].iloc[0]
    last, span = int(row["step"]), int(row["span"])
    rank = f" of rank {int(row['rank'])}" if log.steps["rank"].nunique() > 1 else ""
    if span == 1 or log.step_time in SINGLE:
        return f"Step {last}{rank}: {{0}}"
    return f"Steps {last - span + 1} to {last}{rank}: {{0}} per step"


def _stretch(level: Level) -> str:
    """Which stretch of a run that changed the steps are of: the beginning of a sentence."""
    if level.since is None:
        return "" if level.until is None else f"Until step {level.until}, where the run changed, "
    if level.until is None:
        return f"Since step {level.since}, where the run changed, "
    return f"Between the changes at steps {level.since} and {level.until} "


def untouched(profile: Profile) -> str:
    """What is known of profilers in the steps of the series, as words that follow "step" or "steps"; "" if nothing."""
    if profile.series is not None and profile.series.origin in ("ascend", "operations"):
        return "under the profiler"
    if profiler_seen(profile):
        return "without a trace"
    return UNPROFILED if profile.traced else ""


def profiler_seen(profile: Profile) -> Fact | None:
    """How often samples in the series' steps found a profiler active; None where they never did or do not show it."""
    records = profile.host_records
    active = {} if records is None else by_rank(profile, records, "profiler_active_pct")
    most = active[worst_of(values(active))] if active else None
    return most if most is not None and most.value > 0 else None


@dataclass(frozen=True, eq=False)
class Asked:
    """The steps that are judged, the series they come from (None: the trace), and a word for them."""

    steps: StepSeries
    series: RunSeries | None = None
    word: str = ""

    def needs(self, count: int) -> str:
        """What to record for a series that is long enough."""
        longer = f"a series of at least {IN_WORDS[count]} steps: a longer profile, or the step times of a log"
        return MORE_RECORDS if self.series else longer

    def figure(self, profile: Profile, of_trace: str, of_series: str, **arguments: str) -> Fact:
        """The metric of the trace or its like of the series."""
        return measure(profile, of_trace if self.series is None else of_series, **arguments)


def _asked(profile: Profile) -> Asked:
    series, traced = profile.series, step_series(profile) if profile.traced else None
    if series is not None and (traced is None or len(series.slowest_ms) > len(traced)):
        word = "unprofiled " if profile.traced and not profiler_seen(profile) else "recorded "
        return Asked(step_series_of(series), series, word)
    assert traced is not None
    return Asked(traced)


def _not_each_step(asked: Asked, count: int) -> Check | None:
    """The answer where a job's output shows too few steps, or no single ones; None where it shows them."""
    unseen = "" if asked.series is None else asked.series.unseen(count)
    if not unseen:
        return None
    return cannot_answer(unseen, EVERY_STEP if asked.series is not None and asked.series.averaged else MORE_RECORDS)


@coarse("step_time.level", "Step time", "How long does a step take?")
def level(profile: Profile) -> Check:
    """The median step, the unprofiled steps, and a device that began behind the host."""
    if not profile.traced:
        return clean(*unprofiled(profile))
    usual = measure(profile, "step_time_ms")
    if all(view.rank.step_origin == "window" for view in profile.ranks):
        text = "No steps are marked: the whole recording, start-up included, is taken as one step of {0}."
        return clean(say(text, usual))
    behind = max(profile.ranks, key=lambda view: view.backlog_ns).rank.rank
    backlog = measure(profile, "device_backlog_ms", rank=behind)
    text = f"On rank {behind} the device began {{0}} behind the host: the last step and the mean include earlier work."
    if profile.rank(behind).rank.marks:
        text = (
            f"On rank {behind} the host runs whole steps ahead of the device, {{0}} at first: steps last from the"
            " device's first work of one to that of the next, and work after the last mark is counted."
        )
    shown = backlog.value * 100.0 >= usual.value * profile.thresholds["fluctuation_pct"]
    ranks = "" if len(profile.ranks) == 1 else ", by the slowest rank of each step"
    ranks += "" if profile.run.screening is None else " among those read in full"
    median = say(f"The median step takes {{0}}{ranks}.", usual)
    return clean(median, *unprofiled(profile), *_inferred(profile), *((say(text, backlog),) if shown else ()))


def _inferred(profile: Profile) -> tuple[Sentence, ...]:
    """Where steps are inferred, by which marks, and how much of the recording is in none of them."""
    outside = {view.rank.rank: view.outside_steps.total_ns for view in profile.ranks if view.outside_steps is not None}
    if not outside:
        return ()
    rank = max(outside, key=lambda each: (outside[each], -each))
    marks = "optimizer calls" if profile.rank(rank).rank.step_origin == "optimizer" else "a repeating annotation"
    facts = [measure(profile, "outside_steps_ms", rank=rank, where=where) for where in ("before", "between", "after")]
    text = "Steps are inferred from %s; on rank %d {0} before the first step, {1} between steps and {2} after the last"
    return (say(f"{text % (marks, rank)} are in no step.", *facts),)


@coarse("step_time.fluctuation", "Step-time variation", "Does the step time vary from step to step?")
def fluctuation(profile: Profile) -> Check:
    """Single steps far above the median, or groups of steps; in a trace with the part that took longer."""
    asked = _asked(profile)
    if unseen := _not_each_step(asked, SPIKE_STEPS):
        return unseen
    if asked.series is not None:
        facts = measure_all(profile, "series_variation_pct", "series_long_steps")
        sentence = say(f"The {asked.word}step time varies by {{0}}; {{1}} are far above the median.", *facts)
        of_trace = groups(profile) if profile.traced else ()
        return symptom(sentence, *of_trace) if facts[1].value or of_trace else clean(sentence)
    if len(asked.steps) < SPIKE_STEPS:
        return cannot_answer("too few steps were recorded", "three steps or more, better a series of step times")
    spikes = asked.steps.fluctuating(profile.thresholds["fluctuation_pct"])
    facts = measure_all(profile, "step_variation_pct", "fluctuating_steps")
    variation = say("The step time varies by {0}; {1} steps are far above the median.", *facts)
    if found := groups(profile):
        return symptom(variation, *found)
    if not len(spikes):
        return clean(variation)
    if asked.steps.usual_share(profile.thresholds["fluctuation_pct"]) < USUAL_SHARE:
        return symptom(variation, say("Fewer than half of the steps are near the median, so no step time is usual."))
    return symptom(variation, *(_spike(profile, int(step)) for step in spikes[:SHOWN_SPIKES]))


def _spike(profile: Profile, step: int) -> Sentence:
    """Where the extra time of a long step went: on the rank that took longer itself before those that waited."""
    table = profile.breakdown
    columns = [f"{part}_ns" for part in PARTS]
    excess = table[columns] - table.groupby("rank")[columns].transform("median")
    here = np.flatnonzero((table["number"] == step).to_numpy())
    amounts = excess.to_numpy()[here]
    own = np.where(np.array(PARTS) == "exposed_communication", 0, amounts)
    if own.max() >= OWN_SHARE * amounts.max():
        amounts = own
    row, column = np.unravel_index(int(amounts.argmax()), amounts.shape)
    rank, part = int(table["rank"].iloc[here[row]]), PARTS[column]
    return say(
        f"step {step} takes {{0}} longer than the median; on rank {rank} {part.replace('_', ' ')} takes {{1}} longer.",
        measure(profile, "step_excess_ms", step=step),
        measure(profile, "step_part_excess_ms", part=part, step=step, rank=rank),
    )


@coarse("step_time.trend", "Step-time drift", "Does the step time drift over the run?")
def trend(profile: Profile) -> Check:
    """A monotonic trend that a straight line describes better than a jump."""
    asked = _asked(profile)
    seen = asked.steps.trend()
    if seen is None:
        return cannot_answer("too few steps were recorded for a trend", asked.needs(TREND_STEPS))
    drift = asked.figure(profile, "step_trend_pct", "series_trend_pct")
    text = (
        f"From the first to the last {asked.word}step the step time drifts by {{0}} of the median step (median slope)"
    )
    if steady_trend(asked.steps, profile.thresholds["fluctuation_pct"]) is None:
        return clean(say(f"{text}.", drift))
    ends = [asked.figure(profile, "step_quarter_ms", "series_quarter_ms", end=end) for end in ("first", "last")]
    return symptom(say(f"{text}: the first quarter of the steps takes {{1}}, the last quarter {{2}}.", drift, *ends))


@coarse("step_time.change_point", "Change of step time", "Does the step time change level during the run?")
def change_point(profile: Profile) -> Check:
    """A step from which on the step time is at another level."""
    asked = _asked(profile)
    steps = asked.steps if asked.series is None else step_series_of(asked.series.whole)
    change = steps.change_point()
    if len(steps) < TREND_STEPS or (change is None and asked.series is not None):
        return cannot_answer("too few steps were recorded for a change of level", asked.needs(TREND_STEPS))
    if change is None:
        return clean(say("The step time varies by {0}.", measure(profile, "step_variation_pct")))
    if asked.series is not None and plateaus(steps):
        return symptom(levels_claim(profile))
    if asked.series is not None and turning(profile):
        return symptom(turns_claim(profile))
    shift = asked.figure(profile, "level_shift_pct", "series_shift_pct")
    if (
        change.p <= PETTITT_P
        and abs(change.shift_pct) >= profile.thresholds["fluctuation_pct"]
        and steps.jumps()
        and not comes_back(steps, change)
    ):
        where = _since(steps, change.step, asked.series)
        if asked.series is None:
            return symptom(say(f"{where} the {asked.word}step time differs by {{0}}.", shift))
        levels = [measure(profile, "series_level_ms", side=side) for side in ("after", "before")]
        return symptom(
            say(f"{where} {asked.word}steps take {{0}} instead of {{1}}, a change of {{2}}.", *levels, shift)
        )
    if change.p > PETTITT_P:
        return clean(say("The largest change of level is {0}, which is within noise.", shift))
    if abs(change.shift_pct) < profile.thresholds["fluctuation_pct"]:
        return clean(say("The largest change of level is {0}, which is small.", shift))
    return clean(say(f"The {asked.word}step time changes by {{0}}, but not at one step.", shift))


WIDE = 1.5  # times the usual distance of two recorded steps: further apart, steps between them are missing


def _since(steps: StepSeries, first: int, series: RunSeries | None) -> str:
    """Since when the steps from ``first`` on are at their level, as far as recorded steps tell."""
    between = np.diff(steps.numbers)
    before = int(steps.numbers[steps.numbers < first].max())
    if first - before <= WIDE * float(np.median(between)):
        return f"From step {first if series is None else series.whole.first_of(first)} on"
    return f"From some step between {before} and {first} on"


def levels_claim(profile: Profile) -> Sentence:
    """The levels of the step time one after another, with their first steps; UsageError with fewer than three."""
    levels, series = levels_of(profile), run_series(profile).whole
    facts = tuple(measure(profile, "series_plateau_ms", level=at + 1) for at in range(len(levels)))
    since = [series.first_of(each.first) for each in levels]
    parts = ["{0} at first", *(f"{{{at}}} from step {step} on" for at, step in enumerate(since[1:], 1))]
    return Sentence(f"A step takes {', '.join(parts)}.", facts)


def turns_claim(profile: Profile) -> Sentence:
    """That stretches of steps get longer and shorter in turn, between which medians; UsageError where they do not."""
    facts = [measure(profile, "series_stretch_ms", which=each) for each in ("shortest", "longest", "last")]
    text = (
        "The step time goes up and down: over stretches of {0} its median lies between {1} and {2}, over the last {3}."
    )
    return say(text, measure(profile, "series_stretches"), *facts)


@coarse("step_time.periodicity", "Periodic long steps", "Do long steps recur at a fixed interval?")
def rhythm(profile: Profile) -> Check:
    """Long steps at a fixed distance: by the stalls of each rank in records, by autocorrelation in a trace."""
    asked = _asked(profile)
    if unseen := _not_each_step(asked, PERIOD_STEPS):
        return unseen
    stalls = {} if asked.series is None else rank_stalls(profile)
    if stalls:
        rank = max(stalls, key=lambda each: (stalls[each].cost_ms, -each))
        facts = measure_all(profile, "stall_period_steps", "stall_excess_ms", rank=rank)
        return symptom(say(f"On rank {rank} a long step recurs every {{0}}; it takes {{1}} longer.", *facts))
    variation = asked.figure(profile, "step_variation_pct", "series_variation_pct")
    none = clean(say(f"The {asked.word}step time varies by {{0}}; no long step recurs regularly.", variation))
    if asked.series is not None:
        return none
    if len(asked.steps) < PERIOD_STEPS:
        return cannot_answer("too few steps were recorded for a rhythm", asked.needs(PERIOD_STEPS))
    seen, limit = asked.steps.rhythm(), profile.thresholds["fluctuation_pct"]
    if seen is None or seen.correlation < RHYTHM_CORRELATION or seen.excess_pct < limit:
        return none
    return symptom(say("A long step recurs every {0} steps.", measure(profile, "long_step_period")))


@coarse("step_time.slowest_rank", "Slowest rank", "Does one rank take longer by itself than the others?")
def slowest_rank(profile: Profile) -> Check:
    """The rank with the longest time of its own; the trace answers where records do not show it."""
    series = _asked(profile).series
    recorded = None if series is None else _slowest_recorded(profile, series)
    if recorded is not None and (recorded.status != "cannot_answer" or not profile.traced):
        return recorded
    if len(profile.ranks) < 2:
        one = cannot_answer("there is one rank's trace only", "the traces of the other ranks for the same steps")
        return recorded or one
    own, late = own_ms(profile), slowest_by_waiting(profile)
    slowest = int(own.sort_values().index[-1])
    if late is not None and late != slowest:
        waited = measure(profile, "exposed_wait_ms", last_rank=late)
        times = (measure(profile, "rank_time_ms", of="own", rank=rank) for rank in (slowest, late))
        text = (
            f"Rank {late} arrives last at the collectives: the other ranks wait {{0}} per step for it. Without exposed"
            f" communication rank {slowest} takes longest, {{1}} per step; rank {late} takes {{2}}."
        )
        return symptom(say(text, waited, *times))
    facts = measure(profile, "rank_time_ms", of="own", rank=slowest), measure(profile, "rank_spread_pct", of="own")
    text = f"Without exposed communication rank {slowest} takes longest, {{0}} per step; the ranks differ by {{1}}."
    apart = spread_pct(own) >= profile.thresholds["rank_spread_pct"]
    return symptom(say(text, *facts)) if apart else clean(say(text, *facts))


def _slowest_recorded(profile: Profile, series: RunSeries) -> Check:
    try:
        own = own_means(series)
    except UsageError:
        return cannot_answer("the series does not show the ranks' own time", OWN_TIME)
    if len(own) < 2:
        return cannot_answer("only one rank is recorded", "the records of the other ranks")
    slowest = int(own.sort_values().index[-1])
    step = f"{_asked(profile).word}step"
    longest = measure(profile, "series_part_ms", part="own", rank=slowest)
    facts = longest, measure(profile, "own_excess_pct", rank=slowest)
    if spread_pct(own) >= profile.thresholds["rank_spread_pct"]:
        text = f"Rank {slowest} takes longest by itself, {{0}} per {step}, {{1}} of a step more than the others."
        return symptom(say(text, *facts))
    # So little names no rank: a wait that nobody recorded is part of the time of the rank that waits.
    text = f"By the recorded times no rank is slower: {{0}} per {step} at most, {{1}} of a step more than the others."
    return clean(say(text, *facts))
