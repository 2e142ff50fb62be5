"""Is what the ranks send lost on the way, held up by others, or sent over the wrong network?"""

from __future__ import annotations

from tools.analyzers.communication.network import carried_by_sockets
from tools.analyzers.support.answers import clean, confidence, found, say, values, worst_of
from tools.analyzers.support.recorded import by_rank, measured, not_recorded, saving
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Fact, Finding, Saving
from tools.metrics.recorded.series import rank_stalls
from tools.views.host_records import HostRecords
from tools.views.profile import Profile

COUNTED_SEGMENTS = 1000  # fewer segments than this are no sample
COUNTED_AGAIN = 20  # fewer retransmissions happen on any network and show no rate
ADAPTER_PER_PACKET = 1e-4  # a lossless fabric loses nothing; a single packet makes the adapter send a window again
ADAPTER_PER_S = 1.0  # where the run's own bytes are not known
PACKET_BYTES = 4096.0  # the largest of InfiniBand, and of RoCE on jumbo frames
METHOD = "mean over median step beyond stalls and collections, and half of the trace's exposed communication"
UNMOVED = "retransmission counters stay where they are while the collectives are as slow"
LOST_SHARE = 0.5  # of the exposed communication, where losses are frequent; a timeout costs 0.2 s and more


@check(
    *("communication.retransmission", "Retransmission", "Are packets retransmitted?"),
    causes=("slow_link", "rdma_retransmission"),
    needs=(Need.RECORDS,),
    from_records="steps",
)
def retransmission(profile: Profile) -> Check:
    """Segments and packets sent a second time, where collectives go over what counts them."""
    records = profile.host_records
    assert records is not None
    shares = {
        rank: fact
        for rank, fact in by_rank(profile, records, "sent_again_pct").items()
        if _counted(records, rank, "tcp_sent_segments") >= COUNTED_SEGMENTS
        and carried_by_sockets(profile, records, rank)
    }
    adapters = by_rank(profile, records, "counter_per_second", field="rdma_retransmits")
    raised = {
        rank: fact
        for rank, fact in adapters.items()
        if fact.value >= _adapter_limit(profile, records, rank)
        and _counted(records, rank, "rdma_retransmits") >= COUNTED_AGAIN
    }
    if not shares and not adapters:
        return not_recorded("the collectives are not seen to go over a network that the records count")
    lossy = {
        rank: fact.value
        for rank, fact in shares.items()
        if fact.value >= profile.thresholds["sent_again_pct"]
        and _counted(records, rank, "tcp_retransmitted_segments") >= COUNTED_AGAIN
    }
    if lossy:
        worst = worst_of(lossy)
        return found(_finding(profile, records, shares[worst], worst))
    if raised:
        worst = worst_of(values(raised))
        limit = _adapter_limit(profile, records, worst)
        return found(
            Finding(
                cause="rdma_retransmission",
                claim=say("The network adapter of the machine counts {0} retransmissions.", raised[worst]),
                confidence=confidence((raised[worst].value, limit), at_most=0.85),
                ranks=(worst,),
                saving=_saving(profile, _exposed(profile)),
                disproved_by=f"the adapters' {UNMOVED}",
                signals=("retransmit counters rise",),
            )
        )
    facts = tuple(shares.values())[:1] or tuple(adapters.values())[:1]
    return clean(say("Hardly anything is retransmitted: {0}.", *facts))


def _counted(records: HostRecords, rank: int, field: str) -> float:
    """By how much the counter rose over usual steps."""
    rate = records.per_second(rank, field)
    return 0.0 if rate is None else rate * records.seconds(rank, field)


def _adapter_limit(profile: Profile, records: HostRecords, rank: int) -> float:
    """Retransmissions per second that the machine's adapters may count at what its ranks send."""
    own = measured(profile, "collective_wire_bytes")
    if own is None:
        return ADAPTER_PER_S
    sent_per_s = own.value * len(records.neighbours(rank)) / (records.series.mean_ms / 1e3)
    return max(ADAPTER_PER_PACKET * sent_per_s / PACKET_BYTES, ADAPTER_PER_S)


def _finding(profile: Profile, records: HostRecords, again: Fact, worst: int) -> Finding:
    exposed = _exposed(profile)
    ranks = tuple(rank for rank in records.ranks if rank in profile.run.rank_numbers)
    return Finding(
        cause="slow_link",
        claim=say("Of all segments that the machine of the training sends, {0} are retransmitted.", again),
        confidence=confidence((again.value, profile.thresholds["sent_again_pct"]), at_most=0.9),
        ranks=ranks or (worst,),
        saving=_saving(profile, exposed),
        details=() if exposed is None else (say("Exposed communication takes {0} of a step.", exposed),),
        disproved_by=f"the {UNMOVED}",
        signals=("retraining or error counters", "retransmit counters rise"),
    )


def _saving(profile: Profile, exposed: Fact | None) -> Saving:
    """Timeouts make single steps long: what the mean step has over the median, and half of the exposed communication.

    Stalls of a rhythm and collections make steps long as well: what they cost is not the link's. What a lossless link
    would leave of the exposed communication is not known, so the bounds are wide.
    """
    assert profile.series is not None
    steady = 0.0 if exposed is None else LOST_SHARE * exposed.value
    collections = measured(profile, "collector_cost_ms")
    stalls_ms = max((each.cost_ms for each in rank_stalls(profile).values()), default=0.0)
    other_ms = max(stalls_ms, 0.0 if collections is None else collections.value)
    lost_ms = max(profile.series.mean_ms - profile.series.median_ms - other_ms, 0.0) + steady
    return saving(profile, lost_ms, 0.4, 1.5, METHOD)


def _exposed(profile: Profile) -> Fact | None:
    """Exposed communication per step on the rank with the least of it: the others wait for that one as well."""
    known = [measured(profile, "part_ms", part="exposed_communication", rank=rank) for rank in profile.run.rank_numbers]
    return min((fact for fact in known if fact is not None), key=lambda fact: fact.value, default=None)
