"""The lead of a run whose steps are longer from some step on, or until one."""

from __future__ import annotations

from tools.analyzers.steps.step_time import levels_claim
from tools.analyzers.steps.throughput import throughput_change
from tools.findings import Sentence
from tools.judgement.drift_lead import BETWEEN_RANKS
from tools.judgement.lead import Candidate, Lead, Place
from tools.knowledge.tables import table
from tools.metrics.recorded.level_change import levels_of, several_levels
from tools.metrics.recorded.series import step_series_of
from tools.metrics.registry import measure
from tools.run.source_clocks import sampled_apart
from tools.views.counters import counter_view
from tools.views.profile import Profile
from tools.views.steps.levels import clear_change
from tools.views.steps.series import RunSeries

AT_LEVELS = "steps at several levels"


def level_lead(profile: Profile, series: RunSeries) -> Lead | None:
    """The longer of two levels of the step time, or those above the shortest of several, as far as they add a
    noticeable share to the mean step."""
    limits = profile.thresholds
    if several_levels(series.whole):
        return _several(profile, series)
    change = clear_change(step_series_of(series.whole), limits["fluctuation_pct"])
    if change is None:
        return None
    longer = change.after_ms > change.before_ms
    cost, share = measure(profile, "series_level_cost_ms"), measure(profile, "series_level_cost_pct")
    if share.value < limits["cause_share_pct"]:
        return None
    sides = ("after", "before") if longer else ("before", "after")
    levels = tuple(measure(profile, "series_level_ms", side=side) for side in sides)
    steps = f"{'from' if longer else 'until'} step {series.whole.first_of(change.step)}{' on' if longer else ''}"
    text = f"{steps.capitalize()} a step takes {{0}} instead of {{1}}, which adds {{2}} to the mean step ({{3}})."
    candidates, decide_by = of_change(profile, "slower_later" if longer else "slower_at_first")
    place = Place("step", series.ranks, steps)
    claim = Sentence(text, (*levels, cost, share))
    return Lead(place, cost.value, share.value, claim, candidates, decide_by, loss=f"longer steps {steps}")


def _several(profile: Profile, series: RunSeries) -> Lead | None:
    cost, share = measure(profile, "series_plateaus_cost_ms"), measure(profile, "series_plateaus_cost_pct")
    if share.value < profile.thresholds["cause_share_pct"]:
        return None
    levels, claim = levels_of(profile), levels_claim(profile)
    at = len(claim.facts)
    text = f"{claim.template} What is above the shortest of these adds {{{at}}} to the mean step ({{{at + 1}}})."
    candidates, decide_by = of_change(profile, "at_levels")
    place = Place("step", series.ranks, f"at {len(levels)} levels")
    claim = Sentence(text, (*claim.facts, cost, share))
    return Lead(place, cost.value, share.value, claim, candidates, decide_by, loss=AT_LEVELS)


def throughput_lead(profile: Profile) -> tuple[Lead, ...]:
    """The lead of an output that states throughput and no time: a lower level or a fall; its size in ms is open (0)."""
    found = throughput_change(profile)
    if found is None:
        return ()
    candidates, decide_by = of_change(profile, found.kind)
    place = Place("step", profile.rank_numbers, found.steps)
    return (Lead(place, 0.0, 0.0, found.claim, candidates, decide_by),)


def of_change(profile: Profile, kind: str) -> tuple[tuple[Candidate, ...], str]:
    """The candidates of a change during the run, and what decides."""
    entry = table("leads")[kind]
    candidates = tuple(
        Candidate(each["cause"], each["likelihood"], each["why"])
        for each in entry["candidates"]
        if len(profile.rank_numbers) > 1 or each["cause"] not in BETWEEN_RANKS
    )
    way = entry["decide_by"][-1]
    known = "do" if profile.accelerated else "on_host"
    known = "sampled" if _clocks_sampled(profile) else known
    return candidates, way.get(known, way["do"])


def _clocks_sampled(profile: Profile) -> bool:
    """Whether the run holds samples of its devices' clocks, which nobody has to ask for again."""
    view = counter_view(profile)
    apart = sampled_apart(profile.run)
    return view is not None and any(
        each.has("device_clock_mhz") and int(each.table["file"].iloc[0]) not in apart for each in view.devices.values()
    )
