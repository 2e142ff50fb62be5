"""The anomalies that wait for a capture: the strongest is captured as soon as a capture is allowed, while it lasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_agent.watch.anomaly import NO_RANK, Anomaly, AnomalyKind
from hermes_agent.watch.parts import WHOLE_STEP
from hermes_agent.watch.series import DEFAULT, WatchThresholds

CAPTURED_KINDS = frozenset(
    {AnomalyKind.CHANGE, AnomalyKind.DRIFT, AnomalyKind.STALL, AnomalyKind.SLOW_RANK, AnomalyKind.RANK_CHANGE}
)
STILL_SHARE = 0.5  # of the excess that must still be there when a capture is allowed
WORSE = 1.5  # times what the captured anomaly of a rank cost: less than that is the same fault


@dataclass(frozen=True)
class Present:
    """The last steps of the group in ms: their median, and by how much each rank's own time is above the others'."""

    step: int
    step_ms: float
    lead_ms: Mapping[int, float]

    @property
    def ahead(self) -> tuple[int, int] | None:
        """The ranks with the most and the least own time; None where they are not known."""
        if not self.lead_ms:
            return None
        order = sorted(self.lead_ms, key=lambda rank: self.lead_ms[rank])
        return order[-1], order[0]


class Suspicions:
    """One suspicion for each rank, and one without a rank: a later and stronger one takes the place of the older."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._open: dict[int, Anomaly] = {}
        self._ended: dict[int, int] = {}  # by rank, since which step the excess of its open anomaly is gone
        self._captured_ms: dict[int, float] = {}  # by rank, what its captured anomaly cost

    def add(self, anomaly: Anomaly) -> None:
        """Note an anomaly that a capture may explain; waiting for a core is none, nor is what is captured already."""
        if anomaly.deviation.kind is AnomalyKind.RECOVERY:
            self._captured_ms.clear()
        if anomaly.suspect and anomaly.cost_ms < WORSE * self._captured_ms.get(anomaly.rank, 0.0):
            return
        if anomaly.deviation.kind not in CAPTURED_KINDS or anomaly.contention:
            return
        older = self._open.get(anomaly.rank)
        if older is None or anomaly.cost_ms >= older.cost_ms:
            self._open[anomaly.rank] = anomaly

    def strongest(self, present: Present) -> Anomaly | None:
        """Return what costs most of the suspicions with a rank, else one without that has lasted.

        What is gone for some steps is dropped; on a noisy machine a single window may hide it.
        """
        lasting = {rank for rank, each in self._open.items() if _lasts(each, present)}
        self._ended = {rank: self._ended.get(rank, present.step) for rank in self._open if rank not in lasting}
        over = {rank for rank, since in self._ended.items() if present.step - since >= self._at.confirm}
        self._open = {rank: each for rank, each in self._open.items() if rank not in over}
        open_now = [each for rank, each in self._open.items() if rank in lasting]
        ready = [each for each in open_now if each.suspect or self._confirmed(each, present)]
        return max(ready, key=lambda each: (each.suspect is not None, each.cost_ms), default=None)

    def settle(self, anomaly: Anomaly) -> None:
        """Forget a suspicion that is captured; one without a rank is settled by the capture of any rank."""
        self._open.pop(anomaly.rank, None)
        self._open.pop(NO_RANK, None)
        # A change that began among usual steps looks smaller than what its rank lost.
        lost_ms = anomaly.suspect.excess_ms if anomaly.suspect else 0.0
        self._captured_ms[anomaly.rank] = max(anomaly.cost_ms, lost_ms)

    def reopen(self, anomaly: Anomaly) -> None:
        """Note a suspicion again whose capture a rank refused or failed to make."""
        self._captured_ms.pop(anomaly.rank, None)
        self._open.setdefault(anomaly.rank, anomaly)

    def _confirmed(self, anomaly: Anomaly, present: Present) -> bool:
        seen = anomaly.deviation
        large = seen.excess_ms >= self._at.rank_share * seen.usual_ms
        return (large or seen.kind is not AnomalyKind.CHANGE) and present.step - seen.noticed >= self._at.confirm


def _lasts(anomaly: Anomaly, present: Present) -> bool:
    """Return whether the excess is still there. What comes in intervals or slowly does not go away by itself."""
    seen = anomaly.deviation
    if seen.kind in (AnomalyKind.STALL, AnomalyKind.DRIFT):
        return True
    if anomaly.suspect is not None and anomaly.suspect.part != WHOLE_STEP and anomaly.rank in present.lead_ms:
        return present.lead_ms[anomaly.rank] >= STILL_SHARE * anomaly.suspect.excess_ms
    if seen.kind is AnomalyKind.CHANGE:
        return present.step_ms - seen.usual_ms >= STILL_SHARE * seen.excess_ms
    return True
