"""Is the transfer itself slow: a bandwidth below any link of the machine, or one link below its peers?"""

from __future__ import annotations

from tools.analyzers.collective_change import scaled
from tools.analyzers.margin import confidence
from tools.findings import Check, Fact, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import LARGE_BYTES, large_transfers, transfers

ONE_RANK = Sentence("Only one rank's trace was given, so waiting for late ranks may make the transfer look slow.")
ONE_RANK_CAP = 0.45  # one rank cannot tell waiting from transfer: a hypothesis, below the confidence of a verdict
NEVER_FAST_CAP = 0.55  # unless not one of several was fast: a late rank would have to be late for every one of them
SEVERAL = 5


def transfer(profile: Profile) -> Check:
    """Bus bandwidth of large collectives against the slowest link inside a node, where the group fits into one."""
    name = "communication.transfer"
    table = large_transfers(profile)
    if table.empty:
        return cannot_answer(
            name,
            "no collective of a megabyte or more with a recorded size: bandwidth cannot be judged",
            "a trace with collective sizes (torch 2.3 or newer writes them, or record_shapes=True)",
        )
    kind = str(table.groupby("kind")["bytes"].sum().idxmax())
    bandwidth = measure(profile, "bus_bandwidth", kind=kind)
    size = measure(profile, "message_bytes", kind=kind)
    reach = "reach" if len(profile.ranks) > 1 else "reach, waiting for late ranks counted as transfer,"
    measured = Sentence(
        f"Large {{n0}} collectives {reach} {{0}} on the bus; the median size of all {{n0}} is {{1}}.",
        (bandwidth, size),
        (kind,),
    )
    floor = profile.thresholds["single_node_bus_gb_s"] * 1e9
    exposed = measure(profile, "exposed_transfer_pct")
    if not _fits_one_node(profile, int(table["group_size"].max())):
        return Check(
            name,
            "cannot_answer",
            support=(measured,),
            reason="what the links between these ranks can carry is not known",
            needs="the same collectives in the communication library's own test on these machines",
        )
    if bandwidth.value >= floor or exposed.value < profile.thresholds["noted_pct"]:
        return clean(name, measured)
    return found(name, _slow_transfer(profile, kind, bandwidth, floor, exposed, measured))


def _fits_one_node(profile: Profile, group_size: int) -> bool:
    devices = max((len(rank.rank.devices) for rank in profile.ranks), default=0)
    return 0 < group_size <= devices


def _slow_transfer(
    profile: Profile, kind: str, bandwidth: Fact, floor: float, exposed: Fact, measured: Sentence
) -> Finding:
    one_rank = len(profile.ranks) == 1
    best = measure(profile, "best_bus_bandwidth", kind=kind)
    never_fast = best.value < floor and len(large_transfers(profile, kind)) >= SEVERAL
    one_rank_cap = NEVER_FAST_CAP if never_fast else ONE_RANK_CAP
    factor = bandwidth.value / floor
    return Finding(
        cause="network_configuration",
        claim=Sentence(
            "Large {n0} collectives reach {0} on the bus, far less than links inside one machine carry, and exposed "
            "communication takes {1} of the step.",
            (bandwidth, exposed),
            (kind,),
        ),
        confidence=confidence(
            (floor, bandwidth.value),
            (exposed.value, profile.thresholds["noted_pct"]),
            at_most=one_rank_cap if one_rank else 0.95,
        ),
        ranks=profile.run.rank_numbers,
        steps=exposed.steps,
        change=scaled(profile, kind, factor, LARGE_BYTES),
        details=(measured, Sentence("The fastest of them reaches {0}.", (best,))),
        against=(ONE_RANK,) if one_rank else (),
        disproved_by="the communication library's own test on these devices giving the same bandwidth",
        signals=(
            "bandwidth of large collectives far below the link",
            "NET/Socket, GDR disabled, SYS paths or wrong HCA",
        ),
        symptom_of=("straggler",) if one_rank else (),
    )


def slow_link(profile: Profile) -> Check:
    """Needs peers: the same collective in several groups, or several nodes."""
    name = "communication.slow_link"
    table = transfers(profile)
    groups = table[table["bytes"] >= LARGE_BYTES].groupby(["kind", "bytes"])["group"].nunique()
    reason = "one link or node can be called slow only against peers that carry the same collective"
    if len(profile.ranks) > 1 and len(groups) and int(groups.max()) > 2:
        reason = "which node each group's ranks sit on was not recorded, so groups cannot be held against each other"
    return cannot_answer(name, reason, "traces of all ranks with host names, or link counters and a bandwidth test")
