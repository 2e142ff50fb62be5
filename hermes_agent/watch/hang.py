"""Notices that training stands still while its processes live, and which ranks are behind then."""

from __future__ import annotations

from collections.abc import Mapping

from hermes_agent.watch.anomaly import Anomaly, AnomalyKind, Deviation, Suspect
from hermes_agent.watch.thresholds import DEFAULT, WatchThresholds

MOST_NAMED = 8


class HangWatch:
    """Asked again and again; a standstill is told once, and again only after a step has ended in between."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._at = thresholds
        self._steps: dict[int, int] = {}
        self._moved_s: float | None = None
        self._told = False

    def look(self, steps: Mapping[int, int], usual_ms: float | None, now_s: float) -> list[Anomaly]:
        """``steps`` is the last step that each living rank has ended, ``now_s`` of a clock that only goes forward."""
        if self._moved_s is None or dict(steps) != self._steps:
            self._steps, self._moved_s, self._told = dict(steps), now_s, False
            return []
        waited_s = now_s - self._moved_s
        if self._told or usual_ms is None or not steps:
            return []
        if waited_s < max(self._at.hang_times * usual_ms / 1e3, self._at.hang_least_s):
            return []
        self._told = True
        step = min(steps.values()) + 1
        return [_standstill(Deviation(AnomalyKind.HANG, step, step, usual_ms, waited_s * 1e3), steps)]


def _standstill(seen: Deviation, steps: Mapping[int, int]) -> Anomaly:
    """A single rank that has not ended a step which all others have is a suspect; nobody else is blamed."""
    furthest = max(steps.values())
    behind = sorted(rank for rank, step in steps.items() if step < furthest)
    if len(behind) == 1 and len(steps) > 1:
        return Anomaly(seen, Suspect(behind[0], "the process", 0.0))
    if not behind:
        return Anomaly(seen, None, f"all ranks have ended step {furthest}, so which one holds them up is not known")
    named = ", ".join(map(str, behind[:MOST_NAMED])) + (" and others" if len(behind) > MOST_NAMED else "")
    return Anomaly(seen, None, f"ranks {named} are behind, the others have ended step {furthest}")
