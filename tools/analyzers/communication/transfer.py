"""Recorded settings that make NCCL take a slower way than the machines have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tools.analyzers.communication.limit import UNTRACED_NEEDS, UNTRACED_REASON, cores_taken, link_bound, order_suffices
from tools.analyzers.cpu.environment import settings
from tools.analyzers.support.answers import cannot_answer, clean, confidence, say
from tools.analyzers.support.changes import scaled
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.registry import measure
from tools.views.communication.collectives import collectives
from tools.views.communication.transfers import LARGE_BYTES, large_transfers, transfers
from tools.views.profile import Profile

BETWEEN: Mapping[str, tuple[str, ...]] = {"NCCL_IB_DISABLE": ("1",), "NCCL_NET": ("socket", "Socket", "SOCKET")}
INSIDE: Mapping[str, tuple[str, ...]] = {"NCCL_P2P_DISABLE": ("1",), "NCCL_SHM_DISABLE": ("1",)}
CLOSED = "The run was started with {n0} set so that the library does not take the fastest way between the ranks."
IF_ANY = "The run was started with {n0} set, which keeps the library from InfiniBand, if there is any."
UNKNOWN_LINK = say("What the links between these ranks can carry was not recorded.")
UNKNOWN_LINK_CAP = 0.75
SEVERAL, STEADY = 3, 0.8  # large transfers, of which the slowest reaches so much of the fastest one's rate
BUSY_LINK = 1.1  # a link that is busy without a pause is the limit however fast it is
FASTER_AT_LEAST = 0.5  # where no better figure is known, the prediction is for twice the bandwidth
ONE_RANK = say("Only one rank's trace was given, so waiting for late ranks may make the transfer look slow.")
ONE_RANK_CAP = 0.45  # one rank cannot separate waiting from transfer: a hypothesis, below the confidence of a verdict


def slow_way(profile: Profile, inside: bool) -> str:
    """Name of a variable that closes the fast way, inside a machine or between machines; "" where none is recorded."""
    if not profile.run.has_device:
        return ""
    closing = {**BETWEEN, **INSIDE} if inside else BETWEEN
    known = settings(profile).values()
    return next((name for name, values in closing.items() if any(own.get(name) in values for own in known)), "")


def faster_way(profile: Profile, variable: str) -> bool:
    """Whether the way that the variable closes is there: between machines the counters of an adapter must show it."""
    records = profile.host_records
    if variable not in BETWEEN or records is None:
        return variable in INSIDE
    return any(records.level(rank, "rdma_retransmits") is not None for rank in records.ranks)


def measured_bandwidth(profile: Profile, kind: str) -> Sentence:
    """How fast the large collectives of a kind are, and how large all of them."""
    complete = bool(large_transfers(profile, kind)["complete"].all())
    reach = "reach" if complete else "reach, waiting for ranks that were not traced counted as transfer,"
    facts = (measure(profile, "bus_bandwidth", kind=kind), measure(profile, "message_bytes", kind=kind))
    text = f"Large {{n0}} collectives {reach} {{0}} on the bus; the median size of all {{n0}} is {{1}}."
    return say(text, *facts, names=(kind,))


def below_any_network(profile: Profile, bytes_per_s: float) -> bool:
    """Whether hosts exchange less than any network carries; devices' networks differ too much to say so of them."""
    return not profile.run.has_device and bytes_per_s < profile.thresholds["host_slowest_bus_gb_s"] * 1e9


def slow_and_steady(profile: Profile) -> bool:
    """Whether every large transfer between hosts goes at one low rate, as a link sets it and busy cores do not."""
    if profile.run.has_device:
        return False
    table = large_transfers(profile)
    rates = table["bus_bytes_per_s"]
    steady = len(table) >= SEVERAL and rates.min() >= STEADY * rates.max()
    return steady and bool(rates.max() < profile.thresholds["host_slow_bus_gb_s"] * 1e9)


