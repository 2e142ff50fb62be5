"""Ranks what the analyzers found by what removing it would save, counting shared milliseconds once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.analyzers.registry import all_checks
from tools.findings import Check, Finding
from tools.judgement.lead import Lead, in_terms_of_run
from tools.judgement.leads import MOST, leads
from tools.judgement.level_lead import throughput_lead
from tools.judgement.ranked_cause import RankedCause, mostly_start_up
from tools.judgement.record_leads import leads_of_hang, leads_without_steps, record_leads
from tools.judgement.sampled_changes import with_samples
from tools.judgement.series_doubt import doubted
from tools.judgement.series_losses import joined, series_losses
from tools.judgement.stack_places import placed_finding, placed_lead
from tools.judgement.thread_leads import elsewhere_lead
from tools.judgement.unpriced_leads import before_whole, unpriced_leads
from tools.judgement.unseen import device_work_missing
from tools.judgement.verdict import (
    Verdict,
    judge_records,
    judge_steps,
    unexplained_parts,
    with_unfinished,
)
from tools.views.profile import Profile
from tools.whatif.predict import FLOOR_SHARE, STATED_FLOOR_SHARE, Prediction, predict, reach, savings_ms, unchanged

HYPOTHESIS_LEAD = 2.0
NOTED_PCT = 1.0  # a cause below this share of the step is not listed
EXPLAINED_RATIO = 1.15  # up to so much more than what explains it a finding is the same loss, measured elsewhere
EXPLAINING_SHARE = 0.5  # of a hypothesis: a sure cause that is smaller does not explain it
MASKED_RATIO = 1.5  # a cause that saves this much more after the ones removed before it is masked by them


@dataclass(frozen=True, eq=False)
class Ranking:
    """Causes, largest saving first, and the verdict they lead to."""

    causes: tuple[RankedCause, ...]
    below: tuple[RankedCause, ...]  # found, but worth less than NOTED_PCT of the step
    verdict: Verdict
    why: str  # the rule that gave the verdict, a clause without figures
    needs: str = ""  # what to record next so that an inconclusive verdict can be settled
    unexplained: tuple[str, ...] = ()  # large parts of the step that no cause accounts for, largest first
    leads: tuple[Lead, ...] = ()  # localised and not explained, largest first
    steps_verdict: Verdict | None = None  # on the steps alone, where collectives that do not end gave the verdict

    def sure(self, enough: float) -> tuple[RankedCause, ...]:
        """The causes of a problem that are at least so sure, largest saving first."""
        found = self.causes if self.verdict == "problem" else ()
        return tuple(each for each in found if each.finding.confidence >= enough)

    def leading(self, enough: float) -> RankedCause | None:
        """The cause that an answer opens with: a sure one, unless the largest promises ``HYPOTHESIS_LEAD`` times it."""
        sure, largest = self.sure(enough), next(iter(self.causes), None)
        if largest is None or not sure:
            return largest
        promised = max(each.impact_pct * each.finding.confidence for each in sure)
        return largest if largest.impact_pct * largest.finding.confidence > HYPOTHESIS_LEAD * promised else sure[0]


@dataclass(frozen=True, eq=False)
class _Candidate:
    finding: Finding
    check: str
    alone: Prediction | None

    def alone_ms(self, step_ms: float) -> float:
        """The saving alone, of a mean step of that length."""
        return self.finding.impact_ms or 0.0 if self.alone is None else _scaled(self.alone, step_ms)


def ranking(profile: Profile) -> Ranking:
    """The ranking of everything all analyzers find in the run; computed once per profile."""
    return profile.memo("ranking", lambda: rank_causes(profile, all_checks(profile)))


def rank_causes(profile: Profile, checks: Sequence[Check]) -> Ranking:
    """Return the causes by what they save, largest first.

    A replay removes them one after the other, by expected saving, hypotheses (unless they promise ``HYPOTHESIS_LEAD``
    times as much) and findings that another explains last. Each is worth what is left for it then.
    """
    if not profile.measured:
        judged = judge_records(profile, ())
        open_leads = leads_without_steps([finding for check in checks for finding in check.findings], judged)
        open_leads = tuple(
            placed_lead(profile, each) for each in (*elsewhere_lead(profile), *throughput_lead(profile), *open_leads)
        )
        return Ranking((), (), judged.verdict, judged.why, judged.needs, leads=open_leads)
    step_ms = profile.mean_step_ms
    weighed = [
        (placed_finding(profile, doubted(profile, finding)), check.name)
        for check in checks
        for finding in check.findings
    ]
    found = [_Candidate(finding, name, _alone(profile, finding)) for finding, name in weighed]
    basis_ms = _basis_ms(profile, found)
    candidates = _in_order(found, step_ms, profile.thresholds["confidence"])
    ordered = _symptoms_last(candidates, profile)
    worth = zip(ordered, _marginal_ms(profile, ordered), strict=True)
    ranked = [_ranked(each, saved, step_ms, basis_ms) for each, saved in worth]
    listed = [each for each in ranked if each.impact_pct >= NOTED_PCT]
    below = [each for each in ranked if each.impact_pct < NOTED_PCT]
    open_places = [each for each in listed if "open" in each.finding.hints]  # seen where, but not why: leads
    listed = [each for each in listed if "open" not in each.finding.hints]
    explained = (
        tuple(each.finding for each in (*open_places, *below) if cause.finding.cause in each.finding.symptom_of)
        for cause in listed
    )
    causes = tuple(replace(cause, symptoms=own) for cause, own in zip(listed, explained, strict=True))
    if profile.traced and device_work_missing(profile):
        # A replay needs all of the device's work: it says nothing of a step of which that was not recorded.
        causes = tuple(each for each in causes if not each.finding.change)
    # Of a recording without marked steps most may be start-up: what would take it away has no known cost.
    unpriced = tuple(each for each in causes if mostly_start_up(profile.run, each))
    causes = tuple(each for each in causes if each not in unpriced)
    if profile.traced:
        unexplained = () if device_work_missing(profile) else unexplained_parts(profile, causes)
        of_steps = judge_steps(profile, causes, checks, unexplained, open_places)
        judged = with_unfinished(profile, of_steps)
    else:
        unexplained, judged = (), judge_records(profile, causes)
        of_steps = judged
    ordered_causes = _by_saving(causes, profile.thresholds["confidence"], _sharing(profile, causes))
    open_leads = leads(profile, ordered_causes, of_steps, open_places, unpriced)
    open_leads = open_leads if profile.traced else record_leads(profile, ordered_causes, judged, open_places)
    if of_steps.verdict == "problem":
        open_leads = joined(open_leads, series_losses(profile, ordered_causes, open_places), MOST)
    if not profile.traced:
        open_leads = before_whole(open_leads, unpriced_leads(profile, below, checks))
    hung = judged is not of_steps
    if hung:
        open_leads = (*leads_of_hang(checks, judged), *open_leads)
    if not profile.traced:
        open_leads = (*elsewhere_lead(profile), *open_leads)
    localised = judged.open_place or not profile.traced
    open_leads = tuple(with_samples(profile, placed_lead(profile, each)) for each in open_leads)
    deciding = next(
        (lead.decide_by for lead in open_leads if localised and lead.impact_ms and lead.decide_by), judged.needs
    )
    deciding = in_terms_of_run(profile, deciding)
    open_leads = tuple(replace(each, decide_by=in_terms_of_run(profile, each.decide_by)) for each in open_leads)
    return Ranking(
        *(ordered_causes, tuple(below), judged.verdict, judged.why, deciding, unexplained, open_leads),
        steps_verdict=of_steps.verdict if hung else None,
    )


def _sharing(profile: Profile, removed: Sequence[RankedCause]) -> set[tuple[int, int]]:
    """Pairs of causes, by their place in the order of removal, that alone would save some of the same milliseconds.

    A cause that saves less after others than alone shares with those of them without which it would save more.
    """
    pairs = set()
    for at, each in enumerate(removed):
        if each.alone is None or not each.finding.change:
            continue
        recorded_ms, alone_ms = max(each.alone.recorded_ms, 1e-9), each.alone.saving_ms
        if 100.0 * alone_ms / recorded_ms - each.impact_pct < NOTED_PCT:
            continue
        for before, other in enumerate(removed[:at]):
            if other.finding.change and other.alone is not None:
                (joint_ms,) = savings_ms(profile, [(*other.finding.change, *each.finding.change)])
                shared_ms = alone_ms + other.alone.saving_ms - joint_ms
                if 100.0 * shared_ms / recorded_ms >= NOTED_PCT:
                    pairs |= {(before, at), (at, before)}
    return pairs


def _by_saving(removed: Sequence[RankedCause], enough: float, sharing: set[tuple[int, int]]) -> tuple[RankedCause, ...]:
    """The causes, largest saving first, each with the places of those that mask it, and of those it shares with."""
    capped = [_capped(each, removed[:at], enough) for at, each in enumerate(removed)]
    order = sorted(range(len(capped)), key=lambda at: -capped[at].impact_pct)
    places = {at: place for place, at in enumerate(order, start=1)}

    def masking(at: int) -> tuple[int, ...]:
        hidden = capped[at].then_ms > MASKED_RATIO * max(capped[at].impact_ms, 0.01)
        return tuple(sorted(places[before] for before in range(at))) if hidden else ()

    def shared(at: int) -> tuple[int, ...]:
        return tuple(sorted(places[other] for one, other in sharing if one == at))

    return tuple(replace(capped[at], masked_by=masking(at), shared_with=shared(at)) for at in order)


def _capped(cause: RankedCause, before: Sequence[RankedCause], enough: float) -> RankedCause:
    """A cause that another explains is not worth more than that one: within the error of both, or as a hypothesis."""
    explaining = [each for each in before if each.finding.cause in cause.finding.symptom_of]
    most = max((each.impact_pct for each in explaining), default=0.0)
    sure = max((each.impact_pct for each in explaining if each.finding.confidence >= enough), default=0.0)
    if cause.finding.confidence < enough and sure >= EXPLAINING_SHARE * cause.impact_pct:
        most = min(sure, cause.impact_pct)
    elif not most < cause.impact_pct <= EXPLAINED_RATIO * most:
        return cause
    return replace(cause, impact_pct=most, impact_ms=cause.impact_ms * most / max(cause.impact_pct, 1e-9))


def _in_order(candidates: list[_Candidate], step_ms: float, enough: float) -> list[_Candidate]:
    expected = {id(each): each.finding.confidence * each.alone_ms(step_ms) for each in candidates}
    sure = [expected[id(each)] for each in candidates if each.finding.confidence >= enough]
    lead = HYPOTHESIS_LEAD * max(sure, default=0.0)

    def place(each: _Candidate) -> tuple[bool, float, str, str]:
        behind = each.finding.confidence < enough and expected[id(each)] <= lead
        return behind, -expected[id(each)], each.finding.cause, each.check

    return sorted(candidates, key=place)


def _basis_ms(profile: Profile, candidates: Sequence[_Candidate]) -> float:
    """The step that all savings of one list are of: the unprofiled mean where any rests on records, else the traced."""
    savings_of = {each.finding.saving.step_ms for each in candidates if each.finding.saving is not None}
    unprofiled_ms = None if profile.series is None else profile.series.mean_ms
    return unprofiled_ms if unprofiled_ms is not None and unprofiled_ms in savings_of else profile.mean_step_ms


def _ranked(candidate: _Candidate, then_ms: float, step_ms: float, basis_ms: float) -> RankedCause:
    saved, finding = max(min(candidate.alone_ms(step_ms), then_ms), 0.0), candidate.finding
    scale = basis_ms / step_ms if step_ms > 0 else 0.0
    return RankedCause(
        finding=finding,
        check=candidate.check,
        step_ms=basis_ms,
        impact_ms=saved * scale,
        impact_pct=100.0 * saved / step_ms if step_ms > 0 else 0.0,
        then_ms=then_ms * scale,
        alone=candidate.alone,
        method="replay" if finding.change else finding.saving.method if finding.saving else finding.impact_method,
    )


def _alone(profile: Profile, finding: Finding) -> Prediction | None:
    if finding.change:
        return predict(profile, finding.change)
    if finding.saving is None:
        return None
    saving, far = finding.saving, reach(profile, "figure")
    step_ms, recorded_ms = saving.step_ms + saving.outside_ms, saving.step_ms
    stated = saving.resampled_ms is not None or saving.at_most
    floor_ms = (STATED_FLOOR_SHARE if stated else FLOOR_SHARE) * step_ms
    most_ms = saving.saved_ms + far.hopeful * (saving.most_ms - saving.saved_ms)
    least_ms = saving.saved_ms - far.cautious * (saving.saved_ms - saving.least_ms)
    if saving.resampled_ms is not None:
        least_ms, most_ms = min(least_ms, saving.resampled_ms[0]), max(most_ms, saving.resampled_ms[1])
    low_ms = max(step_ms - most_ms - saving.error_ms, floor_ms)
    return Prediction(
        step_ms_before=step_ms,
        step_ms_after=max(step_ms - saving.saved_ms, floor_ms),
        low_ms=low_ms if saving.bound_ms is None else max(low_ms, step_ms - saving.bound_ms),
        high_ms=max(step_ms - least_ms, floor_ms) + saving.error_ms,
        steps=finding.steps,
        recorded_ms=recorded_ms,
        error_ms=saving.error_ms,
        at_most=saving.at_most,
    )


def _symptoms_last(candidates: list[_Candidate], profile: Profile) -> list[_Candidate]:
    """Keep the order, but move each explained finding after the last one that explains it."""
    result: list[_Candidate] = []
    waiting = list(candidates)
    while waiting:
        free = [each for each in waiting if not _explained(each, waiting, profile)]
        chosen = (free or waiting)[0]
        result.append(chosen)
        waiting.remove(chosen)
    return result


def _explained(explained: _Candidate, waiting: Sequence[_Candidate], profile: Profile) -> bool:
    finding, step_ms = explained.finding, profile.mean_step_ms
    sure = min(finding.confidence, profile.thresholds["confidence"])
    worth_ms = profile.thresholds["explained_part_pct"] / 100.0 * explained.alone_ms(step_ms)
    others = {
        each.finding.cause for each in waiting if each.finding.confidence >= sure and each.alone_ms(step_ms) >= worth_ms
    }
    return bool(set(finding.symptom_of) & (others - {finding.cause}))


def _marginal_ms(profile: Profile, ordered: list[_Candidate]) -> list[float]:
    """Return what each candidate saves after the ones before it, never more than is left of the step.

    What a saving from records shares with others no replay sees: once one rests on records, causes in communication
    together get no more than the exposed communication.
    """
    step_ms = profile.mean_step_ms
    changes = [each.finding.change for each in ordered if each.finding.change]
    replayed_ms = iter(savings_ms(profile, changes) if profile.traced else [])
    scale = step_ms / max(unchanged(profile).graph.window.recorded_step_ms, 1e-9) if changes else 0.0
    recorded = [each.alone_ms(step_ms) for each in ordered if _in_transfer(each) and each.finding.saving is not None]
    left, from_records, result = step_ms, False, list[float]()
    transfer_left = math.inf  # where no trace shows how much communication is exposed
    if profile.traced:
        exposed_ns = profile.breakdown.groupby("rank")["exposed_communication_ns"].mean()
        transfer_left = max(float(exposed_ns.max()) / 1e6, *recorded, 0.0)
    for each in ordered:
        saved = scale * next(replayed_ms) if each.finding.change else each.alone_ms(step_ms)
        saved = min(max(saved, 0.0), left)
        if _in_transfer(each):
            from_records = from_records or each.finding.saving is not None
            saved = min(saved, transfer_left) if from_records else saved
            transfer_left = max(transfer_left - saved, 0.0)
        left -= saved
        result.append(saved)
    return result


def _in_transfer(candidate: _Candidate) -> bool:
    return candidate.finding.family == "communication" or candidate.finding.cause == "poor_overlap"


def _scaled(prediction: Prediction, step_ms: float) -> float:
    return prediction.saving_ms * step_ms / prediction.recorded_ms if prediction.recorded_ms > 0 else 0.0
