"""The ranks that a group of kernels, or of operators on the host, concerns, and the change in which it takes less."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tools.analyzers.support.answers import cannot_answer
from tools.analyzers.support.changes import shortened_on
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.findings import Check, Fact, Finding
from tools.metrics.host.operator_groups import host_group
from tools.views.kernel_groups import group_rows
from tools.views.kernels import device_of, kernel_table, spec_for
from tools.views.profile import Profile


@dataclass(frozen=True)
class Concerned:
    """Ranks on which a group takes a noticeable share of the step, the most affected one and its share."""

    ranks: tuple[int, ...]
    worst: int
    share: Fact
    amounts: tuple[Fact, ...]  # time and number of the group's kernels or operators per step on that rank


def device_ranks(profile: Profile) -> tuple[int, ...]:
    """Ranks that ran kernels inside their steps."""
    return tuple(
        rank.rank.rank for rank in profile.ranks if rank.rank.has_device and len(kernel_table(profile, rank.rank.rank))
    )


def concerned(profile: Profile, group: str, host: bool = False, least_pct: float | None = None) -> Concerned | None:
    """Where the group takes at least that share of the step, by default that of a finding; None when nowhere."""
    limit = profile.thresholds["computation_finding_pct"] if least_pct is None else least_pct
    above = {rank: fact for rank, fact in _shares(profile, group, host).items() if fact.value >= limit}
    if not above:
        return None
    worst, kind = max(above, key=lambda rank: above[rank].value), "host_group" if host else "kernel_group"
    amounts = measure_all(profile, f"{kind}_ms", f"{kind}_count", group=group, rank=worst)
    return Concerned(tuple(above), worst, above[worst], amounts)


def worst_share(profile: Profile, group: str, host: bool = False) -> Fact:
    """The group's share of the step on the rank where it is largest."""
    return max(_shares(profile, group, host).values(), key=lambda fact: fact.value)


def _shares(profile: Profile, group: str, host: bool) -> dict[int, Fact]:
    if host:
        return measure_ranks(profile, profile.run.rank_numbers, "host_group_pct", group=group)
    return measure_ranks(profile, device_ranks(profile), "kernel_group_pct", group=group)


def concerning(
    profile: Profile,
    where: Concerned,
    group: str,
    finding: Finding,
    left: float,
    cautious: float | None = None,
    host: bool = False,
) -> Finding:
    """The finding with its ranks, and the change in which the group keeps ``left`` of its time."""
    rows = host_group if host else group_rows
    change = shortened_on(profile, where.ranks, lambda view: rows(profile, view.rank.rank, group), left, cautious)
    return replace(finding, ranks=where.ranks, change=change)


def unknown_device(profile: Profile) -> Check | None:
    """The outcome when the device table lacks the device of some rank; None when it knows all."""
    for rank in device_ranks(profile):
        if spec_for(profile.rank(rank)) is None:
            device = device_of(profile.rank(rank))
            known = "" if device is None else device.name
            named = repr("".join(character for character in known if character.isprintable())[:60])
            name = named if known else "(not named in the trace)"
            return cannot_answer(
                f"the peak rates of the device {name} of rank {rank} are not known",
                "a device that the table tools/knowledge/devices.yaml lists, or an entry for this one",
            )
    return None


def longest_name(profile: Profile, rank: int, group: str) -> str:
    """Recorded name of the kernel that takes most of the group's time on the rank; untrusted text."""
    table = kernel_table(profile, rank)
    table = table[table["row"].isin(group_rows(profile, rank, group))]
    totals = table.groupby("name")["duration_ns"].sum()
    code = int(totals.index.to_numpy()[int(totals.to_numpy().argmax())])
    return str(profile.rank(rank).events.frame["name"].cat.categories[code])
