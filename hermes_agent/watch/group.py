"""The ranks of a synchronous group: anomalies of their common step time, and the rank that each comes from.

Every rank's step takes equally long, whoever is slow; what differs is a rank's own time: all but what lies between its
last gradient and the optimizer's step, or all but its declared waiting, or at least data wait and collections. A rank
is compared over several steps with itself before and with the others. Without a difference no rank is named, and what
all ranks waited for a core is not blamed on any.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from math import pi, sqrt
from statistics import median

from hermes_agent.monitor.format import CAPTURE_ENDED, CAPTURED, FIRST, StepRecord
from hermes_agent.watch.anomaly import NO_RANK, Anomaly, AnomalyKind, Deviation, Suspect
from hermes_agent.watch.parts import (
    OTHER_WORK,
    WHOLE_STEP,
    Parts,
    above_others,
    cpu_times,
    may_spin,
    own_times,
    parts_of,
    usual_shares,
)
from hermes_agent.watch.ranks import Growth, RankWatch
from hermes_agent.watch.series import DEFAULT, DriftWatch, SeriesWatch, WatchThresholds
from hermes_agent.watch.spikes import SpikeSummary

MOST_OPEN = 256  # steps that wait for a rank to report them
NEW_LEVEL = frozenset({AnomalyKind.CHANGE, AnomalyKind.RECOVERY})
UNKNOWN_OWN = "the ranks' own time is not recorded; `monitor.watch_model(model)` records it"


class GroupWatch:
    """Takes the records of all ranks of a group, in any order; a step is checked when all have reported it."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._series, self._drift = SeriesWatch(thresholds), DriftWatch(thresholds)
        self._own_watch = RankWatch(thresholds)
        cpu_thresholds = replace(thresholds, rank_share=thresholds.cpu_share, window=thresholds.cpu_window)
        self._cpu_watch = RankWatch(cpu_thresholds)
        self.spikes = SpikeSummary(thresholds)
        self._changed: dict[int, int] = {}  # by rank, the step of its last reported change
        self._open: dict[int, dict[int, Parts]] = {}
        self._flags: dict[int, int] = {}
        self._before: deque[dict[int, Parts]] = deque(maxlen=thresholds.history // 2)
        self._window: deque[dict[int, Parts]] = deque(maxlen=thresholds.rank_window)
        self._reported_rank = NO_RANK
        self.ranks: set[int] = set()
        self.unmatched = 0
        self.last_step = -1

    @property
    def usual_ms(self) -> float | None:
        """The usual step time of the group."""
        usual = self._series.usual
        return usual.middle_ms if usual else None

    def present_ms(self) -> float | None:
        """Return the median step of the last window; None before there is one."""
        steps = list(self._window)[-self._at.window :]
        return median(max(each.wall_ms for each in parts.values()) for parts in steps) if steps else None

    def lead_ms(self) -> dict[int, float]:
        """Return by how much each rank's own or CPU time is above the others', as the median of the last window."""
        now = list(self._window)[-self._at.window :]
        leads: dict[int, float] = {}
        by_cpu = [] if may_spin(self._before) else [above_others(cpu_times(parts)) for parts in now]
        for steps in ([above_others(own_times(parts)) for parts in now], by_cpu):
            for rank in steps[-1] if steps else ():
                lead_ms = median(each[rank] for each in steps if rank in each)
                leads[rank] = max(leads.get(rank, lead_ms), lead_ms)
        return leads

    def feed(self, rank: int, record: StepRecord, core_wait_ms: float = 0.0) -> list[Anomaly]:
        """Anomalies that this record makes clear; ``core_wait_ms`` is what its step waited for a core."""
        self.ranks.add(rank)
        step = record.step
        self._open.setdefault(step, {})[rank] = parts_of(record, core_wait_ms)
        self._flags[step] = self._flags.get(step, 0) | record.flags
        while len(self._open) > MOST_OPEN:
            oldest = min(self._open)
            del self._open[oldest], self._flags[oldest]
            self.unmatched += 1
        complete = len(self._open.get(step, ())) == len(self.ranks)
        return self._look(step, self._open.pop(step), self._flags.pop(step)) if complete else []

    def leave(self, rank: int) -> None:
        """The rank has ended."""
        self.ranks.discard(rank)
        self._own_watch.leave(rank)
        self._cpu_watch.leave(rank)
        self._window.clear()
        self._before.clear()

    def rest(self) -> list[Anomaly]:
        """Return the spikes that are not reported yet, at the end of the run."""
        return [Anomaly(each, None) for each in self.spikes.rest()]

    def _look(self, step: int, parts: dict[int, Parts], flags: int) -> list[Anomaly]:
        self.last_step = step
        summaries = [Anomaly(each, None) for each in self.spikes.due(step)]
        if flags & (CAPTURED | CAPTURE_ENDED | FIRST):
            return summaries
        wall_ms = max(each.wall_ms for each in parts.values())
        self._window.append(parts)
        deviations = self._series.feed(step, wall_ms)
        new_level = any(each.kind in NEW_LEVEL for each in deviations)
        if new_level:
            self._drift.restart()
        deviations = deviations + self._drift.feed(step, wall_ms)
        for each in deviations:
            if each.kind is AnomalyKind.SPIKE:
                self.spikes.add(each)
        found = [self._explained(each) for each in deviations if each.kind is not AnomalyKind.SPIKE]
        found += self._rank_changes(step, parts, self.usual_ms or wall_ms)
        self._remember(parts, wall_ms, new_level)
        return summaries + found + self._uneven(step, parts)

    def _remember(self, parts: dict[int, Parts], wall_ms: float, new_level: bool) -> None:
        """Keep the parts of usual steps; a new level starts them again."""
        if new_level:
            self._before.clear()
        slow = self.usual_ms is not None and wall_ms > (1 + self._at.slow_share) * self.usual_ms
        if new_level or not slow:
            self._before.append(parts)

    def _compared(self, steps: int) -> tuple[list[dict[int, Parts]], list[dict[int, Parts]]]:
        """The steps of the usual level and the last ``steps``, without those that are among both."""
        now = list(self._window)[-steps:]
        recent = {id(each) for each in now}
        before = [each for each in self._before if id(each) not in recent]
        return before, now

    def _explained(self, deviation: Deviation) -> Anomaly:
        """The deviation, with the rank whose own time grew by most of the excess."""
        if deviation.kind is AnomalyKind.RECOVERY:
            return Anomaly(deviation, None)
        before, now = self._compared(1 if deviation.kind is AnomalyKind.STALL else self._at.window)
        ranks = now[-1].keys() if now else set()
        before = [each for each in before if each.keys() == ranks]
        now = [each for each in now if each.keys() == ranks]
        if not before or not now:
            return Anomaly(deviation, None, "no earlier steps to compare its ranks with")
        least_ms = self._at.suspect_share * deviation.excess_ms
        waited_ms = max(_core_wait_ms(now, rank) - _core_wait_ms(before, rank) for rank in ranks)
        grown = {rank: _growth(before, now, rank) for rank in ranks}
        excess = sorted(((sum(parts.values()), rank) for rank, parts in grown.items()), key=lambda pair: -pair[0])
        largest_ms, first = excess[0]
        if waited_ms >= self._at.core_wait_share * deviation.excess_ms and waited_ms > largest_ms:
            why = f"its ranks wait up to {waited_ms:.1f} ms more per step for a free core"
            return Anomaly(deviation, None, why, contention=True)
        if largest_ms < least_ms:
            unknown = any(each.own_ms is None for each in now[-1].values())
            why = UNKNOWN_OWN if unknown else "the ranks' own time does not explain it"
            return Anomaly(deviation, None, why)
        if len(excess) > 1 and excess[1][0] * self._at.suspect_lead > largest_ms:
            return Anomaly(deviation, None, "several ranks' own time grew alike")
        others_ms = excess[1][0] if len(excess) > 1 else 0.0
        noise_ms = self._own_watch.noise_ms(first) or 0.0
        if largest_ms - others_ms < self._at.suspect_noises * sqrt(pi / 2 / len(now)) * noise_ms:
            return Anomaly(deviation, None, "the difference between the ranks' own time is within its noise")
        part = max(grown[first], key=lambda name: grown[first][name])
        return Anomaly(deviation, Suspect(first, part, grown[first][part]))

    def _rank_changes(self, step: int, parts: dict[int, Parts], step_ms: float) -> list[Anomaly]:
        """The ranks whose own or CPU time grew against the others', each once."""
        by_own = self._own_watch.feed(step, own_times(parts), step_ms)
        by_cpu = self._cpu_watch.feed(step, cpu_times(parts), step_ms)
        changes = [
            *(self._rank_change(each, step) for each in by_own),
            *(self._cpu_change(each, step) for each in by_cpu),
        ]
        found: list[Anomaly] = []
        for change in changes:
            if change is None or step - self._changed.get(change.rank, step - self._at.history) < self._at.history:
                continue
            self._changed[change.rank] = step
            self._reported_rank = change.rank
            found.append(change)
        return found

    def _cpu_change(self, growth: Growth, step: int) -> Anomaly | None:
        """The growth of one rank's CPU time where own time is too noisy to show it."""
        before, now = self._compared(self._at.window)
        now = [each for each in now if growth.rank in each]
        step_ms = median(each[growth.rank].wall_ms for each in now)
        waiting = max(_core_wait_ms(now, rank) for rank in now[-1]) >= self._at.cpu_core_wait_share * step_ms
        noise_ms = self._own_watch.noise_ms(growth.rank)
        # Noises that own time needs to reach the limit of its own sum within the window of CPU time.
        needed = self._at.contrast_slack + self._at.contrast_limit / self._at.cpu_window
        shown = noise_ms is not None and growth.excess_ms > needed * noise_ms
        return self._rank_change(growth, step) if waiting and not shown and not may_spin(before) else None

    def _rank_change(self, growth: Growth, step: int) -> Anomaly | None:
        """The growth of one rank with the part that it lies in, unless it is the others whose time fell."""
        half_ms = self._at.suspect_share * growth.excess_ms
        if growth.seen_ms - growth.usual_ms < half_ms:
            return None
        before, now = ([each for each in steps if growth.rank in each] for steps in self._compared(self._at.window))
        grown = _growth(before, now, growth.rank) if before else {}
        part = next((name for name, value in grown.items() if name != OTHER_WORK and value >= half_ms), OTHER_WORK)
        excess_ms = growth.excess_ms if part == OTHER_WORK else min(grown[part], growth.excess_ms)
        seen = Deviation(AnomalyKind.RANK_CHANGE, growth.since, step, growth.usual_ms, growth.seen_ms)
        return Anomaly(seen, Suspect(growth.rank, part, excess_ms))

    def _uneven(self, step: int, parts: dict[int, Parts]) -> list[Anomaly]:
        """The same rank's own time is the longest nearly always, by enough to matter."""
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
            self._reported_rank = NO_RANK if votes[self._reported_rank] == 0 else self._reported_rank
            return []
        if self._reported_rank == slowest:
            return []
        self._reported_rank = slowest
        seen = Deviation(AnomalyKind.SLOW_RANK, step, step, others, usual[slowest])
        return [Anomaly(seen, _ahead(slowest, together, seen.excess_ms if by_wall else None))]


def _core_wait_ms(steps: list[dict[int, Parts]], rank: int) -> float:
    """The mean wait for a core: it comes in slices, so a median may miss it."""
    return sum(each[rank].core_wait_ms for each in steps) / len(steps)


def _growth(before: list[dict[int, Parts]], now: list[dict[int, Parts]], rank: int) -> dict[str, float]:
    """By part, how much of the rank's own time is new."""
    usual, seen = (usual_shares(each[rank] for each in steps) for steps in (before, now))
    return {name: max(value - usual.get(name, 0.0), 0.0) for name, value in seen.items()}


def _ahead(slowest: int, steps: list[dict[int, Parts]], whole_ms: float | None) -> Suspect:
    """The part in which the slowest rank is furthest ahead of the others, or the whole step."""
    if whole_ms is not None:
        return Suspect(slowest, WHOLE_STEP, whole_ms)
    more: dict[str, list[float]] = {}
    for parts in steps:
        others = [each.share_ms for rank, each in parts.items() if rank != slowest]
        for name, value in parts[slowest].share_ms.items():
            more.setdefault(name, []).append(value - median(each.get(name, 0.0) for each in others))
    part = max(more, key=lambda name: median(more[name]))
    return Suspect(slowest, part, median(more[part]))
