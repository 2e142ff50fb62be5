"""What a run of many traced ranks rests on: ranks compared by their summaries, and the few that were read in full."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Difference:
    """A part of the step in which a group of ranks differs from its peers; medians over ranks of means per step."""

    part: str
    median_ms: float
    peers_ms: float


@dataclass(frozen=True)
class RankGroup:
    """Ranks that look alike; without ``differs`` they are the usual ones of their pipeline stage."""

    ranks: tuple[int, ...]  # ascending
    read: tuple[int, ...]  # those of them that were read in full
    stage: int | None  # None where the layout does not tell stages
    differs: tuple[Difference, ...]
    medians_ms: dict[str, float]  # ``wall`` and the parts of the step


@dataclass(frozen=True)
class Unread:
    """A trace that could not be summarized, and why."""

    name: str
    reason: str


@dataclass(frozen=True, eq=False)
class Screening:
    """Ranks found and compared by summary, how they group, and who is waited for.

    ``waiting``: index rank, all ranks by summary; ``caused_ns``, ``share``, ``steps`` and ``waited_ns`` as
    ``arrivals.blame`` gives them. ``collectives``: those of the ranks read in full that several ranks
    share, by group, members, kind, step and sequence: instance (a number), seen (by how many ranks), last_rank,
    shortest_ns. ``why`` says of every rank read in full why it was chosen.
    """

    found: int  # traced ranks, each trace that could not be read counted as one
    groups: tuple[RankGroup, ...]  # the usual ones first, then by how much they take longer
    waiting: pd.DataFrame
    collectives: pd.DataFrame
    why: dict[int, str]
    unread: tuple[Unread, ...] = ()

    @property
    def summarized(self) -> int:
        """The number of ranks compared by summary."""
        return len(self.waiting)

    def standing_for(self, ranks: Collection[int], read: Collection[int]) -> tuple[int, ...]:
        """The ranks that these stand for: whole groups of which all members that were read are among them."""
        own = set(ranks)
        covered = [group.ranks for group in self.groups if (seen := set(group.ranks) & set(read)) and seen <= own]
        return tuple(sorted(own.union(*covered)))
