"""Is what the ranks send lost on the way, held up by others, or sent over the wrong network?"""

from __future__ import annotations

from tools.analyzers.margin import confidence
from tools.analyzers.network import interface, shared_link
from tools.analyzers.recorded import by_rank, measured, not_recorded, saving, values
from tools.findings import Check, Fact, Finding, Sentence, clean, found
from tools.profilers.host_records import HostRecords
from tools.profilers.profile import Profile

NAME = "communication.retransmission"
COUNTED_SEGMENTS = 100  # fewer segments than this are no sample
METHOD = "mean over median step, and half of the trace's exposed communication"
LOST_SHARE = 0.5  # of the exposed communication, where losses are frequent; a timeout costs 0.2 s and more


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Segments and packets sent a second time, others' traffic, and the choice of the interface."""
    return _retransmission(profile), shared_link(profile), interface(profile)


def _retransmission(profile: Profile) -> Check:
    records = profile.host_records
    if records is None:
        return not_recorded(NAME)
    shares = {
        rank: fact for rank, fact in by_rank(profile, records, "sent_again_pct").items() if _enough(records, rank)
    }
    adapters = by_rank(profile, records, "counter_per_second", field="rdma_retransmits")
    raised = {rank: fact for rank, fact in adapters.items() if fact.value > 0}
    if not shares and not adapters:
        return not_recorded(NAME, "hardly anything went over a network that the records count")
    if shares and max(values(shares).values()) >= profile.thresholds["sent_again_pct"]:
        worst = max(shares, key=lambda rank: (shares[rank].value, -rank))
        return found(NAME, _finding(profile, records, shares[worst], worst))
    if raised:
        worst = max(raised, key=lambda rank: (raised[rank].value, -rank))
        return found(NAME, _adapter(profile, raised[worst], worst))
    facts = tuple(shares.values())[:1] or tuple(adapters.values())[:1]
    return clean(NAME, Sentence("Hardly anything is sent a second time: {0}.", facts))


def _enough(records: HostRecords, rank: int) -> bool:
    rate = records.per_second(rank, "tcp_sent_segments")
    return rate is not None and rate * records.seconds(rank, "tcp_sent_segments") >= COUNTED_SEGMENTS


def _finding(profile: Profile, records: HostRecords, again: Fact, worst: int) -> Finding:
    exposed = _exposed(profile)
    ranks = tuple(rank for rank in records.ranks if rank in profile.run.rank_numbers)
    details = () if exposed is None else (Sentence("Exposed communication takes {0} of a step.", (exposed,)),)
    return Finding(
        cause="slow_link",
        claim=Sentence("Of all segments that the machine of the training sends, {0} are retransmitted.", (again,)),
        confidence=confidence((again.value, profile.thresholds["sent_again_pct"]), at_most=0.9),
        ranks=ranks or (worst,),
        saving=saving(profile, _lost_ms(profile, exposed), 0.4, 1.5, METHOD),
        details=details,
        disproved_by="the retransmission counters stay where they are while the collectives are as slow",
        signals=("retraining or error counters", "retransmit counters rise"),
    )


def _adapter(profile: Profile, rate: Fact, worst: int) -> Finding:
    exposed = _exposed(profile)
    return Finding(
        cause="rdma_retransmission",
        claim=Sentence("The network adapter of the machine counts {0} retransmissions.", (rate,)),
        confidence=confidence((rate.value, 1.0), at_most=0.85),
        ranks=(worst,),
        saving=saving(profile, _lost_ms(profile, exposed), 0.4, 1.5, METHOD),
        disproved_by="the adapters' retransmission counters stay where they are while the collectives are as slow",
        signals=("retransmit counters rise",),
    )


def _lost_ms(profile: Profile, exposed: Fact | None) -> float:
    """Timeouts make single steps long: what the mean step has over the median, and half of the exposed communication.

    What a lossless link would leave of the latter is not known, so the bounds are wide.
    """
    assert profile.series is not None
    steady = 0.0 if exposed is None else LOST_SHARE * exposed.value
    return max(profile.series.mean_ms - profile.series.median_ms, 0.0) + steady


def _exposed(profile: Profile) -> Fact | None:
    """Exposed communication per step on the rank with the least of it: the others wait for that one besides."""
    facts = [
        fact
        for rank in profile.run.rank_numbers
        if (fact := measured(profile, "part_ms", part="exposed_communication", rank=rank)) is not None
    ]
    return min(facts, key=lambda fact: fact.value, default=None)
