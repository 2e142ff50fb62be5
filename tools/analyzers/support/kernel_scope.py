"""Which ranks a group of kernels concerns, and the change in which its kernels take less time."""

from __future__ import annotations

from dataclasses import dataclass

from tools.analyzers.support.changes import shortened
from tools.findings import Check, Fact, cannot_answer
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows
from tools.views.kernels import device_of, kernel_table, spec_for
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Change


@dataclass(frozen=True)
class Concerned:
    """Ranks on which a group takes a noticeable share of the step, the most affected one and its share."""

    ranks: tuple[int, ...]
    worst: int
    share: Fact


def device_ranks(profile: Profile) -> tuple[int, ...]:
    """Ranks that ran kernels inside their steps."""
    return tuple(
        rank.rank.rank for rank in profile.ranks if rank.rank.has_device and len(kernel_table(profile, rank.rank.rank))
    )


def concerned(profile: Profile, group: str) -> Concerned | None:
    """Where the group passes the threshold of a finding; None when nowhere."""
    limit = profile.thresholds["computation_finding_pct"]
    shares = {rank: measure(profile, "kernel_group_pct", group=group, rank=rank) for rank in device_ranks(profile)}
    above = {rank: fact for rank, fact in shares.items() if fact.value >= limit}
    if not above:
        return None
    worst = max(above, key=lambda rank: above[rank].value)
    return Concerned(tuple(above), worst, above[worst])


def scaled_group(profile: Profile, where: Concerned, group: str, factor: float, kept_factor: float) -> Change:
    """The group's kernels on the concerned ranks take ``factor`` times as long."""
    return tuple(
        scale
        for rank in where.ranks
        for scale in shortened(profile.rank(rank), group_rows(profile, rank, group), factor, kept_factor)
    )


def worst_share(profile: Profile, group: str) -> Fact:
    """The group's share of the step on the rank where it is largest."""
    shares = [measure(profile, "kernel_group_pct", group=group, rank=rank) for rank in device_ranks(profile)]
    return max(shares, key=lambda fact: fact.value)


def unknown_device(profile: Profile, name: str) -> Check | None:
    """The outcome when the device table lacks the device of some rank; None when it knows all."""
    for rank in device_ranks(profile):
        view = profile.rank(rank)
        if spec_for(view) is None:
            return cannot_answer(
                name,
                f"the peak rates of the device {_device_name(view)} of rank {rank} are not known",
                "a device that the table tools/knowledge/devices.yaml lists, or an entry for this one",
            )
    return None


def _device_name(view: RankProfile) -> str:
    device = device_of(view)
    if device is None or not device.name:
        return "(not named in the trace)"
    printable = "".join(character for character in device.name if character.isprintable())
    return repr(printable[:60])


def longest_name(profile: Profile, rank: int, group: str) -> str:
    """Recorded name of the kernel that takes most of the group's time on the rank; untrusted text."""
    view = profile.rank(rank)
    table = kernel_table(profile, rank)
    table = table[table["row"].isin(group_rows(profile, rank, group))]
    totals = table.groupby("name")["duration_ns"].sum()
    code = int(totals.index.to_numpy()[int(totals.to_numpy().argmax())])
    return str(view.events.frame["name"].cat.categories[code])
