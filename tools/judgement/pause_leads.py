"""Leads on pauses of the host that no Python frame names: one for each rank, place and group of steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tools.findings import Sentence
from tools.intervals import IntervalSet, intersect, length
from tools.judgement.lead import Lead, Place, candidates_of
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.verdict import families, worth_pct
from tools.metrics.host.pauses import STEP_BEGIN, STEP_END, at_place, cover, covering, pause_groups, places
from tools.metrics.registry import measure
from tools.run.events import HOST_WORK, EventKind
from tools.views.host.batch_making import makes_batch
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.steps.modes import steps_text
from tools.whatif.change import Scale

EXPLAINED = 0.5  # of a lead: with so much accounted for by a well-supported cause it is none
HOST_FAMILIES = frozenset({"cpu", "io", "memory", "storage"})  # of causes that show as pauses of the host
EVERY_STEP = "every step"
BACKWARD = re.compile(r"(?i)backward")
BACKWARD_NODE = re.compile(r"Backward\d*\Z|_backward\b")  # gradients are added up on any thread
STILL = 0.1  # of a pause: so much of it may something be recorded where nothing at all is said to be
WHOLE_STEPS = "a recording of whole steps: let the profiler run to the end of the last one"
ALL_THREADS = "a trace of all threads of the process, with the device's work"


@dataclass(frozen=True)
class _Pause:
    """A pause at the n-th place of a rank in one group of steps; ``rare``: only in some of the place's steps."""

    rank: int
    place: int
    group: int
    between: tuple[str, str]
    steps: str
    rare: bool
    share_pct: float


def pause_leads(profile: Profile, sure: Sequence[RankedCause]) -> list[Lead]:
    """Noticeable pauses, one lead for each place and group of steps, on the rank where it is longest."""
    longest: dict[tuple[tuple[str, str], str], _Pause] = {}
    sharing: dict[tuple[tuple[str, str], str], list[int]] = {}
    for view in profile.ranks:
        rank = view.rank.rank
        if covering(profile, rank).framed or not np.isin(view.kind, HOST_WORK).any():
            continue
        for each in _pauses(profile, rank):
            if _accounted_pct(profile, sure, each) >= EXPLAINED * each.share_pct:
                continue
            key = each.between, each.steps
            sharing.setdefault(key, []).append(rank)
            if key not in longest or each.share_pct > longest[key].share_pct:
                longest[key] = each
    return [_lead(profile, each, tuple(sharing[key])) for key, each in longest.items()]


def _pauses(profile: Profile, rank: int) -> list[_Pause]:
    """The rank's noticeable pauses. A group of steps is told apart where its pause is noticeable by itself."""
    found, least = [], profile.thresholds["cause_share_pct"]
    numbers = profile.rank(rank).steps["number"].tolist()
    for place, (before, after, _) in enumerate(places(profile, rank).itertuples(index=False, name=None), start=1):
        if measure(profile, "host_pause_pct", rank=rank, place=place).value < least:
            break  # places come longest first
        groups = dict(enumerate(pause_groups(profile, rank, place), start=1))
        shares = {each: measure(profile, "host_pause_pct", rank=rank, place=place, group=each).value for each in groups}
        apart = [each for each in groups if shares[each] >= least] if len(groups) > 1 else []
        for group in apart or [0]:
            held = groups[group] if group else sorted(set(at_place(profile, rank, place)["step"]))
            steps = steps_text(held, numbers)
            rare = group > 1 if group else steps != EVERY_STEP
            share = shares[group] if group else sum(shares.values())
            found.append(_Pause(rank, place, group, (before, after), steps, rare, share))
    return found


def _lead(profile: Profile, pause: _Pause, ranks: tuple[int, ...]) -> Lead:
    cost, share, each = (
        measure(profile, name, rank=pause.rank, place=pause.place, group=pause.group)
        for name in ("host_pause_ms", "host_pause_pct", "host_pause_each_ms")
    )
    moments = np.asarray(
        at_place(profile, pause.rank, pause.place, pause.group)[["start_ns", "end_ns"]], dtype=np.int64
    )
    stretch, names = _stretch(*pause.between)
    inside = cover(profile.rank(pause.rank), moments).name
    waits = _unrecorded_backward(profile.rank(pause.rank), inside)
    if inside:
        stretch, names = f"{stretch}, inside {{n{len(names)}}}", (*names, inside)
    if pause.between[1] == STEP_END and _behind_all(profile.rank(pause.rank), moments):
        text = (
            f"In the step hardly anything is recorded on rank {pause.rank} {stretch}: {{0}} ({{1}}). The recording may"
            " have ended before the step's mark."
        )
        place = Place("host", ranks, pause.steps, pause.between, inside)
        claim = Sentence(text, (cost, share), tuple(each for each in names if each != inside))
        return Lead(place, cost.value, share.value, claim, (), WHOLE_STEPS)
    if waits:
        stretch += ", while the backward pass runs on autograd's thread, which is not recorded"
    if len(profile.rank(pause.rank).steps) == 1:
        text = f"In the only step the host of rank {pause.rank} pauses {stretch}: {{0}} ({{1}})."
        claim = Sentence(text, (cost, share), names)
    else:
        where = f"In {pause.steps} the host of rank {pause.rank} pauses {stretch}"
        claim = Sentence(f"{where}, {{2}} in such a step: {{0}} per step ({{1}}).", (cost, share, each), names)
    first = pause.between[0] == STEP_BEGIN or makes_batch(profile, pause.rank, moments)
    kind = "rare_pause" if pause.rare else "first_pause" if first else "pause"
    candidates, decide_by = candidates_of(profile, kind, pause.rank, each.value)
    if waits:
        candidates, decide_by = (), ALL_THREADS
    place = Place("host", ranks, pause.steps, pause.between, inside)
    return Lead(place, cost.value, share.value, claim, candidates, decide_by)


