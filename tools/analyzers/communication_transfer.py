"""Is the transfer itself slow: a bandwidth below any link of the machine, or one link below its peers?"""

from __future__ import annotations

from tools.analyzers.communication_bandwidth import below_any_network, inside_one_machine, measured_bandwidth, slow
from tools.analyzers.communication_limit import UNTRACED_NEEDS, UNTRACED_REASON, cores_taken, link_bound
from tools.findings import Check, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import LARGE_BYTES, large_transfers, transfers

ONE_RANK = Sentence("Only one rank's trace was given, so waiting for late ranks may make the transfer look slow.")
ONE_RANK_CAP = 0.45  # one rank cannot tell waiting from transfer: a hypothesis, below the confidence of a verdict
BUSY_REASON = (
    "no core was free during most of the exposed transfer: waiting for one would look like slow transfer as well"
)
BUSY_NEEDS = "records of the same training while every rank has a free core"
NAME = "communication.transfer"


def transfer(profile: Profile) -> Check:
    """Bus bandwidth of large collectives against the slowest link that should carry them.

    Inside a machine no link is that slow: then the library does not take it, which is a matter of configuration.
    Between machines the link itself is what is seen; it is the cause where it is slower than any that training uses,
    or where no order of the work could hide the transfer.
    """
    table = large_transfers(profile)
    if table.empty:
        return cannot_answer(
            NAME,
            "no collective of a megabyte or more with a recorded size: bandwidth cannot be judged",
            "a trace with collective sizes (torch 2.3 or newer writes them, or record_shapes=True)",
        )
    kind = str(table.groupby("kind")["bytes"].sum().idxmax())
    bandwidth, measured = measure(profile, "bus_bandwidth", kind=kind), measured_bandwidth(profile, kind)
    exposed = measure(profile, "exposed_transfer_pct")
    inside = _fits_one_node(profile, int(table["group_size"].max()))
    usual = _usual_bytes_per_s(profile, inside)
    least_pct = profile.thresholds["noted_pct" if inside else "communication_exposed_pct"]
    if exposed.value < least_pct or (inside and bandwidth.value >= usual):
        return clean(NAME, measured)
    if not bool(table["complete"].all()):
        return _open(measured, UNTRACED_REASON, UNTRACED_NEEDS)
    if inside:
        return found(NAME, inside_one_machine(profile, kind, usual))
    if cores_taken(profile):
        return _open(measured, BUSY_REASON, BUSY_NEEDS)
    if below_any_network(profile, bandwidth.value) or link_bound(profile):
        return found(NAME, slow(profile, kind, usual))
    reason = "what the links between these ranks can carry is not known"
    return _open(measured, reason, "the same collectives in the communication library's own test on these machines")


def _open(measured: Sentence, reason: str, needs: str) -> Check:
    return Check(NAME, "cannot_answer", support=(measured,), reason=reason, needs=needs)


def _fits_one_node(profile: Profile, group_size: int) -> bool:
    devices = max((len(rank.rank.devices) for rank in profile.ranks), default=0)
    return 0 < group_size <= devices


def _usual_bytes_per_s(profile: Profile, inside: bool) -> float:
    """What the slowest sensible link between the ranks carries: inside a node, between devices, between hosts."""
    between = "cluster_bus_gb_s" if profile.run.has_device else "host_bus_gb_s"
    return profile.thresholds["single_node_bus_gb_s" if inside else between] * 1e9


def slow_link(profile: Profile) -> Check:
    """Needs peers: the same collective in several groups, or several nodes."""
    name = "communication.slow_link"
    table = transfers(profile)
    groups = table[table["bytes"] >= LARGE_BYTES].groupby(["kind", "bytes"])["group"].nunique()
    reason = "one link or node can be called slow only against peers that carry the same collective"
    if len(profile.ranks) > 1 and len(groups) and int(groups.max()) > 2:
        reason = "which node each group's ranks sit on was not recorded, so groups cannot be held against each other"
    return cannot_answer(name, reason, "traces of all ranks with host names, or link counters and a bandwidth test")
