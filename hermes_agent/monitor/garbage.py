"""Pauses of the garbage collector, measured by its own callbacks."""

from __future__ import annotations

import gc
from collections import deque
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple

from hermes_agent.monitor.raw import GC, GC_LONGEST, GC_RUNS

NOTED_NS = 1_000_000  # shorter pauses are in the step's sum only
MOST_NOTED = 1000


class Pause(NamedTuple):
    """One collection that was long enough to be noted."""

    end_unix_ns: int
    generation: int
    pause_us: int
    collected: int


class GarbageWatch:
    """Running sums since the start, and the long pauses; written by whichever thread collects, one at a time."""

    def __init__(self, totals: list[int]) -> None:
        self._totals = totals
        self.pauses: deque[Pause] = deque(maxlen=MOST_NOTED)
        self._begun_ns = 0

    def start(self) -> None:
        """Begins to listen."""
        gc.callbacks.append(self._heard)

    def stop(self) -> None:
        """Ceases to listen."""
        if self._heard in gc.callbacks:
            gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._begun_ns = perf_counter_ns()
            return
        if not self._begun_ns:
            return
        pause_ns = perf_counter_ns() - self._begun_ns
        totals = self._totals
        totals[GC] += pause_ns
        totals[GC_RUNS] += 1
        if pause_ns > totals[GC_LONGEST]:
            totals[GC_LONGEST] = pause_ns
        if pause_ns >= NOTED_NS:
            self.pauses.append(Pause(time_ns(), info["generation"], pause_ns // 1000, info["collected"]))
