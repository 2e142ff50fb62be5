"""Losses that the series of step times shows and that are no part of the causes: next to a problem they stay visible.

A longer level, steady growth, stalls in which the thread computes, single long steps. A loss is part of a cause where
most of it goes with the time that the records attribute to the cause in each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.findings import Sentence
from tools.judgement.drift_lead import drift_lead
from tools.judgement.lead import EVERY_STEP, Lead, Place, candidates_of
from tools.judgement.level_lead import level_lead
from tools.judgement.pause_leads import EXPLAINED
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.record_leads import open_lead
from tools.metrics.recorded.level_change import level_change, several_levels
from tools.metrics.recorded.long_steps import single_long_ms
from tools.metrics.recorded.series import rank_stalls, step_series_of, step_weights
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.steps.levels import level_cost_ms
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import PERIOD_STEPS, Stalls, StepSeries

# Columns of the records that hold the time which causes of a family take from a step.
OF_FAMILY = {"io": "data_wait_ms", "communication": "waiting_ms"}
OF_CAUSE = {"garbage_collection": "gc_ms", "straggler": "waiting_ms", "data_skew": "waiting_ms"}
AT_INTERVALS = ("checkpoint_stall", "evaluation_stall")
NOT_EVEN = (*AT_INTERVALS, "operator_compilation", "garbage_collection")  # they make some steps long, or the first ones
COMPUTED = (
    "Every {0} a step takes {1} longer than usual, of which the training thread computes for {2}; that adds {3} to the"
    " mean step."
)
SINGLE = (
    "{0} of the recorded ones are far longer than the steps around them, by {1} on average, which adds {2} to the mean"
    " step ({3})."
)
UNKNOWN = "Whether cause %s makes them long is not recorded."

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Loss:
    """A lead and its cost in ms as a function of the step times that are left without the causes."""

    lead: Lead
    left_ms: Callable[[Values], float]
    of: RunSeries
    lasting: bool = True  # of a whole stretch of the run, and not of steps here and there


def series_losses(
    profile: Profile, causes: Sequence[RankedCause], open_places: Sequence[RankedCause] = ()
) -> tuple[Lead, ...]:
    """The losses of the series as leads, largest first, each without what well-supported causes account for.

    ``open_places`` are those of the ranking; next to a trace they are leads already.
    """
    series = profile.series
    if series is None or not causes:
        return ()
    sure = [(at, each) for at, each in enumerate(causes, 1) if _is_sure(profile, each)]
    found = [_lengthening(profile, series), _computing(profile, series, causes), _single(profile, series)]
    found += [] if profile.traced else [_recurring(profile, series, each) for each in open_places]
    kept = [lead for loss in found if loss is not None and (lead := _without(profile, loss, sure)) is not None]
    return tuple(sorted(kept, key=lambda each: -each.impact_pct))


def _is_sure(profile: Profile, cause: RankedCause) -> bool:
    return cause.finding.confidence >= profile.thresholds["confidence"]


def _without(profile: Profile, loss: _Loss, sure: Sequence[tuple[int, RankedCause]]) -> Lead | None:
    """The lead, naming causes whose time in single steps is not recorded; None where the others are most of it, or
    where one that is not recorded in single steps may be all of it."""
    rank = loss.of.slowest_rank
    parts = {at: _taken_ms(profile, loss, rank, cause) for at, cause in sure}
    walls = step_series_of(loss.of, rank).ms
    left = walls - sum((part for part in parts.values() if part is not None), np.zeros(len(walls)))
    left_ms = loss.left_ms(left)
    noted_ms = profile.thresholds["cause_share_pct"] / 100.0 * float(walls.mean())
    if left_ms < max(noted_ms, (1.0 - EXPLAINED) * loss.lead.impact_ms):
        return None
    unseen = [(at, cause) for at, cause in sure if parts[at] is None]
    if any(_in_some_steps(profile, cause) or not (loss.lasting or _even(cause)) for _, cause in unseen):
        return None
    if not unseen:
        return loss.lead
    claim, which = loss.lead.claim, " or ".join(str(at) for at, _ in unseen)
    claim = replace(claim, template=f"{claim.template} {UNKNOWN % which}")
    return replace(loss.lead, claim=claim, loss=f"{loss.lead.loss} (perhaps part of cause {which})")


def _even(cause: RankedCause) -> bool:
    """Return whether a cause takes as much from every step; waits and contention come and go."""
    return cause.finding.family == "computation"


def _in_some_steps(profile: Profile, cause: RankedCause) -> bool:
    """Return whether a cause makes some steps longer than others by its nature or by what was found of it."""
    steps, finding = len(profile.step_ms) if profile.traced else 0, cause.finding
    return finding.cause in NOT_EVEN or 0 < len(finding.steps) < steps


def _taken_ms(profile: Profile, loss: _Loss, rank: int, cause: RankedCause) -> Values | None:
    """The time that the cause takes from each step of the rank, in order, where another rank waits as long or longer
    that one's; None where no record shows it."""
    finding, own = cause.finding, loss.of.of(rank)
    if finding.cause == "cpu_contention":
        return _waited_for_core_ms(profile, own, rank, single=not loss.lasting)
    if finding.cause in AT_INTERVALS and finding.saving is not None:
        usual_ms = float(own["wall_ms"].median())
        long = own["step"].isin(finding.steps).to_numpy()
        return np.where(long, np.maximum(own["wall_ms"].to_numpy(np.float64) - usual_ms, 0.0), 0.0)
    if "level" in finding.hints:  # these steps are at the longer level
        walls, at_level = own["wall_ms"].to_numpy(np.float64), own["step"].isin(finding.steps).to_numpy(dtype=bool)
        shorter_ms = 0.0 if at_level.all() else float(np.median(walls[~at_level]))
        return np.where(at_level, np.maximum(walls - shorter_ms, 0.0), 0.0)
    column, table = OF_CAUSE.get(finding.cause, OF_FAMILY.get(finding.family, "")), loss.of.usual
    if column not in table or table[column].isna().any() or not table[column].any():
        return None
    # Another rank's pause may reach into a neighbouring step of this one.
    others = table[table["rank"] != rank].groupby("step")[column].max().rolling(3, center=True, min_periods=1).max()
    longest = np.fmax(own[column].to_numpy(np.float64), own["step"].map(others).to_numpy(np.float64))
    return np.asarray(longest, dtype=np.float64)


