"""Leads: what is localised and large, but not explained. Where it is, what would look like it, and what decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tools.findings import Finding, Sentence
from tools.intervals import intersect, length, union
from tools.judgement.lead import Candidate, Lead, Place, candidates_of
from tools.judgement.pause_leads import EXPLAINED, pause_leads, with_waiting
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.unobserved import unobserved
from tools.judgement.unseen import COUNTED, DEVICE_ALONE, NO_STEPS_SEEN, device_work_missing, host_missing, host_too
from tools.judgement.verdict import (
    EXPLAINING,
    MARKED_STEPS,
    NO_CAUSE,
    UNSEEN_HOST,
    Judgement,
    families,
    part_pct,
    unexplained_parts,
    worth_pct,
)
from tools.knowledge.hypothesis_tests import tests_of
from tools.metrics.host.pauses import places
from tools.metrics.registry import measure
from tools.metrics.step_modes import difference
from tools.run.events import EventKind
from tools.views.communication.collectives import main_group
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.steps.coarse import step_series
from tools.views.steps.modes import common_steps, step_modes, steps_text
from tools.whatif.change import Scale

MOST = 3  # leads of one diagnosis
UNPRICED = 0  # the place of a cause that is not listed as its cost is not known
NOT_OBSERVED = (UNSEEN_HOST, DEVICE_ALONE, NO_STEPS_SEEN)  # a cause that is small is no lead next to these


def leads(
    profile: Profile,
    causes: Sequence[RankedCause],
    judged: Judgement,
    open_places: Sequence[RankedCause] = (),
    unpriced: Sequence[RankedCause] = (),
) -> tuple[Lead, ...]:
    """The largest leads, largest first; at least one where the verdict is inconclusive and a trace was read.

    ``unpriced``: what was found and whose cost is not known.
    """
    if not profile.traced:
        return ()
    if judged.verdict == "inconclusive" and device_work_missing(profile):
        return (_without_cause(profile, judged),)  # what the host waits for is not known
    limits = profile.thresholds
    sure = [each for each in causes if each.finding.confidence >= limits["confidence"]]
    pauses = [] if judged.why == COUNTED else pause_leads(profile, sure)
    paused, still_open = with_waiting(profile, pauses, open_places)
    found = [*paused, *_late(profile, sure, still_open)]
    found += _parts(profile, causes, unpriced, sure, found)
    found += [replace(_hypothesis(profile, each), impact_ms=0.0, impact_pct=0.0) for each in unpriced]
    found += [each for each in _uneven(profile, sure) if all(each.place.part != other.place.part for other in found)]
    if judged.verdict == "inconclusive" and not found:
        large = causes and (judged.why not in NOT_OBSERVED or causes[0].impact_pct >= limits["cause_share_pct"])
        found = [_hypothesis(profile, causes[0]) if large else _without_cause(profile, judged)]
    return tuple(sorted(found, key=lambda each: -each.impact_pct)[:MOST])


def _parts(
    profile: Profile,
    causes: Sequence[RankedCause],
    unpriced: Sequence[RankedCause],
    sure: Sequence[RankedCause],
    found: Sequence[Lead],
) -> list[Lead]:
    """Large parts of the step for which no well-supported cause accounts.

    Not the host where its pauses are leads, nor waiting for a rank that a cause or another lead makes late.
    """
    chosen = []
    for part in unexplained_parts(profile, sure):
        if part == "host" and any(lead.place.part == "host" for lead in found):
            continue
        own = {rank: measure(profile, "part_ms", part=part, rank=rank).value for rank in profile.run.rank_numbers}
        left = dict(own)
        if part == "exposed_communication" and len(own) > 1:
            left = {rank: own_ms - _waiting_explained_ms(profile, rank, sure, found) for rank, own_ms in own.items()}
        rank = max(left, key=lambda each: left[each])
        if left[rank] >= (1.0 - EXPLAINED) * own[rank]:
            seen = (*causes, *unpriced)
            at = _doubtful(seen, sure, part, rank, own[rank])
            doubtful = None if at is None else (at if at <= len(causes) else UNPRICED, seen[at - 1])
            chosen.append(_of_part(profile, part, rank, doubtful))
    return chosen


def _doubtful(
    causes: Sequence[RankedCause], sure: Sequence[RankedCause], part: str, rank: int, part_ms: float
) -> int | None:
    """The place, from 1, of the first cause of low confidence that accounts for most of the part on the rank."""
    for place, each in enumerate(causes, start=1):
        here = families(each) & set(EXPLAINING[part]) and rank in (each.finding.ranks or (rank,))
        if each not in sure and here and EXPLAINED * part_ms <= each.impact_ms:
            return place
    return None


def _waiting_explained_ms(profile: Profile, rank: int, sure: Sequence[RankedCause], found: Sequence[Lead]) -> float:
    """Of the rank's exposed waiting per step, what causes and leads of other ranks alone account for."""
    elsewhere = [each.impact_ms for each in sure if each.finding.ranks and rank not in each.finding.ranks]
    elsewhere += [each.impact_ms for each in found if rank not in each.place.ranks]
    return min(sum(elsewhere), measure(profile, "exposed_wait_ms", rank=rank).value)


