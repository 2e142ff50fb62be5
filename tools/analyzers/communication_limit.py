"""What limits the exposed transfers: the link, or the order of the work? And were all ranks seen that meet?"""

from __future__ import annotations

from tools.analyzers.recorded import measured
from tools.findings import Sentence
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import transfers

SOME_OVERLAP_PCT = 10.0  # of the communication: with less, nothing shows that the schedule overlaps at all
MOST = 0.5  # of the exposed transfer
UNTRACED = Sentence("Not of all ranks that meet a trace shows this, so a part of it may be waiting for another rank.")
UNTRACED_REASON = (
    "no traces of all ranks that meet show it: waiting for one of the others would look like slow transfer"
)
UNTRACED_NEEDS = "whole traces of all ranks of a group for the same steps"


def all_traced(profile: Profile) -> bool:
    """Whether waiting for late ranks can be told from transfer: every rank that takes part was traced."""
    table = transfers(profile)
    if len(table):
        return bool(table["complete"].all())
    return len(profile.ranks) > 1 and len(profile.ranks) >= (profile.run.layout.world_size or 0)


def link_bound(profile: Profile) -> bool:
    """Whether collectives overlap and follow each other without a pause: the link is the limit, not their order."""
    overlap = measure(profile, "communication_overlap_pct").value
    return (
        overlap >= SOME_OVERLAP_PCT and measure(profile, "link_busy_pct").value >= profile.thresholds["link_busy_pct"]
    )


def overlap_known(profile: Profile) -> bool:
    """Whether what computation could hide is known: without a device that takes cores which are seen to be idle."""
    return profile.run.has_device or measured(profile, "idle_cores_pct") is not None


def cores_taken(profile: Profile) -> bool:
    """Whether no core was free during most of the exposed transfer, which its own threads would have needed."""
    free_ms = measure(profile, "movable_transfer_ms").value + measure(profile, "exposed_exchange_ms").value
    return free_ms < MOST * measure(profile, "exposed_transfer_ms").value


def order_suffices(profile: Profile) -> bool:
    """Whether hardly any transfer would be exposed if computation hid all that it can, on the link as it is."""
    if not overlap_known(profile):
        return False
    left = measure(profile, "left_exposed_pct").value
    return left < profile.thresholds["communication_exposed_pct"] and not link_bound(profile)