def _waited_for_core_ms(profile: Profile, own: pd.DataFrame, rank: int, single: bool) -> Values | None:
    """How long the training thread waited for a core in each step, evenly between two samples; None of single steps
    where samples are further apart than these."""
    records = profile.host_records
    if records is None or rank not in records.ranks or "begin_unix_ns" not in own:
        return None
    samples = records.samples(rank)[["unix_ns", "training_run_delay_us"]].dropna()
    if len(samples) < 2:
        return None
    at, waited_us = (samples[name].to_numpy(np.float64) for name in samples)
    if single and float(np.median(np.diff(at))) / 1e6 > float(own["wall_ms"].median()):
        return None
    first, last = (
        np.interp(own[name].to_numpy(np.float64), at, waited_us) for name in ("begin_unix_ns", "end_unix_ns")
    )
    return np.asarray((last - first) / 1e3, dtype=np.float64)


def _lengthening(profile: Profile, series: RunSeries) -> _Loss | None:
    """Changes of level, else steady growth."""
    if (lead := level_lead(profile, series)) is not None:
        numbers = step_series_of(series.whole).numbers
        weights = step_weights(series.whole)
        if levels := several_levels(series.whole):
            parts = [(numbers >= each.first) & (numbers <= each.last) for each in levels]
            return _Loss(lead, lambda ms: _above_least_ms(ms, parts, weights), series.whole)
        change = level_change(profile)
        long = (numbers >= change.step) == (change.after_ms > change.before_ms)
        return _Loss(lead, lambda ms: level_cost_ms(ms, long, weights), series.whole)
    if (lead := drift_lead(profile, series)) is None:
        return None
    numbers = step_series_of(series).numbers

    def grown_ms(ms: Values) -> float:
        trend = StepSeries(numbers, ms).trend()
        return 0.0 if trend is None else trend.total_pct / 200.0 * float(np.median(ms))

    return _Loss(lead, grown_ms, series)


