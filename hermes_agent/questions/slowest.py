"""Which rank is slowest, per communication group."""

from __future__ import annotations

from dataclasses import dataclass

from tools.views.coarse import own_ms
from tools.views.profile import Profile

WHOLE_RUN = "all ranks"


@dataclass(frozen=True)
class GroupSlowest:
    """The rank of a group that takes longest itself, mean per step without exposed communication."""

    group: str
    ranks: tuple[int, ...]  # those of the group that were recorded
    slowest: int
    own_ms: float
    fastest_ms: float


def slowest_per_group(profile: Profile) -> tuple[GroupSlowest, ...]:
    """One entry per group with two or more recorded ranks; groups with the same ranks are one.

    Without any known group the run itself is the group. Empty for a run with one rank.
    """
    recorded = profile.run.rank_numbers
    members = {WHOLE_RUN: recorded}
    for group in profile.run.layout.groups:
        present = tuple(rank for rank in sorted(group.ranks) if rank in recorded)
        if len(present) > 1 and present not in members.values():
            members[group.description or group.name] = present
    return tuple(_of_group(profile, name, ranks) for name, ranks in members.items() if len(ranks) > 1)


def _of_group(profile: Profile, name: str, ranks: tuple[int, ...]) -> GroupSlowest:
    own = own_ms(profile).loc[list(ranks)].to_numpy()
    return GroupSlowest(name, ranks, ranks[int(own.argmax())], float(own.max()), float(own.min()))
