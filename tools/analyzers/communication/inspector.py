"""By NCCL Inspector: does one rank enter the collectives last, and is a communicator slower than its peers?"""

from __future__ import annotations

from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding
from tools.metrics.recorded.collective_lines import inspector_last, inspector_records, inspector_slow
from tools.metrics.registry import measure
from tools.run.recorded.collective_records import InspectorRecords
from tools.views.communication.collective_bandwidth import HOST_TIMING, LastRank
from tools.views.profile import Profile

NO_COST = "the lines hold no steps, of which it would be a part"
LAST_PCT = 60.0  # of a communicator's collectives: more often than all other ranks together
WAIT_RATIO = 0.3  # of the collectives' time (the Hermes paper's threshold of R_wait)
SLOW_SHARE = 0.7  # of the peers' bandwidth: the medians of equal communicators agree far better
LAST_CAP, SLOW_CAP = 0.85, 0.8
ALL_RANKS = (
    "the output of NCCL Inspector of all ranks, timed on the device (`NCCL_PROFILER_PLUGIN`, "
    "`NCCL_INSPECTOR_ENABLE=1`, `NCCL_INSPECTOR_DUMP_DIR`), over some steps"
)


@check(
    *("communication.inspector_arrival", "Last rank by NCCL Inspector", "Does one rank enter the collectives last?"),
    causes=("straggler",),
    from_records="collectives",
)
def inspector_arrival(profile: Profile) -> Check | None:
    """A rank with the least time in most collectives of its communicator, while they are long on the others."""
    records = _records(profile)
    if records is None:
        return None
    known = inspector_last(profile)
    if not known:
        return cannot_answer(_too_little(records), ALL_RANKS)
    late = [each for each in known if each.last_pct >= LAST_PCT and each.wait_us >= WAIT_RATIO * each.time_us]
    if late:
        return found(*(_straggler(profile, each) for each in late))
    names = ("last_rank_pct", "last_rank_wait_ms", "last_rank_time_ms")
    last, wait, whole = (measure(profile, name, group=known[0].communicator) for name in names)
    text = "No rank holds up the others: the one that is most often last is so in {0} of the collectives, "
    return clean(say(text + "in which the others wait {1} of {2}.", last, wait, whole))


def _straggler(profile: Profile, late: LastRank) -> Finding:
    names = ("last_rank_pct", "last_rank_wait_ms", "last_rank_time_ms")
    last, wait, whole = (measure(profile, name, group=late.communicator) for name in names)
    who = f"Rank {late.rank}" if late.known else f"Rank {late.rank} of communicator {{n1}}"
    return Finding(
        cause="straggler",
        claim=say(
            f"{who} (on {{n0}}) enters {{0}} of the collectives last; the others wait {{1}} of {{2}} in each.",
            *(last, wait, whole),
            names=(late.host, late.communicator),
        ),
        confidence=confidence((late.last_pct, LAST_PCT), (late.wait_us, WAIT_RATIO * late.time_us), at_most=LAST_CAP),
        ranks=(late.rank,) if late.known else (),
        impact_ms=0.0,
        impact_method=NO_COST,
    )


@check(
    *(
        "communication.inspector_bandwidth",
        "Bandwidth by NCCL Inspector",
        "Is a communicator slower than others like it?",
    ),
    causes=("slow_link",),
    from_records="collectives",
)
def inspector_bandwidth(profile: Profile) -> Check | None:
    """Bus bandwidth without waiting, of communicators with equal operations, sizes, ranks and hosts."""
    records = _records(profile)
    if records is None:
        return None
    peers = inspector_slow(profile)
    if not peers:
        reason = "no three communicators moved the same amount among as many ranks, so none has peers to compare with"
        return cannot_answer(reason if inspector_last(profile) else _too_little(records), ALL_RANKS)
    slow = [each for each in peers if each.busbw_gb_per_s < SLOW_SHARE * each.peers_gb_per_s]
    worst = peers[0]
    if not slow:
        own, others = (_bandwidth(profile, worst.communicator, of) for of in ("the communicator", "its peers"))
        return clean(say("The slowest communicator moves {0}, its peers {1}.", own, others))
    return found(
        *(
            Finding(
                cause="slow_link",
                claim=say(
                    "Without waiting, communicator {n0} (on {n1}) moves {0} in {n2}, its peers {1}.",
                    _bandwidth(profile, each.communicator, "the communicator"),
                    _bandwidth(profile, each.communicator, "its peers"),
                    names=(each.communicator, ", ".join(each.hosts[:4]), each.operation),
                ),
                confidence=confidence(
                    (SLOW_SHARE * each.peers_gb_per_s, max(each.busbw_gb_per_s, 1e-9)), at_most=SLOW_CAP
                ),
                ranks=each.ranks,
                impact_ms=0.0,
                impact_method=NO_COST,
                disproved_by="`nccl-tests` between these ranks gives the same bandwidth as between others",
                signals=("same collective size, one pair or node well below peers after the wait is removed",),
            )
            for each in slow
        )
    )


def _bandwidth(profile: Profile, communicator: str, of: str) -> Fact:
    return measure(profile, "communicator_busbw", group=communicator, of=of)


def _records(profile: Profile) -> InspectorRecords | None:
    found = profile.run.collectives
    return None if found is None or found.inspector is None else inspector_records(profile)


def _too_little(records: InspectorRecords) -> str:
    if (records.collectives["timing"] == HOST_TIMING).all():
        return "NCCL Inspector timed the collectives on the host, where a call may return before the device is done"
    return "too few collectives were recorded by every rank of their communicator"
