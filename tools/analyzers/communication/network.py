"""The network by its counters and interfaces: retransmission, other traffic, the wrong interface."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tools.analyzers.support.answers import clean, confidence, say, values, worst_of
from tools.analyzers.support.changes import scaled
from tools.analyzers.support.figures import by_rank, measured, not_recorded, saving
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Fact, Finding, Saving
from tools.metrics.communication.transfers import COUNTERS
from tools.metrics.recorded.series import rank_stalls
from tools.metrics.registry import measure
from tools.run.recorded.records import RankEnvironment
from tools.views.communication.transfers import LARGE_BYTES, large_transfers
from tools.views.host.records import HostRecords
from tools.views.profile import Profile
from tools.whatif.change import Change

SOCKET_SHARE = 0.5  # of what the collectives have to send must be counted on interfaces, if sockets carry it
VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME")
VIRTUAL = (
    *("lo", "docker", "veth", "br-", "virbr", "ifb", "dummy", "tun", "tap", "cali", "flannel", "cni", "sit", "kube"),
    *("nodelocaldns", "cilium", "lxc", "vxlan", "gre", "ip6", "wg", "ovs", "weave", "macv", "ipvl", "teql", "erspan"),
)
JOINED = ("bond", "team", "br", "vlan")  # made of others that are listed as well: those are no second network
DELIVERS = 0.3  # of an interface's own speed: below it is not what it says
SUSTAINED = 0.5  # of an interface's own speed is what large collectives are taken to reach on it
LEFT = 0.3  # of the exposed transfer stays on a better network where the bandwidth of large collectives is not known
FASTER = 2.0
COUNTED_SEGMENTS = 1000  # fewer segments than this are no sample
COUNTED_AGAIN = 20  # fewer retransmissions happen on any network and show no rate
ADAPTER_PER_PACKET = 1e-4  # a lossless fabric loses nothing; a single packet makes the adapter send a window again
ADAPTER_PER_S = 1.0  # where the run's own bytes are not known
PACKET_BYTES = 4096.0  # the largest of InfiniBand, and of RoCE on jumbo frames
METHOD = "mean over median step beyond stalls and collections, and half of the trace's exposed communication"
SIZES = "the traces of ranks on several machines, with the size of every message (record_shapes=True)"
SETTINGS = "the settings that the monitor writes at the start of each rank: the run folder holds none"
LOST_SHARE = 0.5  # of the exposed communication, where losses are frequent; a timeout costs 0.2 s and more


def carried_by_sockets(profile: Profile, records: HostRecords, rank: int) -> bool:
    """Return whether collectives use the kernel's sockets, as far as variables and counted bytes show."""
    if (profile.run.layout.world_size or len(profile.run.ranks) + 1) < 2:
        return False
    variables = {} if (machine := records.environment(rank)) is None else machine.variables
    if variables.get("NCCL_IB_DISABLE") == "1" or variables.get("NCCL_NET", "").lower() == "socket":
        return True
    own = measured(profile, "collective_wire_bytes")
    rates = [records.per_second(rank, name) for name in ("net_sent_bytes", "lo_sent_bytes")]
    if own is None or all(rate is None for rate in rates):
        return not profile.accelerated
    return sum(rate or 0.0 for rate in rates) >= SOCKET_SHARE * own.value / (records.series.mean_ms / 1e3)


@dataclass(frozen=True)
class _Choice:
    """The interface that a variable makes the collectives use, and another one of the same machine."""

    used: str
    other: str
    other_bytes_per_s: float
    faster: bool  # the other one, by the speeds of both


