"""Which ranks differ from their peers, and which are read in full.

Definitions
    peers      the ranks of the same pipeline stage where the layout lists the stages and each has at least
               ``FEWEST_PEERS``, else all ranks
    differs    in a part of the step that is a rank's own (all but communication, which is mostly waiting for others),
               by its mean per step: it lies apart from most peers by a gap (``_levels``), or further from their median
               than ``rank_differs_z`` robust standard deviations (1.4826 x median absolute deviation); in either case
               by at least ``noted_pct`` of the median step
    group      ranks of a stage that differ in the same parts at the same levels

Read in full, at most ``most_ranks_in_full``: the lowest rank, a typical one of each stage, those that cause most
waiting, one or two of each group that differs, and the ranks by whose groups these are connected with the others.
Typical ranks are the majority, because the checks compare a rank with the median of the others.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.knowledge.thresholds import Thresholds
from tools.run.layout import pipeline_stages
from tools.run.model import Layout
from tools.run.screening import Difference, RankGroup
from tools.summaries.join import MEANS, Joined

OWN_PARTS = ("compute", "data_wait", "host", "exposed_memcpy", "idle")
FEWEST_PEERS = 8  # of fewer, chance makes gaps as wide as their spread
MAD_TO_SIGMA = 1.4826  # of a normal distribution
BEYOND = 1 << 16  # level of a rank far from the median without a gap
NOTED_SHARE = 0.05  # of all waiting in collectives; a rank that causes less is not read for it
LATE = "other ranks wait for it"
MOST_LATE, MOST_STAGES, MOST_ALIKE = 4, 4, 2  # late ranks, stages, ranks of a group that differs


@dataclass(frozen=True)
class Choice:
    """The groups of ranks, and of every rank to read in full why."""

    groups: tuple[RankGroup, ...]
    why: dict[int, str]


def choose(joined: Joined, layout: Layout, thresholds: Thresholds) -> Choice:
    """Group the ranks and choose those to read in full."""
    groups = rank_groups(joined.ranks, layout, thresholds)
    least_ns = _noted_ns(joined.ranks, thresholds)
    why = _Chooser(joined, groups, least_ns, int(thresholds["most_ranks_in_full"])).chosen()
    read = set(why)
    return Choice(tuple(replace(each, read=tuple(sorted(read & set(each.ranks)))) for each in groups), why)


def rank_groups(ranks: pd.DataFrame, layout: Layout, thresholds: Thresholds) -> list[RankGroup]:
    """The ranks of ``Joined.ranks`` in groups: the usual ones of each stage, then by how much longer they take."""
    stages = pipeline_stages(layout)
    known = set(ranks.index) <= set(stages)
    stage = pd.Series([stages[rank] if known else 0 for rank in ranks.index], index=ranks.index)
    peers = stage if stage.value_counts().min() >= FEWEST_PEERS else stage * 0
    least_ns = _noted_ns(ranks, thresholds)
    levels = pd.DataFrame(0, index=ranks.index, columns=list(OWN_PARTS))
    for _, own in ranks.groupby(peers):
        for part in OWN_PARTS:
            levels.loc[own.index, part] = _levels(own[f"{part}_ns"].to_numpy(), least_ns, thresholds["rank_differs_z"])
    found = []
    for (number, *level), own in ranks.groupby([stage, *(levels[part] for part in OWN_PARTS)], sort=True):
        usual = ranks[(peers == peers.loc[own.index[0]]).to_numpy()]
        differs = [part for part, at in zip(OWN_PARTS, level, strict=True) if at]
        found.append(
            RankGroup(
                ranks=tuple(int(rank) for rank in own.index),
                read=(),
                stage=int(str(number)) if known else None,
                differs=tuple(_difference(part, own, usual) for part in differs),
                medians_ms={name.removesuffix("_ns"): float(own[name].median()) / 1e6 for name in MEANS},
            )
        )
    return sorted(found, key=lambda each: (bool(each.differs), -_excess_ms(each), each.ranks[0]))


def _noted_ns(ranks: pd.DataFrame, thresholds: Thresholds) -> float:
    return float(ranks["wall_ns"].median()) * thresholds["noted_pct"] / 100.0


def _difference(part: str, own: pd.DataFrame, peers: pd.DataFrame) -> Difference:
    return Difference(part, *(float(table[f"{part}_ns"].median()) / 1e6 for table in (own, peers)))


def _excess_ms(group: RankGroup) -> float:
    """What the group takes longer per step than its peers, in the parts in which it differs."""
    return sum(max(each.median_ms - each.peers_ms, 0.0) for each in group.differs)


def _levels(values: NDArray[np.float64], least: float, most_z: float) -> NDArray[np.int64]:
    """Of each value 0 where it is among the largest cluster, else how many clusters above or below; BEYOND in a tail.

    Sorted values are split at their largest gap where that is at least ``least`` and no smaller than the larger side
    without its own gaps of half that width or more; then each side again.
    """
    order = np.argsort(values, kind="stable")
    sizes = [len(each) for each in _clusters(values[order], least)]
    usual = int(np.argmax(sizes))
    levels = np.empty(len(values), dtype=np.int64)
    levels[order] = np.repeat(np.arange(len(sizes)) - usual, sizes)
    inside = values[levels == 0]
    median = float(np.median(inside))
    reach = max(least, most_z * MAD_TO_SIGMA * float(np.median(np.abs(inside - median))))
    tail = (levels == 0) & (np.abs(values - median) > reach)
    levels[tail] = np.where(values[tail] > median, BEYOND, -BEYOND)
    return levels


def _clusters(ordered: NDArray[np.float64], least: float) -> list[NDArray[np.float64]]:
    found, waiting = [], [ordered]
    while waiting:
        values = waiting.pop()
        gaps = np.diff(values)
        at = int(gaps.argmax()) + 1 if len(gaps) and len(values) >= FEWEST_PEERS else 0
        larger = gaps[: at - 1] if 2 * at >= len(values) else gaps[at:]
        if at and gaps[at - 1] >= max(least, float(larger[larger < gaps[at - 1] / 2].sum())):
            waiting += [values[at:], values[:at]]
        else:
            found.append(values)
    return found


class _Chooser:
    """The ranks chosen so far, each with the reason."""

    def __init__(self, joined: Joined, groups: list[RankGroup], least_ns: float, most: int) -> None:
        self.joined, self.groups, self.most = joined, groups, most
        self.usual = {rank for group in groups if not group.differs for rank in group.ranks}
        self.why: dict[int, str] = {}
        self.meets: dict[int, list[int]] = {}  # by rank its groups of collectives
        for number, ranks in joined.groups.items():
            for rank in ranks:
                self.meets.setdefault(rank, []).append(number)
        steps = joined.ranks["steps"]
        noted = joined.caused[joined.caused["caused_ns"] >= least_ns * joined.caused["rank"].map(steps)]
        most_waited = noted.loc[noted.groupby("group")["caused_ns"].idxmax()]
        self.last_of = dict(zip(most_waited["group"].tolist(), most_waited["rank"].tolist(), strict=True))

    def chosen(self) -> dict[int, str]:
        """All of them, ascending, with the reasons."""
        ranks = self.joined.ranks
        self._take(int(ranks.index[0]), "the lowest rank")
        late = ranks[ranks["share"] >= NOTED_SHARE].nlargest(MOST_LATE, "caused_ns").index.tolist()
        for rank in late:
            self._take(rank, LATE)
        for _ in range(MOST_ALIKE):
            for group in [group for group in self.groups if group.differs]:
                parts = ", ".join(each.part for each in group.differs)
                for rank in self._nearest(set(group.ranks), group)[:1]:
                    self._take(rank, f"differs in {parts}")
        for group in [group for group in self.groups if not group.differs][:MOST_STAGES]:
            if not set(group.ranks) & set(self.why):
                for rank in self._nearest(set(group.ranks), group)[:1]:
                    self._take(rank, f"typical of stage {group.stage}")
        while 2 * self._different() >= len(self.why) < self.most and (rest := self._nearest(self.usual)):
            self._take(rest[0], "typical")
        return dict(sorted(self.why.items()))

    def _take(self, rank: int, reason: str) -> None:
        """A rank, those by which it is connected with the others, and those that are waited for in its groups.

        Of ranks that differ at most ``MOST_ALIKE`` of a group, and half of the room.
        """
        full = self._different() >= (self.most - 1) // 2 or self._alike(rank) >= MOST_ALIKE
        if rank in self.why or len(self.why) >= self.most or (rank not in self.usual and full):
            return
        between = self._between(rank) if self.why else []
        self.why[rank] = reason
        for each in between:
            self._take(each, f"shares a group with rank {rank}")
        for number in self.meets.get(rank, []):
            if number in self.last_of:
                self._take(self.last_of[number], LATE)

    def _between(self, rank: int) -> list[int]:
        """The fewest ranks over whose groups this one is connected with a chosen one; typical ones where possible.

        A replay without a cause shows what the others gain only where their collectives depend on each other.
        """
        came: dict[int, int] = {}
        waiting, seen = deque([rank]), set[int]()
        while waiting:
            at = waiting.popleft()
            for number in [each for each in self.meets.get(at, []) if each not in seen]:
                seen.add(number)
                members = self.joined.groups[number]
                if any(each in self.why for each in members):
                    return _way(came, at)
                for each in sorted(members, key=lambda member: (member not in self.usual, member)):
                    if each not in came and each != rank:
                        came[each] = at
                        waiting.append(each)
        return []

    def _nearest(self, ranks: set[int], group: RankGroup | None = None) -> list[int]:
        """Those not chosen yet, first the ones that share most groups of collectives with the chosen ones.

        Of several alike those furthest from the peers of their group, else those closest to the medians.
        """
        met = Counter(number for rank in self.why for number in self.meets.get(rank, []))
        rest = sorted(ranks - set(self.why))
        own = self.joined.ranks.loc[rest, [f"{part}_ns" for part in OWN_PARTS]]
        far = (own - own.median()).abs().sum(axis=1)
        if group is not None and group.differs:
            columns = [f"{each.part}_ns" for each in group.differs]
            far = -(own[columns] / 1e6 - [each.peers_ms for each in group.differs]).abs().sum(axis=1)
        distance = dict(zip(rest, far.tolist(), strict=True))
        return sorted(
            rest, key=lambda rank: (-sum(min(met[number], 1) for number in self.meets.get(rank, [])), distance[rank])
        )

    def _alike(self, rank: int) -> int:
        """How many ranks of its group are chosen."""
        return next((len(set(group.ranks) & set(self.why)) for group in self.groups if rank in group.ranks), 0)

    def _different(self) -> int:
        return len(set(self.why) - self.usual)


def _way(came: dict[int, int], last: int) -> list[int]:
    """The ranks on the way back from the last one, without the one where it began."""
    way = []
    while last in came:
        way.append(last)
        last = came[last]
    return way