def _behind_all(view: RankProfile, moments: IntervalSet) -> bool:
    """Whether nearly all of a pause lies behind the last event of any kind but marks: nobody recorded what was then."""
    work = ~np.isin(view.kind, (EventKind.ANNOTATION, EventKind.DEVICE_ANNOTATION, EventKind.OTHER))
    last = int(view.end[work].max(initial=0))
    return len(view.steps) == 1 and max(last - int(moments[:, 0].min()), 0) <= STILL * length(moments)


def _unrecorded_backward(view: RankProfile, inside: str) -> bool:
    """Whether the pause lies in a span of the backward pass, and no node or operator of that pass is recorded."""
    if not BACKWARD.search(inside):
        return False
    work = np.flatnonzero(view.kind == EventKind.OPERATOR)
    return not any(BACKWARD_NODE.search(name) for name in view.distinct_names(work))


def _stretch(before: str, after: str) -> tuple[str, tuple[str, ...]]:
    """Words for the stretch of a step between two operators or its ends, and the names of the operators in them."""
    match before == STEP_BEGIN, after == STEP_END:
        case True, True:
            return f"from {STEP_BEGIN} to its end", ()
        case True, False:
            return f"from {STEP_BEGIN} to {{n0}}", (after,)
        case False, True:
            return f"from {{n0}} to {STEP_END}", (before,)
    return "between {n0} and {n1}", (before, after)


def _accounted_pct(profile: Profile, sure: Sequence[RankedCause], pause: _Pause) -> float:
    """Share of the step that well-supported causes take out of this pause.

    What a cause changes in the trace is compared with the pause itself; a cause known from records alone has no place
    in the trace and counts with what it is worth.
    """
    view, table = profile.rank(pause.rank), at_place(profile, pause.rank, pause.place, pause.group)
    moments = np.asarray(table[["start_ns", "end_ns"]], dtype=np.int64)
    share = 0.0
    for cause in sure:
        finding = cause.finding
        if finding.ranks and pause.rank not in (*finding.ranks, *finding.also_on):
            continue
        if finding.change:
            taken_ns = sum(_taken_ns(each, moments) for each in finding.change if _of_rank(each, pause.rank))
            share += 100.0 * taken_ns / 1e6 / float(view.wall_ms.sum())
        elif families(cause) & HOST_FAMILIES:
            share += worth_pct(profile, cause)
    return share


def _of_rank(change: object, rank: int) -> bool:
    return isinstance(change, Scale) and change.rank == rank


def _taken_ns(change: object, moments: IntervalSet) -> float:
    return (1.0 - change.factor) * length(intersect(change.intervals, moments)) if isinstance(change, Scale) else 0.0


def with_waiting(
    profile: Profile, paused: Sequence[Lead], late: Sequence[RankedCause]
) -> tuple[list[Lead], list[RankedCause]]:
    """The leads on pauses, with the waiting of other ranks that they account for, and the late ranks left over."""
    result, left = list(paused), list[RankedCause]()
    for each in late:
        own = [place for place, lead in enumerate(result) if set(lead.place.ranks) == set(each.finding.ranks)]
        explained = sum(result[place].impact_ms for place in own)
        if each.finding.hints["open"] != "late_pause" or not own or explained < EXPLAINED * each.impact_ms:
            left.append(each)
            continue
        largest = max(own, key=lambda place: result[place].impact_ms)
        result[largest] = _waited_for(profile, result[largest], each)
    return result, left


def _waited_for(profile: Profile, lead: Lead, late: RankedCause) -> Lead:
    """The lead with how long other ranks wait for it; a pause of one rank alone has candidates of its own."""
    claim, waiting = lead.claim, late.finding.claim.facts[0]
    text = f"{claim.template} Other ranks wait {{{len(claim.facts)}}} per step for it."
    said = replace(lead, claim=Sentence(text, (*claim.facts, waiting), claim.names))
    if lead.place.steps != EVERY_STEP or lead.place.between is None or lead.place.between[0] == STEP_BEGIN:
        return said
    each = claim.facts[2 if len(claim.facts) > 2 else 0]  # of the only step its whole pause
    candidates, decide_by = candidates_of(profile, "late_pause", lead.place.ranks[0], each.value)
    return replace(said, candidates=candidates, decide_by=decide_by)
