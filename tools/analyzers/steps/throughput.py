"""Does the throughput that a job's output states change, where it states no time of a step?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.analyzers.support.answers import clean, say, symptom
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.metrics.recorded.throughput import rate_change, rate_stalls
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.steps.levels import clear_change, steady_trend
from tools.views.steps.shape import LEAST_STEPS
from tools.views.steps.throughput import RateSeries, rate_series

NO_SECONDS = "how many of them a step holds is not stated, so that no time of a step is known"
EQUAL_STEPS = "as long as steps hold equally many"


@check(
    *("step_time.throughput", "Stated throughput", "Does the throughput that the output states change?"),
    family="parallel",
    from_records="output",
)
def throughput(profile: Profile) -> Check | None:
    """The usual throughput, and what stands out: another level, a drift, steps at one distance, single steps."""
    rates = rate_series(profile.run)
    if rates is None:
        return None
    median = measure(profile, "stated_throughput")
    text = f"The job's output states its throughput in {{n0}}, {{0}} in the median; {NO_SECONDS}."
    if rates.starts > 1:
        where = _places(rates.starts - 1)
        text += f" The step number falls at {where} or more: this is of the longest start, the others are left out."
    usual = say(text, median)
    usual = Sentence(usual.template, usual.facts, (rates.unit,))
    found = [each for each in (_level(profile, rates) or _drift(profile, rates), _recurring(profile, rates)) if each]
    return symptom(usual, *found) if found else clean(usual)


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"


@dataclass(frozen=True)
class ThroughputChange:
    """Another level or a drift: the sentence, the steps with the lower throughput, and the kind of its lead."""

    claim: Sentence
    steps: str
    kind: Literal["slower_later", "slower_at_first", "slower_steadily"]


def throughput_change(profile: Profile) -> ThroughputChange | None:
    """Where the throughput is lower than elsewhere, by a noticeable share; None without that."""
    rates = rate_series(profile.run)
    if rates is None:
        return None
    least = profile.thresholds["cause_share_pct"]
    if (claim := _level(profile, rates)) is not None:
        change = rate_change(profile)
        falls = change.after_ms > change.before_ms
        steps = f"from step {change.step} on" if falls else f"until step {change.step}"
        enough = claim.facts[-1].value >= least
        return ThroughputChange(claim, steps, "slower_later" if falls else "slower_at_first") if enough else None
    claim = _drift(profile, rates)
    if claim is None or claim.facts[0].value < least:
        return None
    return ThroughputChange(claim, "towards the end", "slower_steadily")


def _level(profile: Profile, rates: RateSeries) -> Sentence | None:
    """Two levels that hardly overlap, as of step times."""
    change = clear_change(rates.inverse, profile.thresholds["fluctuation_pct"])
    if change is None:
        return None
    falls = change.after_ms > change.before_ms
    levels = [measure(profile, "throughput_level", side=side) for side in ("before", "after")]
    text = (
        f"Throughput ({{n0}}) {'falls' if falls else 'rises'} from {{0}} to {{1}} at step {change.step}: the lower "
        f"one adds {{2}} to the mean step, {EQUAL_STEPS}."
    )
    return say(text, *levels, measure(profile, "throughput_level_cost_pct"), names=(rates.unit,))


def _drift(profile: Profile, rates: RateSeries) -> Sentence | None:
    """A drift that a line describes better than two levels."""
    trend = steady_trend(rates.inverse, profile.thresholds["fluctuation_pct"])
    if trend is None or len(rates.inverse) < LEAST_STEPS:
        return None
    direction = "falls" if trend.total_pct > 0 else "rises"
    text = f"Throughput ({{n0}}) {direction} steadily: one over it drifts by {{0}} from the first step to the last."
    return say(text, measure(profile, "throughput_drift_pct"), names=(rates.unit,))


def _recurring(profile: Profile, rates: RateSeries) -> Sentence | None:
    """Low throughput at one distance, else single steps of it; nothing where not each step is printed."""
    if not rates.every_step:
        return None
    if rate_stalls(profile) is not None:
        facts = [measure(profile, name) for name in ("throughput_stall_period", "throughput_stall_cost_pct")]
        return say(f"It falls for a step every {{0}}, which adds {{1}} to the mean step, {EQUAL_STEPS}.", *facts)
    long = measure(profile, "throughput_long_steps")
    if not long.value:
        return None
    return say("In {0} it is far below the median.", long)