def _uneven(profile: Profile, sure: Sequence[RankedCause]) -> list[Lead]:
    """A group of longer steps that compute longer, where no well-supported cause accounts for what they add."""
    found = []
    for mode in range(2, len(step_modes(profile)) + 1):
        at, cost = difference(profile, mode), measure(profile, "step_mode_cost_ms", mode=mode)
        share = 100.0 * cost.value / profile.mean_step_ms
        if at.part != "compute" or share < profile.thresholds["cause_share_pct"]:
            continue
        explained = 100.0 * _of_longer_ms(profile, mode, at.rank, sure) / profile.mean_step_ms
        if explained >= EXPLAINED * share or share - explained < profile.thresholds["cause_share_pct"]:
            continue
        group = step_modes(profile)[mode - 1]
        steps = steps_text(group.steps, step_series(profile).numbers.tolist())
        length = measure(profile, "step_mode_ms", mode=mode)
        named = ", most of it in {n0}" if at.name else ""
        text = f"Some steps ({steps}) take {{0}}, which adds {{1}} to the mean step: rank {at.rank} computes longer"
        claim = Sentence(f"{text}{named}.", (length, cost), (at.name,) if at.name else ())
        candidates, decide_by = candidates_of(profile, "uneven_compute", at.rank)
        loss = f"longer steps ({steps})"
        found.append(
            Lead(Place(at.part, (at.rank,), steps), cost.value, share, claim, candidates, decide_by, loss=loss)
        )
    return found


def _of_longer_ms(profile: Profile, mode: int, rank: int, sure: Sequence[RankedCause]) -> float:
    """Of what a group of longer steps adds to the mean step the part that goes with these causes, ms.

    What a cause changes in the trace counts as far as it takes more from these steps than from the shortest; all that
    a cause is worth counts where it has no place in the trace, for it may be in them alone.
    """
    groups, common = step_modes(profile), len(common_steps(profile))
    taken_ms = 0.0
    for each in sure:
        parts = [part for part in each.finding.change if isinstance(part, Scale)]
        if len(parts) < max(1, len(each.finding.change)):
            taken_ms += worth_pct(profile, each) / 100.0 * profile.mean_step_ms
            continue
        longer, shortest = (
            _taken_each_ms(profile, rank, group.steps, parts) for group in (groups[mode - 1], groups[0])
        )
        taken_ms += max(longer - shortest, 0.0) * len(groups[mode - 1].steps) / common
    return taken_ms


def _taken_each_ms(profile: Profile, rank: int, steps: Sequence[int], parts: Sequence[Scale]) -> float:
    """What these changes take from a step of the group on the rank, ms."""
    spans = [profile.rank(rank).rank.step(number) for number in steps]
    windows = np.array([[each.start_ns, each.end_ns] for each in spans], dtype=np.int64)
    taken = sum((1.0 - each.factor) * length(intersect(each.intervals, windows)) for each in parts if each.rank == rank)
    return taken / 1e6 / len(steps)


