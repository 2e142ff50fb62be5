"""What limits the exposed transfers: the link, or the order of the work? And were all ranks seen that meet?"""

from __future__ import annotations

from tools.analyzers.support.answers import confidence, say
from tools.analyzers.support.changes import scaled
from tools.analyzers.support.figures import measure_all, measured
from tools.findings import Finding
from tools.metrics.registry import measure
from tools.views.communication.transfers import Fit, fits, transfers
from tools.views.profile import Profile

SOME_OVERLAP_PCT = 10.0  # of the communication: with less, nothing shows that the schedule overlaps at all
MOST = 0.5  # of the exposed transfer
UNTRACED = say("Not all ranks were traced, so a part of it may be waiting for another rank.")
UNTRACED_REASON = "not all ranks were traced: waiting for one of the others would look like slow transfer"
UNTRACED_NEEDS = "whole traces of all ranks of a group for the same steps"
CAP = 0.45  # below the confidence of a verdict: nobody saw the rank that is waited for
SIZES = 3  # a line through fewer misses none of them
STEPS = 3  # in as many each of two sizes must come again, so that chance shows as distance from the line
UNSEEN = say("The rank that is waited for was not traced; a transfer that others disturb might look alike.")


def all_traced(profile: Profile) -> bool:
    """Whether waiting for late ranks can be separated from transfer: every rank that takes part was traced."""
    table = transfers(profile)
    if len(table):
        return bool(table["complete"].all())
    return len(profile.ranks) > 1 and profile.run.traced_count >= (profile.run.layout.world_size or 0)


def link_bound(profile: Profile) -> bool:
    """Whether collectives overlap and follow each other without a pause: the link is the limit, not their order."""
    if measure(profile, "communication_overlap_pct").value < SOME_OVERLAP_PCT:
        return False
    return measure(profile, "link_busy_pct").value >= profile.thresholds["link_busy_pct"]


def overlap_known(profile: Profile) -> bool:
    """Whether what computation could hide is known: without a device that takes cores which are seen to be idle."""
    return profile.run.has_device or measured(profile, "idle_cores_pct") is not None


def link_limited(profile: Profile) -> bool:
    """Whether even the fastest large message is slower than any link worth training over, so that cores are idle.

    Faster ones between processes of one machine are copies that cores make: computation would wait for them instead.
    """
    rate = measured(profile, "best_bus_bandwidth")
    return rate is not None and rate.value < 1e9 * profile.thresholds["host_bus_gb_s"]


def cores_taken(profile: Profile) -> bool:
    """Whether no core was free during most of the exposed transfer, which its own threads would have needed.

    Busy cores alone do not say so: threads that waited for one would have waited as long as the transfer lasts.
    """
    free_ms = measure(profile, "movable_transfer_ms").value + measure(profile, "exposed_exchange_ms").value
    exposed_ms = measure(profile, "exposed_transfer_ms").value
    if free_ms >= MOST * exposed_ms:
        return False
    ranks = () if profile.host_records is None else profile.host_records.ranks
    waits = [measured(profile, "counter_ms_per_step", rank=rank, field="run_delay_us") for rank in ranks]
    known = [wait.value for wait in waits if wait is not None]
    return not known or max(known) >= MOST * exposed_ms


def order_suffices(profile: Profile) -> bool:
    """Whether hardly any transfer would be exposed if computation hid all that it can, on the link as it is."""
    if not overlap_known(profile) or link_bound(profile):
        return False
    return measure(profile, "left_exposed_pct").value < profile.thresholds["communication_exposed_pct"]


def holds_waiting(profile: Profile, fit: Fit) -> bool:
    """Whether most of the time does not depend on size and is longer than starting a collective takes."""
    costly = 100.0 * fit.fixed_share >= profile.thresholds["collective_fixed_pct"]
    return costly and fit.fixed_ns / 1e6 > profile.thresholds["collective_start_ms"]


def _tested(profile: Profile, fit: Fit) -> bool:
    """Whether the line could have missed its points: not with two sizes that were seen a few times."""
    table = transfers(profile)
    rows = table[(table["kind"] == fit.kind) & (table["group"] == fit.group)]
    return fit.sizes >= SIZES or int(rows.groupby("bytes")["step"].nunique().min()) >= STEPS


def untraced_straggler(profile: Profile) -> Finding | None:
    """A late rank that was not traced, where collectives last as long whatever their size."""
    limits = profile.thresholds
    exposed = measure(profile, "exposed_transfer_pct")
    usable = [fit for fit in fits(profile) if 100.0 * fit.error <= limits["fit_error_pct"] and _tested(profile, fit)]
    waiting = [fit for fit in usable if holds_waiting(profile, fit)]
    if all_traced(profile) or exposed.value < limits["communication_exposed_pct"] or not waiting:
        return None
    fit = waiting[0]
    fixed, share = measure_all(profile, "collective_fixed_ms", "collective_fixed_pct", kind=fit.kind, group=fit.group)
    text = "Of each of the {n0} collectives {0} ({1}) do not depend on size, as if they waited for an untraced rank."
    return Finding(
        cause="straggler",
        claim=say(text, fixed, share, names=(fit.kind,)),
        confidence=confidence(
            (exposed.value, limits["communication_exposed_pct"]),
            (share.value, limits["collective_fixed_pct"]),
            at_most=CAP,
        ),
        change=scaled(profile, fit.kind, 1.0 - fit.fixed_share, group=fit.group),
        against=(UNSEEN,),
        signals=("R_wait = 1 - T_avg/T_max of a collective is high",),
        disproved_by="whole traces of all ranks for the same steps show no straggler",
    )
