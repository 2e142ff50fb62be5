"""The lead of a run whose steps get steadily longer."""

from __future__ import annotations

from tools.findings import Sentence
from tools.judgement.lead import Lead, Place, candidates_of
from tools.metrics.recorded.series import step_series_of
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.steps.levels import steady_trend
from tools.views.steps.series import RunSeries
from tools.views.steps.shape import LEAST_STEPS

GROWS = (
    "Steps get steadily longer: the last takes {0} and the first {1} along the line through all, {2} more in 100 steps,"
    " which adds {3} to the mean step ({4})."
)
TOWARDS_END = "towards the end"
# They cannot be the cause where one rank waits for no other and has no link to it.
BETWEEN_RANKS = ("straggler", "slow_link", "data_skew")


def drift_lead(profile: Profile, series: RunSeries) -> Lead | None:
    """Growth that a line describes better than a change of level, where it adds a noticeable share to the mean step."""
    steps, limits = step_series_of(series), profile.thresholds
    trend = steady_trend(steps, limits["fluctuation_pct"])
    if trend is None or len(steps) < LEAST_STEPS or trend.total_pct < 0:
        return None
    cost, share = measure(profile, "series_growth_cost_ms"), measure(profile, "series_growth_cost_pct")
    if share.value < limits["cause_share_pct"]:
        return None
    ends = (measure(profile, "series_line_ms", end=end) for end in ("last", "first"))
    claim = Sentence(GROWS, (*ends, measure(profile, "series_slope_ms"), cost, share))
    candidates, decide_by = candidates_of(profile, "slower_steadily", series.slowest_rank)
    if len(profile.rank_numbers) < 2:
        candidates = tuple(each for each in candidates if each.cause not in BETWEEN_RANKS)
    place = Place("step", series.ranks, TOWARDS_END)
    return Lead(place, cost.value, share.value, claim, candidates, decide_by, loss="steps that get steadily longer")
