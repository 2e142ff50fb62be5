"""Is the transfer itself slow: a bandwidth below any link of the machine, or one link below its peers?"""

from __future__ import annotations

from tools.analyzers.collective_change import scaled
from tools.analyzers.communication_exposed import link_bound
from tools.analyzers.margin import confidence
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import LARGE_BYTES, large_transfers, transfers

ONE_RANK = Sentence("Only one rank's trace was given, so waiting for late ranks may make the transfer look slow.")
ONE_RANK_CAP = 0.45  # one rank cannot tell waiting from transfer: a hypothesis, below the confidence of a verdict
NEVER_FAST_CAP = 0.55  # unless not one of several was fast: a late rank would have to be late for every one of them
SEVERAL = 5
NAME = "communication.transfer"
UNKNOWN_LINK = Sentence("What the links between these ranks can carry was not recorded.")
UNKNOWN_LINK_CAP = 0.75
FASTER_AT_LEAST = 0.5  # where no better figure is known, the prediction is for twice the bandwidth


def transfer(profile: Profile) -> Check:
    """Bus bandwidth of large collectives against the slowest link that should carry them."""
    table = large_transfers(profile)
    if table.empty:
        return cannot_answer(
            NAME,
            "no collective of a megabyte or more with a recorded size: bandwidth cannot be judged",
            "a trace with collective sizes (torch 2.3 or newer writes them, or record_shapes=True)",
        )
    kind = str(table.groupby("kind")["bytes"].sum().idxmax())
    bandwidth, measured = measure(profile, "bus_bandwidth", kind=kind), _measured(profile, kind)
    exposed = measure(profile, "exposed_transfer_pct")
    inside = _fits_one_node(profile, int(table["group_size"].max()))
    floor = _floor_bytes_per_s(profile, inside)
    limits = profile.thresholds
    least_pct = limits["noted_pct" if inside else "communication_exposed_pct"]
    if exposed.value < least_pct or (inside and bandwidth.value >= floor):
        return clean(NAME, measured)
    if inside or link_bound(profile):
        return found(NAME, _slow_transfer(profile, kind, floor, inside))
    if profile.run.has_device or bandwidth.value >= floor:
        return Check(
            NAME,
            "cannot_answer",
            support=(measured,),
            reason="what the links between these ranks can carry is not known",
            needs="the same collectives in the communication library's own test on these machines",
        )
    return found(NAME, _slow_transfer(profile, kind, floor, inside))


def _measured(profile: Profile, kind: str) -> Sentence:
    reach = "reach" if len(profile.ranks) > 1 else "reach, waiting for late ranks counted as transfer,"
    facts = (measure(profile, "bus_bandwidth", kind=kind), measure(profile, "message_bytes", kind=kind))
    text = f"Large {{n0}} collectives {reach} {{0}} on the bus; the median size of all {{n0}} is {{1}}."
    return Sentence(text, facts, (kind,))


def _fits_one_node(profile: Profile, group_size: int) -> bool:
    devices = max((len(rank.rank.devices) for rank in profile.ranks), default=0)
    return 0 < group_size <= devices


def _floor_bytes_per_s(profile: Profile, inside: bool) -> float:
    """What the slowest sensible link between the ranks carries: inside a node, between devices, between hosts."""
    between = "cluster_bus_gb_s" if profile.run.has_device else "host_bus_gb_s"
    return profile.thresholds["single_node_bus_gb_s" if inside else between] * 1e9


def _slow_transfer(profile: Profile, kind: str, floor: float, inside: bool) -> Finding:
    bandwidth, exposed = measure(profile, "bus_bandwidth", kind=kind), measure(profile, "exposed_transfer_pct")
    best = measure(profile, "best_bus_bandwidth", kind=kind)
    one_rank = len(profile.ranks) == 1
    factor = min(bandwidth.value / floor, FASTER_AT_LEAST)
    links = "links inside one machine" if inside else "the network that such devices are usually joined by"
    return Finding(
        cause="network_configuration",
        claim=Sentence(
            f"Large {{n0}} collectives reach {{0}} on the bus, less than {links} should carry, and exposed"
            " communication takes {1} of the step."
            if bandwidth.value < floor
            else "The link is the limit: {n0} collectives follow each other without a pause at {0} on the bus, and"
            " exposed communication takes {1} of the step.",
            (bandwidth, exposed),
            (kind,),
        ),
        confidence=_sure(profile, kind, floor, inside),
        ranks=profile.run.rank_numbers,
        steps=exposed.steps,
        change=scaled(profile, kind, factor, LARGE_BYTES),
        details=(
            _measured(profile, kind),
            Sentence("The fastest of them reaches {0}.", (best,)),
            Sentence(
                "From the first collective of a step to the end of the last, one is under way {0} of the time.",
                (measure(profile, "link_busy_pct"),),
            ),
        ),
        against=(*((ONE_RANK,) if one_rank else ()), *(() if inside else (UNKNOWN_LINK,))),
        disproved_by="the communication library's own test on these machines giving the same bandwidth",
        signals=(
            "bandwidth of large collectives far below the link",
            "NET/Socket, GDR disabled, SYS paths or wrong HCA",
        ),
        # A low bandwidth is what all of these look like; where counters of the machine name one, that is the cause.
        symptom_of=("bandwidth_contention", "slow_link", *(("straggler",) if one_rank else ())),
    )


def _sure(profile: Profile, kind: str, floor: float, inside: bool) -> float:
    bandwidth, exposed = measure(profile, "bus_bandwidth", kind=kind), measure(profile, "exposed_transfer_pct")
    noted = profile.thresholds["noted_pct"]
    if len(profile.ranks) == 1:
        best = measure(profile, "best_bus_bandwidth", kind=kind)
        # On hosts the floor is a guess; a rank that comes late in every step leaves no collective without waiting.
        known = profile.run.has_device and len(large_transfers(profile, kind)) >= SEVERAL
        never_fast = known and best.value < floor
        return confidence(
            (floor, bandwidth.value), (exposed.value, noted), at_most=NEVER_FAST_CAP if never_fast else ONE_RANK_CAP
        )
    if inside:
        return confidence((floor, bandwidth.value), (exposed.value, noted))
    limit = profile.thresholds["communication_exposed_pct"]
    below = (max(floor / bandwidth.value, 1.1), 1.0)
    return confidence(below, (exposed.value, limit), at_most=UNKNOWN_LINK_CAP)


def slow_link(profile: Profile) -> Check:
    """Needs peers: the same collective in several groups, or several nodes."""
    name = "communication.slow_link"
    table = transfers(profile)
    groups = table[table["bytes"] >= LARGE_BYTES].groupby(["kind", "bytes"])["group"].nunique()
    reason = "one link or node can be called slow only against peers that carry the same collective"
    if len(profile.ranks) > 1 and len(groups) and int(groups.max()) > 2:
        reason = "which node each group's ranks sit on was not recorded, so groups cannot be held against each other"
    return cannot_answer(name, reason, "traces of all ranks with host names, or link counters and a bandwidth test")