def _late(profile: Profile, sure: Sequence[RankedCause], open_places: Sequence[RankedCause]) -> list[Lead]:
    """Ranks that the others wait for, where neither a well-supported cause nor a recorded one delays them."""
    found = []
    for each in open_places:
        finding, explaining = each.finding, {cause.finding.cause for cause in sure}
        if each.impact_pct < profile.thresholds["cause_share_pct"] or explaining & set(finding.symptom_of):
            continue
        candidates, decide_by = candidates_of(profile, finding.hints["open"], finding.ranks[0])
        steps = steps_text(finding.steps, profile.rank(finding.ranks[0]).steps["number"].tolist())
        part = finding.hints.get("part") or "exposed_communication"
        between = _longest_pause(profile, finding.ranks[0]) if part == "host" else None
        place = Place(part, finding.ranks, steps, between, group=main_group(profile, finding.ranks[0]))
        found.append(Lead(place, each.impact_ms, each.impact_pct, finding.claim, candidates, decide_by))
    return found


def _longest_pause(profile: Profile, rank: int) -> tuple[str, str] | None:
    """The operators around the pauses in which the rank's host spends most time."""
    known = places(profile, rank)
    return None if known.empty else (str(known["before"].iloc[0]), str(known["after"].iloc[0]))


def _of_part(profile: Profile, part: str, rank: int, doubtful: tuple[int, RankedCause] | None = None) -> Lead:
    """The part on a rank; ``doubtful``: the cause of low confidence that accounts for most of it, and its place or
    ``UNPRICED``."""
    cost, share = (measure(profile, name, part=part, rank=rank) for name in ("part_ms", "part_pct"))
    end = NO_CAUSE
    if doubtful is not None and doubtful[0] != UNPRICED:
        end = f"cause {doubtful[0]}, of low confidence, would account for most of it"
    text = f"{PARTS[part]} takes {{0}} of a step of rank {rank} ({{1}}), and {end}."
    if part == "host" and host_missing(profile, rank):
        text = f"The device of rank {rank} is idle for {{0}} ({{1}}), and nothing of the host is recorded."
        place = Place(part, (rank,), "every step")
        return Lead(place, cost.value, share.value, Sentence(text, (cost, share)), (), host_too(profile))
    if part == "idle" and _before_recorded_work(profile.rank(rank)):
        text = (
            f"{PARTS[part]} takes {{0}} of the recording of rank {rank} ({{1}}), most of it before the first recorded"
        )
        text += " work of a stream begins: the device may still have run what was launched before the recording."
        place = Place(part, (rank,), "every step")
        return Lead(place, cost.value, share.value, Sentence(text, (cost, share)), (), MARKED_STEPS)
    names = _host_waits(profile.rank(rank)) if part == "idle" else ()
    if names:
        places = " inside ".join(PLACES[: len(names)])
        text = f"{text.removesuffix('.')}; in the longest stretch of it the host waits in {places}."
    claim = Sentence(text, (cost, share), names)
    candidates, decide_by = candidates_of(profile, part, rank)
    if doubtful is not None:
        candidates = _with_first(doubtful[1], candidates)
    group = main_group(profile, rank) if part == "exposed_communication" else ""
    return Lead(Place(part, (rank,), "every step", group=group), cost.value, share.value, claim, candidates, decide_by)


PLACES = ("{n0}", "{n1}")
WAITED = 0.9  # of a stretch: so much of it one call lasts
MOSTLY = 0.5  # of idle time with queued kernels: then one stretch of it is what happens


def _before_recorded_work(view: RankProfile) -> bool:
    """Whether idle time with queued kernels lies mostly between the launch and the begin of a stream's first recorded
    work. Where no steps are marked, the stream may run then what was launched before the recording, which is not in it.
    """
    launches = view.launches
    if view.rank.step_origin != "window" or launches.empty:
        return False
    first = launches.sort_values("start_ns").groupby("track").head(1)
    work = np.concatenate((view.kernels, view.copies))
    begun = pd.Series(view.start[work]).groupby(view.track[work]).min()
    first = first[first["start_ns"].to_numpy() <= first["track"].map(begun).to_numpy()]
    called, started = (first[name].to_numpy(np.int64) for name in ("call_end_ns", "start_ns"))
    queued = union(called, np.maximum(started, called))
    idle = view.parts.idle
    return bool(length(intersect(idle, queued)) >= MOSTLY * max(length(idle), 1))


