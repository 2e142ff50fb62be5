"""Collectives of Ascend by communication.json: waiting for ranks, small and unaligned packets, RDMA retransmission."""

from __future__ import annotations

from tools.analyzers.support.answers import cannot_answer, clean, confidence, say
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Saving
from tools.metrics.recorded.ascend import tables
from tools.metrics.registry import measure
from tools.views.profile import Profile

NO_COLLECTIVES = ("the tables hold no collectives (communication.json)", "a profile of level 1 or 2")
NO_COST = "the tables do not show how much faster it would be"
WAIT_RATIO = 0.3  # of the collectives' time (the Hermes paper's threshold of R_wait)
SMALL_SHARE_PCT = 20.0  # of the collectives (msprof-analyze)
UNALIGNED_PCT = 20.0  # of the bytes: what little is unaligned costs little
RETRANSMITTED_MS = 4000.0  # an RDMA timeout of HCCL is about four seconds (msprof-analyze)
WAIT_CAP, PACKET_CAP, RDMA_CAP = 0.75, 0.45, 0.8


@check(
    *("communication.tabled_wait", "Waits by tables", "Do collectives wait for ranks that were not recorded?"),
    causes=("straggler",),
    from_records="tables",
)
def tabled_wait(profile: Profile) -> Check | Finding | None:
    """Collectives that move nothing most of their time on every recorded rank, while others are missing."""
    record = profile.run.ascend
    if record is None or not profile.measured:
        return None
    if record.collectives.empty:
        return cannot_answer(*NO_COLLECTIVES)
    ranks = sorted(int(rank) for rank in record.collectives["rank"].unique())
    waits = {rank: measured(profile, "tabled_wait_ms", rank=rank) for rank in ranks}
    known = {rank: fact for rank, fact in waits.items() if fact is not None}
    if not known:
        return cannot_answer(*NO_COLLECTIVES)
    least = min(known, key=lambda rank: (known[rank].value, rank))
    wait, lasted = known[least], measure(profile, "tabled_collective_ms", rank=least)
    exposed = measured(profile, "account_ms", part="exposed_communication", rank=least)
    missing = absent_ranks(profile)
    text = f"On rank {least} collectives last {{0}} per step and move nothing for at least {{1}} of it."
    step_ms, limits = profile.mean_step_ms, profile.thresholds
    saved_ms = min(wait.value, step_ms if exposed is None else exposed.value)
    saved_pct, ratio = 100.0 * saved_ms / step_ms, wait.value / max(lasted.value, 1e-9)
    if saved_pct < limits["noted_pct"] or ratio < WAIT_RATIO or not missing:
        return clean(say(text, lasted, wait))
    shown = ", ".join(str(rank) for rank in missing[:8]) + (" and others" if len(missing) > 8 else "")
    return Finding(
        cause="straggler",
        claim=say(f"{text} Every recorded rank waits: for a rank whose folder is not here ({shown}).", lasted, wait),
        confidence=confidence((saved_pct, limits["cause_share_pct"]), (ratio, WAIT_RATIO), at_most=WAIT_CAP),
        saving=Saving(step_ms, saved_ms, 0.5 * saved_ms, saved_ms, "profiler tables: exposed wait in collectives"),
        details=tuple(say(f"Rank {rank} waits {{0}} per step.", fact) for rank, fact in known.items()),
    )


def absent_ranks(profile: Profile) -> tuple[int, ...]:
    """Ranks that take part in collectives, by the links or the size of the job, and of which nothing is here."""
    record = tables(profile)
    linked = {int(rank) for column in ("source", "target") for rank in record.links[column].unique()}
    world = record.world_size or profile.run.layout.world_size
    every = linked | (set(range(world)) if world is not None and world <= 1 << 20 else set())
    return tuple(sorted(every - set(record.ranks) - set(profile.run.rank_numbers)))


@check(
    *("communication.packets", "Packet sizes", "Are the packets large enough and aligned for the links?"),
    causes=("small_packet", "byte_alignment"),
    from_records="tables",
)
def packet_sizes(profile: Profile) -> Check | None:
    """Packets over SDMA and HCCS below 16 MB, over RDMA below 1 MB; sizes over HCCS that no 512 bytes divide."""
    if profile.run.ascend is None:
        return None
    small = measured(profile, "packets_below_size_pct")
    if small is None:
        return cannot_answer("the tables hold no sizes of packets (communication.json)", NO_COLLECTIVES[1])
    loose = measured(profile, "unaligned_pct")
    aligned = () if loose is None else (say("{0} of the bytes over HCCS move in unaligned packets.", loose),)
    findings = []
    sizes = say("{0} of the collectives move packets too small to fill the link.", small)
    if small.value > SMALL_SHARE_PCT:
        findings.append(
            Finding(
                cause="small_packet",
                claim=sizes,
                confidence=confidence((small.value, SMALL_SHARE_PCT), at_most=PACKET_CAP),
                impact_ms=0.0,
                impact_method=NO_COST,
                details=aligned,
            )
        )
    if loose is not None and loose.value > UNALIGNED_PCT:
        findings.append(
            Finding(
                cause="byte_alignment",
                claim=say("{0} of the bytes over HCCS move in packets of no multiple of 512 bytes.", loose),
                confidence=confidence((loose.value, UNALIGNED_PCT), at_most=PACKET_CAP),
                impact_ms=0.0,
                impact_method=NO_COST,
            )
        )
    if findings:
        return Check("", "found", findings=tuple(findings))
    return clean(sizes, *aligned)


@check(
    *("communication.rdma", "RDMA retransmission", "Do transfers over RDMA take as long as a retransmission?"),
    causes=("rdma_retransmission",),
    from_records="tables",
)
def rdma(profile: Profile) -> Check | Finding | None:
    """A collective with a transit over 4 s over RDMA that lasts at least 4 s on every recorded rank."""
    record = profile.run.ascend
    if record is None:
        return None
    if record.collectives.empty:
        return cannot_answer(*NO_COLLECTIVES)
    if record.transfers.empty:
        return cannot_answer("the tables do not say over what collectives move data", NO_COLLECTIVES[1])
    longest = measured(profile, "rdma_transit_ms")
    if longest is None and (record.transfers["transport"] == "RDMA").any():
        return cannot_answer("the tables do not say how long transfers over RDMA take", NO_COLLECTIVES[1])
    if longest is None:
        return clean(say("No collective moved anything over RDMA."))
    slow = record.transfers[
        (record.transfers["transport"] == "RDMA") & (record.transfers["transit_ms"] > RETRANSMITTED_MS)
    ]
    keys = ["step", "name", "group"]
    shortest = record.collectives.groupby(keys)["elapse_ms"].min().rename("least_ms").reset_index()
    waited = slow.merge(shortest, on=keys, how="left", validate="m:1")
    waited = waited[waited["least_ms"] >= RETRANSMITTED_MS]
    if waited.empty:
        return clean(say("The longest transfer over RDMA takes {0}.", longest))
    return Finding(
        cause="rdma_retransmission",
        claim=say("A transfer over RDMA takes {0}, and the collective is as slow on every recorded rank.", longest),
        confidence=confidence((longest.value, RETRANSMITTED_MS), at_most=RDMA_CAP),
        ranks=tuple(sorted({int(rank) for rank in waited["rank"]})),
        impact_ms=0.0,
        impact_method=NO_COST,
    )
