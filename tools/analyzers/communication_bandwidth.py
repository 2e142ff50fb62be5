"""What low bandwidth of large collectives means: the library's way inside a machine, or the link between machines."""

from __future__ import annotations

from tools.analyzers.collective_change import scaled
from tools.analyzers.communication_limit import order_suffices
from tools.analyzers.communication_settings import faster_way, slow_way, told_way
from tools.analyzers.margin import confidence
from tools.findings import Finding, Sentence
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import LARGE_BYTES, large_transfers

UNKNOWN_LINK = Sentence("What the links between these ranks can carry was not recorded.")
UNKNOWN_LINK_CAP = 0.75
BUSY_LINK = 1.1  # a link that is busy without a pause is the limit however fast it is
FASTER_AT_LEAST = 0.5  # where no better figure is known, the prediction is for twice the bandwidth


def measured_bandwidth(profile: Profile, kind: str) -> Sentence:
    """How fast the large collectives of a kind are, and how large all of them."""
    complete = bool(large_transfers(profile, kind)["complete"].all())
    reach = "reach" if complete else "reach, waiting for ranks that were not traced counted as transfer,"
    facts = (measure(profile, "bus_bandwidth", kind=kind), measure(profile, "message_bytes", kind=kind))
    text = f"Large {{n0}} collectives {reach} {{0}} on the bus; the median size of all {{n0}} is {{1}}."
    return Sentence(text, facts, (kind,))


def below_any_network(profile: Profile, bytes_per_s: float) -> bool:
    """Whether hosts exchange less than any network carries; devices' networks differ too much to say so of them."""
    return not profile.run.has_device and bytes_per_s < profile.thresholds["host_slowest_bus_gb_s"] * 1e9


def inside_one_machine(profile: Profile, kind: str, usual: float) -> Finding:
    """No link inside a machine is that slow, so the library does not take the one that there is."""
    bandwidth, exposed = measure(profile, "bus_bandwidth", kind=kind), measure(profile, "exposed_transfer_pct")
    return Finding(
        cause="network_configuration",
        claim=Sentence(
            "Large {n0} collectives reach {0} on the bus, less than links inside one machine should carry, and exposed"
            " communication takes {1} of the step: the library takes another way.",
            (bandwidth, exposed),
            (kind,),
        ),
        confidence=confidence((usual, bandwidth.value), (exposed.value, profile.thresholds["noted_pct"])),
        ranks=profile.run.rank_numbers,
        steps=exposed.steps,
        change=scaled(profile, kind, min(bandwidth.value / usual, FASTER_AT_LEAST), LARGE_BYTES),
        details=(*told_way(profile, slow_way(profile, inside=True)), *_details(profile, kind)),
        disproved_by="the communication library's own test on these machines giving the same bandwidth",
        signals=(
            "bandwidth of large collectives far below the link",
            "NET/Socket, GDR disabled, SYS paths or wrong HCA",
        ),
        symptom_of=("bandwidth_contention", "slow_link"),
    )


def slow(profile: Profile, kind: str, usual: float) -> Finding:
    """The link between machines, or a setting that keeps the library from the fast one."""
    bandwidth, exposed = measure(profile, "bus_bandwidth", kind=kind), measure(profile, "exposed_transfer_pct")
    ordered, variable = order_suffices(profile), slow_way(profile, inside=False)
    avoidable = faster_way(profile, variable)
    return Finding(
        cause="network_configuration" if avoidable else "slow_link",
        mechanism="socket_fallback" if avoidable else None,
        claim=Sentence(_told(profile, bandwidth.value), (bandwidth, exposed), (kind,)),
        confidence=confidence(
            (_below(profile, bandwidth.value, usual), 1.0),
            (exposed.value, profile.thresholds["communication_exposed_pct"]),
            at_most=UNKNOWN_LINK_CAP,
        ),
        ranks=profile.run.rank_numbers,
        steps=exposed.steps,
        change=scaled(profile, kind, min(bandwidth.value / usual, FASTER_AT_LEAST), LARGE_BYTES),
        details=(*told_way(profile, variable), *_details(profile, kind), _without_order(profile)),
        against=(UNKNOWN_LINK,),
        disproved_by="the communication library's own test on these machines giving the same bandwidth",
        signals=("bandwidth of large collectives far below the link",),
        # A low bandwidth is what all of these look like; where counters or settings name one, that is the cause.
        symptom_of=("bandwidth_contention", "network_configuration", *(("poor_overlap",) if ordered else ())),
    )


def _told(profile: Profile, bytes_per_s: float) -> str:
    """What is said of the bandwidth: ranks of one machine need no link between machines, so none is blamed."""
    if not below_any_network(profile, bytes_per_s):
        return (
            "The link is the limit: {n0} collectives follow each other without a pause at {0} on the bus, and"
            " exposed communication takes {1} of the step."
        )
    told = "The bandwidth between the ranks of one machine is low" if _one_machine(profile) else "The link is slow"
    return (
        f"{told}: large {{n0}} collectives reach {{0}} on the bus, a lower bandwidth than any network that"
        " training usually runs over, and exposed communication takes {1} of the step."
    )


def _one_machine(profile: Profile) -> bool:
    """Whether the records of all ranks name one machine."""
    hosts = {} if profile.host_records is None else profile.host_records.hosts
    together = next(iter(hosts.values()), ())
    return len(hosts) == 1 and len(together) >= (profile.run.layout.world_size or len(profile.ranks))


def _below(profile: Profile, bytes_per_s: float, usual: float) -> float:
    """By which factor the bandwidth is below what it was judged by."""
    if below_any_network(profile, bytes_per_s):
        return profile.thresholds["host_slowest_bus_gb_s"] * 1e9 / bytes_per_s
    return max(usual / bytes_per_s, BUSY_LINK)


def _details(profile: Profile, kind: str) -> tuple[Sentence, ...]:
    return (
        measured_bandwidth(profile, kind),
        Sentence("The fastest of them reaches {0}.", (measure(profile, "best_bus_bandwidth", kind=kind),)),
        Sentence(
            "From the first collective of a step to the end of the last, one is under way {0} of the time.",
            (measure(profile, "link_busy_pct"),),
        ),
    )


def _without_order(profile: Profile) -> Sentence:
    text = "On this link {0} of the step would be exposed transfer even if computation hid all that it could."
    return Sentence(text, (measure(profile, "left_exposed_pct"),))
