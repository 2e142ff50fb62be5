"""The ranks of a synchronous group: anomalies of their common step time, and the rank that each comes from.

Every rank's step takes equally long, whoever is slow; what differs is a rank's own time: until its last gradient is
ready, or all but its declared waiting, or at least data wait and collections. Without a difference no rank is named.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from statistics import median

from hermes_agent.monitor.format import CAPTURE_ENDED, CAPTURED, FIRST, UNKNOWN_US, StepRecord
from hermes_agent.watch.anomaly import Anomaly, AnomalyKind, Deviation, Suspect
from hermes_agent.watch.series import DEFAULT, DriftWatch, SeriesWatch, WatchThresholds

MOST_OPEN = 256  # steps that wait for a rank to report them
OTHER_WORK = "other work of its own"


@dataclass(frozen=True)
class Parts:
    """One rank's step in ms; ``own_ms`` is None where only data wait and collection are known to be its own."""

    wall_ms: float
    data_wait_ms: float
    gc_ms: float
    own_ms: float | None

    @property
    def share_ms(self) -> dict[str, float]:
        """The rank's own time, by part."""
        named = {"data wait": self.data_wait_ms, "garbage collection": self.gc_ms}
        if self.own_ms is not None:
            named[OTHER_WORK] = max(self.own_ms - self.data_wait_ms - self.gc_ms, 0.0)
        return named

    @property
    def known_ms(self) -> float:
        """All that is known to be the rank's own."""
        return sum(self.share_ms.values())


def parts_of(record: StepRecord) -> Parts:
    """Return the parts of a record."""
    own_ms = None if record.own_us == UNKNOWN_US else record.own_us / 1e3
    if own_ms is None and record.waiting_us:
        own_ms = (record.wall_us - record.waiting_us) / 1e3
    # A collection may lie inside the data wait; counted twice it would only blur, not invent.
    return Parts(record.wall_us / 1e3, record.data_wait_us / 1e3, record.gc_us / 1e3, own_ms)