@check(
    *("communication.shared_link", "Shared link", "Does other traffic share the link?"),
    causes=("bandwidth_contention",),
    needs=(Need.RECORDS,),
)
def shared_link(profile: Profile) -> Check | Finding:
    """Whether others' bytes fill the link while transfers are exposed."""
    records = profile.host_records
    assert records is not None
    foreign = by_rank(profile, records, "foreign_bytes_per_s")
    exposed = measured(profile, "exposed_transfer_pct")
    if not foreign or exposed is None:
        why = "the run's own bytes are not known, or do not go over interfaces that are counted"
        return not_recorded(profile, why, *COUNTERS, otherwise=SIZES)
    worst = max(foreign, key=lambda rank: (foreign[rank].value, -rank))
    share = measure(profile, "foreign_traffic_pct", rank=worst)
    limits = profile.thresholds
    if share.value < limits["foreign_traffic_pct"] or exposed.value < limits["cause_share_pct"]:
        text = "Of what goes over the network {0} is not the run's; {1} of the step is exposed transfer."
        return clean(say(text, share, exposed))
    # A free link carries what this one does for all; a transfer takes the share of its time that it is of that.
    each, senders = _bus_bytes_per_s(profile), len(records.neighbours(worst))
    alone = LEFT if each is None else senders * each / (senders * each + foreign[worst].value)
    text = "Other traffic of {0} shares the network, {1} of all bytes; {2} of the step is exposed transfer."
    return Finding(
        cause="bandwidth_contention",
        claim=say(text, foreign[worst], share, exposed),
        confidence=confidence(
            (share.value, limits["foreign_traffic_pct"]), (exposed.value, limits["cause_share_pct"]), at_most=0.9
        ),
        ranks=profile.run.rank_numbers,
        saving=_saving(profile, alone, "what a free link needs"),
    )


def _saving(profile: Profile, left: float, what: str) -> Saving:
    saved_ms = (1.0 - left) * measure(profile, "exposed_transfer_ms").value
    found = saving(profile, saved_ms, 0.4, 1.3, f"exposed transfer of the trace, less {what}")
    return replace(found, of_series=False)


def _bus_bytes_per_s(profile: Profile) -> float | None:
    """How fast large collectives are; None where none were recorded, or waiting cannot be separated from transfer."""
    table = large_transfers(profile)
    return float(table["bus_bytes_per_s"].median()) if len(table) and bool(table["complete"].all()) else None


@check(
    *("communication.interface", "Network interface", "Do collectives use the wrong network interface?"),
    causes=("network_configuration",),
    mechanisms=("wrong_interface",),
    needs=(Need.RECORDS,),
)
def interface(profile: Profile) -> Check | Finding:
    """Whether a setting keeps the run on one network while another one is idle."""
    records = profile.host_records
    assert records is not None
    known = {rank: each for rank in records.ranks if (each := records.environment(rank))}
    if not known:
        return not_recorded(profile, "the records hold no network interfaces", otherwise=SETTINGS)
    choices = {rank: other for rank, each in known.items() if (other := _unused(profile, records, rank, each))}
    exposed = measured(profile, "exposed_transfer_pct")
    if not choices:
        return clean(say("No setting selects a network interface while the machine is known to have a better one."))
    limit = profile.thresholds["communication_exposed_pct"]
    if exposed is None or exposed.value < limit:
        return clean(say("A variable sets the network interface, and its transfers are hardly exposed."))
    choice = next(iter(choices.values()))
    # Large collectives as fast as the other interface lets them be, at least twice as fast; nothing where not known.
    own = _bus_bytes_per_s(profile)
    change: Change = ()
    if own is not None:
        least = min(each.other_bytes_per_s for each in choices.values())
        change = scaled(profile, None, min(own / (SUSTAINED * least), 1.0 / FASTER), LARGE_BYTES)
    text = "The run is set to use the interface {n0} while the machine has {n1} as well"
    text += (", which is faster" if choice.faster else "") + "; {0} of the step is exposed transfer."
    return Finding(
        cause="network_configuration",
        mechanism="wrong_interface",
        claim=say(text, exposed, names=(choice.used, choice.other)),
        confidence=confidence((exposed.value, limit), at_most=0.9 if choice.faster else 0.65),
        ranks=tuple(choices),
        change=change,
        saving=None if change else _saving(profile, LEFT, "what is left of it"),
        against=() if choice.faster else (say("What the other interface can carry is not recorded."),),
        hints={"interface": choice.used},
    )