def slow(profile: Profile, kind: str, usual: float, inside: bool) -> Finding:
    """The link between machines, or a setting that keeps the library from the fast one (always ``inside`` one)."""
    limits, variable = profile.thresholds, slow_way(profile, inside)
    avoidable = faster_way(profile, variable)
    bandwidth, exposed = measure(profile, "bus_bandwidth", kind=kind), measure(profile, "exposed_transfer_pct")
    text = "Inside one machine large {n0} collectives reach only {0}; exposed communication takes {1} of the step."
    finding = Finding(
        cause="network_configuration",
        claim=say(text, bandwidth, exposed, names=(kind,)),
        confidence=confidence((usual, bandwidth.value), (exposed.value, limits["noted_pct"])),
        ranks=profile.run.rank_numbers,
        change=scaled(profile, kind, min(bandwidth.value / usual, FASTER_AT_LEAST), LARGE_BYTES),
        details=(
            *((say(CLOSED if avoidable else IF_ANY, names=(variable,)),) if variable else ()),
            measured_bandwidth(profile, kind),
            say("The fastest of them reaches {0}.", measure(profile, "best_bus_bandwidth", kind=kind)),
            say("A collective is under way {0} of the time.", measure(profile, "link_busy_pct")),
        ),
        symptom_of=("bandwidth_contention", "slow_link"),
    )
    if inside:
        return finding
    text = "The link is the limit: {n0} collectives keep it busy at {0}; exposed communication takes {1} of the step."
    times_slower = max(usual / bandwidth.value, BUSY_LINK)
    if below_any_network(profile, bandwidth.value) or slow_and_steady(profile):
        # Ranks of one machine need no link between machines, so none is blamed.
        low = "The bandwidth between the ranks of one machine is low" if _one_machine(profile) else "The link is slow"
        text = f"{low}: large {{n0}} collectives reach a bandwidth of {{0}}, below usual networks; {{1}} is exposed."
        least = "host_slowest_bus_gb_s" if below_any_network(profile, bandwidth.value) else "host_slow_bus_gb_s"
        times_slower = limits[least] * 1e9 / bandwidth.value
    without = "On this link {0} of the step would be exposed transfer even if computation hid all that it could."
    return replace(
        finding,
        cause="network_configuration" if avoidable else "slow_link",
        mechanism="socket_fallback" if avoidable else None,
        claim=say(text, bandwidth, exposed, names=(kind,)),
        confidence=confidence(
            (times_slower, 1.0), (exposed.value, limits["communication_exposed_pct"]), at_most=UNKNOWN_LINK_CAP
        ),
        details=(*finding.details, say(without, measure(profile, "left_exposed_pct"))),
        against=(UNKNOWN_LINK,),
        # A low bandwidth is what all of these look like; where counters or settings name one, that is the cause.
        symptom_of=(
            *("bandwidth_contention", "network_configuration"),
            *(("poor_overlap",) if order_suffices(profile) else ()),
        ),
    )


def _one_machine(profile: Profile) -> bool:
    """Whether the records of all ranks name one machine."""
    hosts = {} if profile.host_records is None else profile.host_records.hosts
    together = next(iter(hosts.values()), ())
    return len(hosts) == 1 and len(together) >= (profile.run.layout.world_size or len(profile.ranks))


@check(
    *("communication.transfer", "Bus bandwidth", "Do large collectives reach the bandwidth of their link?"),
    causes=("slow_link", "network_configuration"),
    mechanisms=("socket_fallback",),
)
def transfer(profile: Profile) -> Check | Finding | None:
    """Bus bandwidth of large collectives against the slowest link that should carry them.

    Between machines the link is the cause where it is slower than any, or slow and the same in every transfer, or where
    no order of the work could hide the transfer.
    """
    if collectives(profile).empty:
        return None
    table = large_transfers(profile)
    if table.empty:
        return cannot_answer(
            "no collective of a megabyte or more with a recorded size: bandwidth cannot be judged",
            "a trace with collective sizes (torch 2.3 or newer writes them, or record_shapes=True)",
        )
    kind = str(table.groupby("kind")["bytes"].sum().idxmax())
    bandwidth, measured = measure(profile, "bus_bandwidth", kind=kind), measured_bandwidth(profile, kind)
    exposed = measure(profile, "exposed_transfer_pct")
    devices = max((len(rank.rank.devices) for rank in profile.ranks), default=0)
    inside = 0 < int(table["group_size"].max()) <= devices
    # What the slowest sensible link between the ranks carries: inside a node, between devices, between hosts.
    between = "cluster_bus_gb_s" if profile.run.has_device else "host_bus_gb_s"
    usual = profile.thresholds["single_node_bus_gb_s" if inside else between] * 1e9
    least_pct = profile.thresholds["noted_pct" if inside else "communication_exposed_pct"]
    if exposed.value < least_pct or (inside and bandwidth.value >= usual):
        return clean(measured)
    if not bool(table["complete"].all()):
        return cannot_answer(UNTRACED_REASON, UNTRACED_NEEDS, measured)
    if not inside and cores_taken(profile):
        return cannot_answer(
            "no core was free during most of the exposed transfer: waiting for one would look like slow transfer",
            "records of the same training while every rank has a free core",
            measured,
        )
    limited = below_any_network(profile, bandwidth.value) or slow_and_steady(profile)
    if inside or limited or link_bound(profile):
        return slow(profile, kind, usual, inside)
    needs = "the same collectives in the communication library's own test on these machines"
    return cannot_answer("what the links between these ranks can carry is not known", needs, measured)


@check(
    *("communication.slow_link", "Links across nodes", "Is one link or node slower than its peers?"),
    causes=("slow_link",),
)
def slow_link(profile: Profile) -> Check | None:
    """Needs peers: the same collective in several groups, or several nodes."""
    if collectives(profile).empty:
        return None
    table = transfers(profile)
    groups = table[table["bytes"] >= LARGE_BYTES].groupby(["kind", "bytes"])["group"].nunique()
    reason = "one link or node can be called slow only against peers that carry the same collective"
    if len(profile.ranks) > 1 and len(groups) and int(groups.max()) > 2:
        reason = "which node each group's ranks sit on was not recorded, so groups cannot be held against each other"
    return cannot_answer(reason, "traces of all ranks with host names, or link counters and a bandwidth test")
