"""Leads: what is localised and large, but not explained. Where it is, what would look like it, and what decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tools.findings import Sentence
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.verdict import EXPLAINING, Judgement, families, part_pct, unexplained_parts, worth_pct
from tools.knowledge.tables import table
from tools.metrics.host.pauses import STEP_BEGIN, STEP_END, at_place, covering, places
from tools.metrics.registry import measure
from tools.metrics.step_modes import difference
from tools.run.events import EventKind
from tools.views.coarse import step_series
from tools.views.collectives import main_group
from tools.views.profile import Profile
from tools.views.step_modes import step_modes, steps_text

MOST = 3  # leads of one diagnosis
EXPLAINED = 0.5  # of a lead: with so much accounted for by a well-supported cause it is none


@dataclass(frozen=True)
class Place:
    """Where the time goes: the part of the step, ranks, which steps, between which operators, frame, group."""

    part: str
    ranks: tuple[int, ...]
    steps: str
    between: tuple[str, str] | None = None
    frame: str = ""
    group: str = ""


@dataclass(frozen=True)
class Candidate:
    """A cause that would look like this; likelihoods of one lead add up to 1 at most."""

    cause: str
    likelihood: float
    why: str


@dataclass(frozen=True)
class Lead:
    """A place, its size per step, the causes that would look like it, and the observation that decides."""

    place: Place
    impact_ms: float
    impact_pct: float
    claim: Sentence
    candidates: tuple[Candidate, ...]
    decide_by: str


def leads(
    profile: Profile, causes: Sequence[RankedCause], judged: Judgement, open_places: Sequence[RankedCause] = ()
) -> tuple[Lead, ...]:
    """The largest leads, largest first; at least one where the verdict is inconclusive and a trace was read."""
    if not profile.traced:
        return ()
    enough = profile.thresholds["confidence"]
    sure = [each for each in causes if each.finding.confidence >= enough]
    paused = _pauses(profile, sure)
    found = [*paused, *_parts(profile, sure, bool(paused)), *_late(profile, sure, open_places)]
    found += [each for each in _uneven(profile, sure) if all(each.place.part != other.place.part for other in found)]
    if judged.verdict == "inconclusive" and not found:
        found = [_hypothesis(profile, causes[0]) if causes else _largest_part(profile)]
    return tuple(sorted(found, key=lambda each: -each.impact_pct)[:MOST])


def _pauses(profile: Profile, sure: Sequence[RankedCause]) -> list[Lead]:
    """Pauses of the host that no Python frame names, one lead for each place, on the rank where it is longest."""
    largest: dict[tuple[str, str], tuple[float, int]] = {}
    sharing: dict[tuple[str, str], list[int]] = {}
    for view in profile.ranks:
        rank = view.rank.rank
        if covering(profile, rank).framed:
            continue
        for before, after, ns in places(profile, rank).itertuples(index=False, name=None):
            share = 100.0 * ns / 1e6 / view.wall_ms.sum()
            if share >= profile.thresholds["cause_share_pct"]:
                sharing.setdefault((before, after), []).append(rank)
                largest[before, after] = max(largest.get((before, after), (0.0, rank)), (share, rank))
    found = []
    for (before, after), (share, rank) in largest.items():
        if _accounted(profile, sure, {"cpu", "io", "memory", "storage"}) < EXPLAINED * share:
            found.append(_pause(profile, before, after, rank, tuple(sharing[before, after])))
    return found


def _pause(profile: Profile, before: str, after: str, rank: int, ranks: tuple[int, ...]) -> Lead:
    known = places(profile, rank)
    number = 1 + int(((known["before"] == before) & (known["after"] == after)).to_numpy().argmax())
    numbers, known_steps = sorted(set(at_place(profile, rank, number)["step"])), profile.rank(rank).steps["number"]
    steps = steps_text(numbers, known_steps.tolist())
    cost, share, each = (
        measure(profile, name, rank=rank, place=number)
        for name in ("host_pause_ms", "host_pause_pct", "host_pause_each_ms")
    )
    stretch, names = _stretch(before, after)
    if len(known_steps) == 1:
        text = f"In the only step the host of rank {rank} pauses {stretch}: {{0}} ({{1}})."
        claim = Sentence(text, (cost, share), names)
    else:
        text = f"In {steps} the host of rank {rank} pauses {stretch}, {{2}} in such a step: {{0}} per step ({{1}})."
        claim = Sentence(text, (cost, share, each), names)
    kind = "rare_pause" if steps != "every step" else "first_pause" if before == STEP_BEGIN else "pause"
    candidates, decide_by = _judged(profile, kind, rank)
    return Lead(Place("host", ranks, steps, (before, after)), cost.value, share.value, claim, candidates, decide_by)


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


def _parts(profile: Profile, sure: Sequence[RankedCause], paused: bool) -> list[Lead]:
    """Large parts of the step for which no well-supported cause accounts; not the host where its pauses are leads."""
    found = []
    for part in unexplained_parts(profile, sure):
        if part == "host" and paused:
            continue
        rank = max(profile.run.rank_numbers, key=lambda each: measure(profile, "part_pct", part=part, rank=each).value)
        found.append(_of_part(profile, part, rank))
    return found


def _uneven(profile: Profile, sure: Sequence[RankedCause]) -> list[Lead]:
    """A group of longer steps that compute longer, where no well-supported cause accounts for what they add."""
    found = []
    for mode in range(2, len(step_modes(profile)) + 1):
        at, cost = difference(profile, mode), measure(profile, "step_mode_cost_ms", mode=mode)
        share = 100.0 * cost.value / profile.mean_step_ms
        if at.part != "compute" or share < profile.thresholds["cause_share_pct"]:
            continue
        if sum(worth_pct(profile, each) for each in sure) >= EXPLAINED * share:
            continue
        group = step_modes(profile)[mode - 1]
        steps = steps_text(group.steps, step_series(profile).numbers.tolist())
        length = measure(profile, "step_mode_ms", mode=mode)
        named = ", most of it in {n0}" if at.name else ""
        text = f"Some steps ({steps}) take {{0}}, which adds {{1}} to the mean step: rank {at.rank} computes longer"
        claim = Sentence(f"{text}{named}.", (length, cost), (at.name,) if at.name else ())
        candidates, decide_by = _judged(profile, "uneven_compute", at.rank)
        found.append(Lead(Place(at.part, (at.rank,), steps), cost.value, share, claim, candidates, decide_by))
    return found


def _late(profile: Profile, sure: Sequence[RankedCause], open_places: Sequence[RankedCause]) -> list[Lead]:
    """Ranks that the others wait for, where neither a well-supported cause nor a recorded one delays them."""
    found = []
    for each in open_places:
        finding, explaining = each.finding, {cause.finding.cause for cause in sure}
        if each.impact_pct < profile.thresholds["cause_share_pct"] or explaining & set(finding.symptom_of):
            continue
        candidates, decide_by = _judged(profile, finding.hints["open"], finding.ranks[0])
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


def _of_part(profile: Profile, part: str, rank: int) -> Lead:
    cost, share = (measure(profile, name, part=part, rank=rank) for name in ("part_ms", "part_pct"))
    text = f"{PARTS[part]} takes {{0}} of a step of rank {rank} ({{1}}), and no cause accounts for it."
    claim = Sentence(text, (cost, share))
    candidates, decide_by = _judged(profile, part, rank)
    group = main_group(profile, rank) if part == "exposed_communication" else ""
    return Lead(Place(part, (rank,), "every step", group=group), cost.value, share.value, claim, candidates, decide_by)


def _hypothesis(profile: Profile, cause: RankedCause) -> Lead:
    """The largest cause of an inconclusive verdict, as a lead: what was found, and what would refute it."""
    finding = cause.finding
    possible = [part for part, explaining in EXPLAINING.items() if families(cause) & set(explaining)]
    part = max(possible, key=lambda each: part_pct(profile, each), default="compute")
    numbers = profile.rank(profile.run.rank_numbers[0]).steps["number"].tolist()
    steps = steps_text(finding.steps, numbers) if finding.steps else "every step"
    why = "the largest of what was found, but not well supported"
    place = Place(part, finding.ranks, steps, frame=finding.hints.get("where", ""))
    decide_by = (
        f"a run that would disprove it: {finding.disproved_by}" if finding.disproved_by else "more recorded steps"
    )
    candidate = Candidate(finding.cause, round(finding.confidence, 2), why)
    return Lead(place, cause.impact_ms, cause.impact_pct, finding.claim, (candidate,), decide_by)


def _largest_part(profile: Profile) -> Lead:
    part = max((*EXPLAINING, "compute"), key=lambda each: part_pct(profile, each))
    rank = profile.run.rank_numbers[0]
    return _of_part(profile, part, rank)


def _accounted(profile: Profile, sure: Sequence[RankedCause], explaining: set[str]) -> float:
    return sum(worth_pct(profile, each) for each in sure if families(each) & explaining)


PARTS = {
    "exposed_communication": "Exposed communication",
    "exposed_memcpy": "Copying",
    "data_wait": "Waiting for data",
    "host": "Host time",
    "idle": "Idle time with queued kernels",
    "compute": "Computation",
}


def _judged(profile: Profile, kind: str, rank: int) -> tuple[tuple[Candidate, ...], str]:
    """Candidates of a kind of place, without those that the run's own records speak against, and what decides."""
    entry = _kinds()[kind]
    records = profile.host_records
    excluded = {"garbage_collection"} if _collections_known(profile, rank) else set()
    if records is not None and rank in records.ranks and records.sampled_s(rank):
        excluded.add("cpu_contention")
    chosen = [each for each in entry["candidates"] if each["cause"] not in excluded]
    whole = sum(each["likelihood"] for each in chosen) or 1.0
    rest = sum(each["likelihood"] for each in entry["candidates"])
    scaled = [Candidate(each["cause"], round(each["likelihood"] * rest / whole, 2), each["why"]) for each in chosen]
    open_ways = (way["do"] for way in entry["decide_by"] if not _have(profile, rank, way.get("have", "")))
    return tuple(scaled), next(open_ways)


@lru_cache(maxsize=1)
def _kinds() -> dict[str, Any]:
    return table("leads")


def _have(profile: Profile, rank: int, what: str) -> bool:
    """Whether the run holds already what an observation would add."""
    view = profile.rank(rank)
    match what:
        case "stacks":
            return bool((view.kind == EventKind.PYTHON).any())
        case "monitor":
            return profile.host_records is not None and rank in profile.host_records.ranks
        case "library_threads":  # collectives of devices need no core of the host
            return profile.run.has_device or profile.host_records is not None
        case "all_ranks":
            return len(profile.ranks) >= (profile.run.layout.world_size or 1)
        case "shapes":
            return len(view.events.details.operators) > 0
        case _:
            return False


def _collections_known(profile: Profile, rank: int) -> bool:
    """Whether the monitor recorded how long Python collected garbage: then its own check has answered."""
    series = profile.series
    return series is not None and "gc_ms" in series.usual and bool(series.of(rank)["gc_ms"].notna().all())