def _above_least_ms(ms: Values, levels: Sequence[NDArray[np.bool_]], weights: Values) -> float:
    """What steps at longer levels than the shortest one add to the mean step."""
    medians = [float(np.median(ms[each])) for each in levels]
    held = [float(weights[each].sum()) for each in levels]
    return sum((median - min(medians)) * steps for median, steps in zip(medians, held, strict=True)) / sum(held)


def _computing(profile: Profile, series: RunSeries, causes: Sequence[RankedCause]) -> _Loss | None:
    """Stalls at one distance in which the training thread computes, where no cause is what comes at intervals."""
    if series.unseen(PERIOD_STEPS) or any(each.finding.cause in AT_INTERVALS for each in causes):
        return None
    rank = series.slowest_rank
    stalls = rank_stalls(profile).get(rank)
    if stalls is None:
        return None
    try:
        ran = measure(profile, "stall_running_pct", rank=rank)
    except UsageError:
        return None
    cost = measure(profile, "stall_cost_ms", rank=rank)
    if ran.value < 100.0 * EXPLAINED:
        return None
    facts = (measure(profile, f"stall_{name}", rank=rank) for name in ("period_steps", "excess_ms"))
    candidates, decide_by = candidates_of(profile, "computing_steps", rank)
    place = Place("compute", (rank,), f"every {stalls.period} steps")
    claim = Sentence(COMPUTED, (*facts, ran, cost))
    share_pct = 100.0 * cost.value / series.mean_ms
    lead = Lead(place, cost.value, share_pct, claim, candidates, decide_by, loss=_at_distance(stalls))
    return _of_stalls(lead, stalls, series)


def _recurring(profile: Profile, series: RunSeries, place: RankedCause) -> _Loss | None:
    """Stalls at one distance of which only the length is recorded."""
    stalls = rank_stalls(profile).get(series.slowest_rank)
    if stalls is None:
        return None
    return _of_stalls(open_lead(profile, series, place, loss=_at_distance(stalls)), stalls, series)


def _at_distance(stalls: Stalls) -> str:
    return f"long steps every {stalls.period} steps"


def _of_stalls(lead: Lead, stalls: Stalls, series: RunSeries) -> _Loss:
    rows = list(stalls.summed)
    return _Loss(lead, lambda ms: float((ms[rows] - np.median(ms)).sum()) / len(ms), series)


def _single(profile: Profile, series: RunSeries) -> _Loss | None:
    """Single long steps, not at one distance."""
    try:
        excess = single_long_ms(profile)
    except UsageError:
        return None
    if not excess.any():
        return None
    names = ("single_long_steps", "single_long_excess_ms", "single_long_cost_ms", "single_long_cost_pct")
    facts = tuple(measure(profile, name) for name in names)
    rank, count = series.slowest_rank, int(facts[0].value)
    candidates, decide_by = candidates_of(profile, "single_long_steps", rank)
    place = Place("step", (rank,), f"{count} of {len(excess)} steps")
    loss = "single long steps"
    cost, share = facts[2:]
    lead = Lead(place, cost.value, share.value, Sentence(SINGLE, facts), candidates, decide_by, loss=loss)
    rows = excess > 0.0
    return _Loss(lead, lambda ms: float((ms[rows] - np.median(ms)).sum()) / len(ms), series, lasting=False)


def joined(leads: Sequence[Lead], losses: Sequence[Lead], most: int) -> tuple[Lead, ...]:
    """The leads with the losses behind them, as far as no lead is about the same steps or some of them only."""
    known = {each.loss for each in leads if each.loss}
    partial = any(each.place.steps != EVERY_STEP for each in leads)
    new = [each for each in losses if each.loss not in known and not (partial and each.place.part == "compute")]
    return (*leads, *new)[:most]