def _unused(profile: Profile, records: HostRecords, rank: int, machine: RankEnvironment) -> _Choice | None:
    """The interface that a variable sets, and another network of the machine that is known to be better."""
    gloo = profile.run.layout.backend == "gloo" or not profile.run.has_device
    names = VARIABLES[:1] if gloo else VARIABLES[1:]
    named = next((machine.variables[name] for name in names if machine.variables.get(name)), "")
    used = "" if named.startswith("^") else named.lstrip("=").split(",")[0]
    if used not in machine.interfaces or used.startswith(JOINED) or not carried_by_sockets(profile, records, rank):
        return None
    speed = machine.interfaces[used].speed_mbit or 0
    speeds = {name: each.speed_mbit or 0 for name, each in machine.interfaces.items() if _own_network(name, used)}
    best = max(speeds, key=lambda name: (speeds[name], name), default="")
    if not best or not speed or speeds[best] < speed:
        return None
    faster, table = speeds[best] >= FASTER * speed, large_transfers(profile)
    if not faster and not float(table["bus_bytes_per_s"].median()) < DELIVERS * speed * 1e6 / 8.0:
        return None
    return _Choice(used, best, speeds[best] * 1e6 / 8.0, faster)


def _own_network(name: str, used: str) -> bool:
    return name != used and "." not in name and "@" not in name and not name.startswith((*VIRTUAL, *JOINED))


@check(
    *("communication.retransmission", "Retransmission", "Are packets retransmitted?"),
    causes=("slow_link", "rdma_retransmission"),
    needs=(Need.RECORDS,),
    from_records="steps",
    of_step_lines=(),
)
def retransmission(profile: Profile) -> Check | Finding:
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
        why = "the collectives are not seen to go over a network that the records count"
        return not_recorded(profile, why, "tcp_sent_segments", otherwise=SIZES)
    lossy = {
        rank: fact.value
        for rank, fact in shares.items()
        if fact.value >= profile.thresholds["sent_again_pct"]
        and _counted(records, rank, "tcp_retransmitted_segments") >= COUNTED_AGAIN
    }
    if lossy:
        worst = worst_of(lossy)
        exposed = _exposed(profile)
        ranks = tuple(rank for rank in records.ranks if rank in profile.run.rank_numbers)
        return Finding(
            cause="slow_link",
            claim=say("Of all segments that the machine of the training sends, {0} are retransmitted.", shares[worst]),
            confidence=confidence((shares[worst].value, profile.thresholds["sent_again_pct"]), at_most=0.9),
            ranks=ranks or (worst,),
            saving=_retransmission_saving(profile, exposed),
            details=() if exposed is None else (say("Exposed communication takes {0} of a step.", exposed),),
        )
    if raised:
        worst = worst_of(values(raised))
        limit = _adapter_limit(profile, records, worst)
        return Finding(
            cause="rdma_retransmission",
            claim=say("The network adapter of the machine counts {0} retransmissions.", raised[worst]),
            confidence=confidence((raised[worst].value, limit), at_most=0.85),
            ranks=(worst,),
            saving=_retransmission_saving(profile, _exposed(profile)),
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


def _retransmission_saving(profile: Profile, exposed: Fact | None) -> Saving:
    """The mean over the median step less other stalls, and half of the exposed communication."""
    assert profile.series is not None
    steady = 0.0 if exposed is None else LOST_SHARE * exposed.value
    collections = measured(profile, "collector_cost_ms")
    stalls_ms = max((each.cost_ms for each in rank_stalls(profile).values()), default=0.0)
    other_ms = max(stalls_ms, 0.0 if collections is None else collections.value)
    lost_ms = max(profile.series.mean_ms - profile.series.median_ms - other_ms, 0.0) + steady
    return replace(saving(profile, lost_ms, 0.4, 1.5, METHOD), of_series=exposed is None)  # else half is of the trace


def _exposed(profile: Profile) -> Fact | None:
    """Exposed communication per step on the rank with the least of it: the others wait for that one as well."""
    known = [measured(profile, "part_ms", part="exposed_communication", rank=rank) for rank in profile.run.rank_numbers]
    return min((fact for fact in known if fact is not None), key=lambda fact: fact.value, default=None)
