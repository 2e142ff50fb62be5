"""Is communication hidden behind computation where it could be?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.margin import confidence
from tools.findings import Check, Fact, Finding, Sentence, clean, found
from tools.intervals import intersect, subtract, union
from tools.metrics.registry import measure
from tools.profilers.arrivals import waits
from tools.profilers.collectives import collectives
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.whatif.change import Change, Scale

NAME = "communication.exposed"
LINK_BOUND_CAP = 0.45  # a hypothesis: the collectives overlap as they come, and the link has no pause left to use
SOME_OVERLAP_PCT = 10.0  # of the communication: with less, nothing shows that the schedule overlaps at all
ONE_RANK_CAP = 0.75  # the exposed time may partly be waiting, which better overlap does not remove


def exposed(profile: Profile) -> Check:
    """Poor overlap: much exposed transfer, little overlap, and computation left that could hide it."""
    share = measure(profile, "exposed_transfer_pct")
    whole = measure(profile, "part_ms", part="exposed_communication")
    overlap = measure(profile, "communication_overlap_pct")
    hideable = measure(profile, "hideable_communication_ms")
    limit, least_overlap = profile.thresholds["communication_exposed_pct"], profile.thresholds["poor_overlap_pct"]
    support = (
        _amount(len(profile.ranks), whole, share),
        Sentence("{0} of the communication runs beside computation.", (overlap,)),
    )
    if share.value < limit:
        return clean(NAME, *support)
    hideable_pct = 100.0 * hideable.value / float(measure(profile, "part_ms", part="wall").value)
    if overlap.value >= least_overlap or hideable_pct < profile.thresholds["noted_pct"]:
        bound = Sentence("Computation that runs alone could hide at most {0} more.", (hideable,))
        return Check(NAME, "found", support=(*support, bound))
    return found(NAME, _poor_overlap(profile, limit, least_overlap, hideable_pct))


def _amount(ranks: int, whole: Fact, share: Fact) -> Sentence:
    if ranks > 1:
        text = "Exposed communication takes {0} per step; what is not waiting for a late rank takes {1} of the step."
    else:
        text = "Exposed communication, waiting for other ranks included, takes {0} per step, {1} of it."
    return Sentence(text, (whole, share))


def _poor_overlap(profile: Profile, limit: float, least_overlap: float, hideable_pct: float) -> Finding:
    share = measure(profile, "exposed_transfer_pct")
    overlap = measure(profile, "communication_overlap_pct")
    hideable = measure(profile, "hideable_communication_ms")
    one_rank = len(profile.ranks) == 1
    busy = link_bound(profile)
    sure = confidence(
        (share.value, limit),
        (least_overlap, max(overlap.value, 1e-9)),
        (hideable_pct, profile.thresholds["noted_pct"]),
        at_most=LINK_BOUND_CAP if busy else ONE_RANK_CAP if one_rank else 0.95,
    )
    return Finding(
        cause="poor_overlap",
        claim=Sentence(
            "Exposed communication takes {0} of the step and only {1} of the communication runs beside computation, "
            "which could hide {2} more per step.",
            (share, overlap, hideable),
        ),
        confidence=sure,
        ranks=profile.run.rank_numbers,
        steps=share.steps,
        change=_hidden(profile),
        details=(Sentence("A step has {0} collectives.", (measure(profile, "collective_count"),)),),
        against=(*_against(profile, one_rank), *_busy(profile)),
        disproved_by="a run with overlap turned on (smaller or earlier buckets, prefetch) whose step is not shorter",
        signals=("exposed communication is a large share of the step while overlap is small",),
        symptom_of=("small_packet", "network_configuration", "pipeline_bubble", "pipeline_imbalance"),
    )


def link_bound(profile: Profile) -> bool:
    """Whether collectives overlap and follow each other without a pause: the link is the limit, not their order."""
    overlap = measure(profile, "communication_overlap_pct").value
    return (
        overlap >= SOME_OVERLAP_PCT and measure(profile, "link_busy_pct").value >= profile.thresholds["link_busy_pct"]
    )


def _busy(profile: Profile) -> tuple[Sentence, ...]:
    if not link_bound(profile):
        return ()
    text = (
        "From the first collective of a step to the end of the last, one is under way {0} of the time: the link is"
        " busy, so an earlier start would hide little."
    )
    return (Sentence(text, (measure(profile, "link_busy_pct"),)),)


def _against(profile: Profile, one_rank: bool) -> tuple[Sentence, ...]:
    against = []
    if one_rank:
        against.append(
            Sentence("Only one rank's trace was given, so a part of this may be waiting for other ranks, not transfer.")
        )
    if not profile.run.has_device:
        against.append(Sentence("On a CPU the library's threads take cores from computation, so overlap is not free."))
    return tuple(against)


def _hidden(profile: Profile) -> Change:
    """Every rank's exposed transfer shrinks by what its lone computation could hide."""
    return tuple(scale for rank in profile.ranks for scale in _hidden_on(profile, rank))


def _hidden_on(profile: Profile, rank: RankProfile) -> list[Scale]:
    number = rank.rank.rank
    shown = measure(profile, "exposed_transfer_ms", rank=number).value
    hideable = measure(profile, "hideable_communication_ms", rank=number).value
    if shown <= 0 or hideable <= 0:
        return []
    factor = 1.0 - min(1.0, hideable / shown)
    table = collectives(profile)
    rows = table["row"].to_numpy()[(table["rank"] == number).to_numpy()]
    moving = subtract(rank.parts.exposed_communication, _waiting(profile, number))
    result = []
    for track in np.unique(rank.track[rows]):
        own = rows[rank.track[rows] == track]
        intervals = intersect(moving, union(rank.start[own], rank.end[own]))
        if len(intervals):
            result.append(Scale(number, int(track), intervals, factor, 0.5 * (1.0 + factor)))
    return result


def _waiting(profile: Profile, rank: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    table = waits(profile)
    mine = table[table["rank"] == rank]
    start = mine["start_ns"].to_numpy()
    return union(start, start + mine["wait_ns"].to_numpy())