class GroupWatch:
    """Takes the records of all ranks of a group, in any order; a step is checked when all have reported it."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._series, self._drift = SeriesWatch(thresholds), DriftWatch(thresholds)
        self._open: dict[int, dict[int, StepRecord]] = {}
        self._before: dict[int, deque[Parts]] = {}
        self._window: deque[dict[int, Parts]] = deque(maxlen=thresholds.rank_window)
        self._reported_rank = -1
        self.ranks: set[int] = set()
        self.unmatched = 0

    @property
    def usual_ms(self) -> float | None:
        """The usual step time of the group."""
        usual = self._series.usual
        return usual.middle_ms if usual else None

    def feed(self, rank: int, record: StepRecord) -> list[Anomaly]:
        """Anomalies that this record makes clear."""
        self.ranks.add(rank)
        self._open.setdefault(record.step, {})[rank] = record
        while len(self._open) > MOST_OPEN:
            del self._open[min(self._open)]
            self.unmatched += 1
        complete = len(self._open.get(record.step, ())) == len(self.ranks)
        return self._look(record.step, self._open.pop(record.step)) if complete else []

    def leave(self, rank: int) -> None:
        """The rank has ended."""
        self.ranks.discard(rank)
        self._before.pop(rank, None)

    def _look(self, step: int, records: dict[int, StepRecord]) -> list[Anomaly]:
        if any(each.flags & (CAPTURED | CAPTURE_ENDED | FIRST) for each in records.values()):
            return []
        parts = {rank: parts_of(record) for rank, record in records.items()}
        wall_ms = max(each.wall_ms for each in parts.values())
        deviations = self._series.feed(step, wall_ms)
        if any(each.kind in (AnomalyKind.CHANGE, AnomalyKind.RECOVERY) for each in deviations):
            self._drift.restart()
        deviations = deviations + self._drift.feed(step, wall_ms)
        found = [self._explained(deviation, parts) for deviation in deviations]
        self._remember(parts, wall_ms, deviations)
        return found + self._uneven(step, parts)

    def _remember(self, parts: dict[int, Parts], wall_ms: float, deviations: list[Deviation]) -> None:
        """Keep the parts of usual steps; a new level starts them again."""
        new_level = any(each.kind in (AnomalyKind.CHANGE, AnomalyKind.RECOVERY) for each in deviations)
        if new_level:
            self._before.clear()
        slow = self.usual_ms is not None and wall_ms > (1 + self._at.slow_share) * self.usual_ms
        if new_level or not slow:
            for rank, each in parts.items():
                self._before.setdefault(rank, deque(maxlen=self._at.history // 2)).append(each)

    def _explained(self, deviation: Deviation, now: dict[int, Parts]) -> Anomaly:
        """The deviation, with the rank whose own time grew by most of the excess."""
        if deviation.kind is AnomalyKind.RECOVERY:
            return Anomaly(deviation, None)
        grown = {rank: self._growth(rank, parts) for rank, parts in now.items() if self._before.get(rank)}
        if not grown:
            return Anomaly(deviation, None, "no earlier steps to compare its ranks with")
        excess = sorted(((sum(parts.values()), rank) for rank, parts in grown.items()), key=lambda pair: -pair[0])
        largest_ms, first = excess[0]
        if largest_ms < self._at.suspect_share * deviation.excess_ms:
            return Anomaly(deviation, None, "what is known of the ranks' own time does not explain it")
        if len(excess) > 1 and excess[1][0] * self._at.suspect_lead > largest_ms:
            return Anomaly(deviation, None, "several ranks' own time grew alike")
        part = max(grown[first], key=lambda name: grown[first][name])
        return Anomaly(deviation, Suspect(first, part, grown[first][part]))

    def _growth(self, rank: int, now: Parts) -> dict[str, float]:
        before = self._before[rank]
        usual = {name: median(each.share_ms.get(name, 0.0) for each in before) for name in now.share_ms}
        return {name: max(value - usual[name], 0.0) for name, value in now.share_ms.items()}

    def _uneven(self, step: int, parts: dict[int, Parts]) -> list[Anomaly]:
        """The same rank's own time is the longest nearly always, by enough to matter."""
        self._window.append(parts)
        together = [each for each in self._window if each.keys() == parts.keys()]
        if len(parts) < 2 or len(together) < self._at.rank_window:
            return []
        wall = {rank: median(each[rank].wall_ms for each in together) for rank in parts}
        by_wall = min(wall.values()) < (1 - self._at.rank_share) * max(wall.values())
        own = [{rank: one.wall_ms if by_wall else one.known_ms for rank, one in each.items()} for each in together]
        votes = Counter(max(each, key=lambda rank: each[rank]) for each in own)
        slowest, count = votes.most_common(1)[0]
        usual = {rank: median(each[rank] for each in own) for rank in parts}
        others = median(value for rank, value in usual.items() if rank != slowest)
        ahead = usual[slowest] - others > self._at.rank_share * max(wall.values())
        if not ahead or count < self._at.rank_constancy * len(together):
            self._reported_rank = -1 if votes[self._reported_rank] == 0 else self._reported_rank
            return []
        if self._reported_rank == slowest:
            return []
        self._reported_rank = slowest
        seen = Deviation(AnomalyKind.SLOW_RANK, step, step, others, usual[slowest])
        return [Anomaly(seen, _ahead(slowest, together, seen.excess_ms if by_wall else None))]


def _ahead(slowest: int, steps: list[dict[int, Parts]], whole_ms: float | None) -> Suspect:
    """The part in which the slowest rank is furthest ahead of the others, or the whole step."""
    if whole_ms is not None:
        return Suspect(slowest, "the whole step", whole_ms)
    more: dict[str, list[float]] = {}
    for parts in steps:
        others = [each.share_ms for rank, each in parts.items() if rank != slowest]
        for name, value in parts[slowest].share_ms.items():
            more.setdefault(name, []).append(value - median(each.get(name, 0.0) for each in others))
    part = max(more, key=lambda name: median(more[name]))
    return Suspect(slowest, part, median(more[part]))