def _host_waits(view: RankProfile) -> tuple[str, ...]:
    """The call in which the host waits while the device is idle with queued kernels, and the operator that makes it;
    () where no single stretch is most of that time, or the host goes on meanwhile."""
    idle = view.parts.idle
    if not len(idle):
        return ()
    start, end = (int(each) for each in idle[int((idle[:, 1] - idle[:, 0]).argmax())])
    if end - start < MOSTLY * length(idle):
        return ()
    shared = np.minimum(view.end, end) - np.maximum(view.start, start)
    calls = np.flatnonzero((shared > WAITED * (end - start)) & (view.kind == EventKind.RUNTIME))
    if not len(calls):
        return ()
    call = calls[int((view.start[calls]).argmax())]
    within = (view.start <= view.start[call]) & (view.end >= view.end[call]) & (view.track == view.track[call])
    operators = np.flatnonzero(within & (view.kind == EventKind.OPERATOR))
    return tuple(view.names(np.array([call, *operators[-1:]], dtype=np.int64)))


def _with_first(cause: RankedCause, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """The cause with its confidence before the others, which are less likely and share what is left of 1."""
    finding = cause.finding
    confidence = round(finding.confidence, 2)
    others = [each for each in candidates if each.cause != finding.cause]
    rest = sum(each.likelihood for each in others) or 1.0
    most = max((each.likelihood for each in others), default=1.0)
    left = min(1.0, (1.0 - confidence) / rest, confidence / most)
    why = "the checks found it, with low confidence"
    first = Candidate(finding.cause, confidence, why, finding.mechanism)
    return (first, *(replace(each, likelihood=round(left * each.likelihood, 2)) for each in others))


def _hypothesis(profile: Profile, cause: RankedCause) -> Lead:
    """The largest cause of an inconclusive verdict, as a lead: what was found, and what would refute it."""
    finding = cause.finding
    possible = [part for part, explaining in EXPLAINING.items() if families(cause) & set(explaining)]
    part = max(possible, key=lambda each: part_pct(profile, each), default="compute")
    numbers = profile.rank(profile.run.rank_numbers[0]).steps["number"].tolist()
    steps = steps_text(finding.steps, numbers) if finding.steps else "every step"
    why = "the largest of what was found, but not well supported"
    place = Place(part, finding.ranks, steps, frame=finding.hints.get("where", ""))
    candidate = Candidate(finding.cause, round(finding.confidence, 2), why)
    return Lead(place, cause.impact_ms, cause.impact_pct, finding.claim, (candidate,), _decided_by(profile, finding))


def _decided_by(profile: Profile, finding: Finding) -> str:
    """What decides on a hypothesis: the monitor where it is missing and records this, else what would disprove it."""
    tests = tests_of(finding.cause)
    if tests.source == "monitor" and profile.host_records is None:
        return tests.record
    return f"a run that would disprove it: {finding.disproved_by}" if finding.disproved_by else "more recorded steps"


def _without_cause(profile: Profile, judged: Judgement) -> Lead:
    """The largest part other than computation where much of the step is not computation, else what was not observed."""
    missing = unobserved(profile, judged)
    if missing is not None:
        return missing
    part = max(EXPLAINING, key=lambda each: part_pct(profile, each))
    rank = max(profile.run.rank_numbers, key=lambda each: measure(profile, "part_pct", part=part, rank=each).value)
    return _of_part(profile, part, rank)


PARTS = {
    "exposed_communication": "Exposed communication",
    "exposed_memcpy": "Copying",
    "data_wait": "Waiting for data",
    "host": "Host time",
    "idle": "Idle time with queued kernels",
    "compute": "Computation",
}
