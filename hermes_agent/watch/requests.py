"""Capture requests to ranks, no more than a run can bear."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.monitor.format import CAPTURES, captured_bytes
from hermes_agent.monitor.ring import CaptureRequest
from hermes_agent.watch.rings import RunRings

AHEAD = 2  # steps between the request and its begin, so that all ranks profile the same ones


@dataclass(frozen=True)
class RequestLimits:
    """Limits of what the agent requests by itself; a rank has limits of its own on top."""

    steps: int = 3
    per_hour: int = 4
    apart_s: float = 60.0
    worse: float = 1.5  # times the cost of the last one: so much worse need not wait
    total_bytes: int = 1 << 30


@dataclass(frozen=True)
class RequestedCapture:
    """A request that was put to ranks, or why it was not."""

    request: int
    ranks: tuple[int, ...]
    steps: int
    refused: str = ""


class CaptureRequests:
    """Counts the captures of one run folder. Times are seconds of a clock that only goes forward."""

    def __init__(self, run_folder: Path, rings: RunRings, limits: RequestLimits) -> None:
        self._folder, self._rings, self._limits = run_folder, rings, limits
        self._made: deque[float] = deque()
        self._last_id = 0
        self._last_cost_ms = 0.0

    def by_itself(self, ranks: Sequence[int], last_step: int, cost_ms: float, now_s: float) -> RequestedCapture:
        """A capture that an anomaly of that cost calls for, within the limits."""
        limits = self._limits
        while self._made and now_s - self._made[0] > 3600:
            self._made.popleft()
        refused = ""
        if len(self._made) >= limits.per_hour:
            refused = f"{limits.per_hour} captures were made within the hour"
        elif self._made and now_s - self._made[-1] < limits.apart_s and cost_ms < limits.worse * self._last_cost_ms:
            refused = f"the last capture was less than {limits.apart_s:.0f} s ago"
        elif captured_bytes(self._folder) >= limits.total_bytes:
            refused = f"the captures fill {limits.total_bytes} bytes"
        if refused:
            return RequestedCapture(0, tuple(ranks), limits.steps, refused)
        self._made.append(now_s)
        self._last_cost_ms = cost_ms
        return self.by_hand(ranks, limits.steps, last_step)

    def by_hand(self, ranks: Sequence[int], steps: int, last_step: int) -> RequestedCapture:
        """A capture that a person requests; only the ranks' own limits hold."""
        self._last_id = max(self._last_id, self._highest()) + 1
        for rank in ranks:
            self._rings.ask(rank, CaptureRequest(self._last_id, steps, last_step + AHEAD))
        return RequestedCapture(self._last_id, tuple(ranks), steps)

    def _highest(self) -> int:
        """The highest id in use: of the captures in the folder, and of the ranks' answers."""
        names = [folder.name.removeprefix(CAPTURES) for folder in self._folder.glob(f"{CAPTURES}*")]
        answered = [self._rings.answer(rank)[0] for rank in self._rings.ranks()]
        return max([int(name) for name in names if name.isdigit()] + answered, default=0)
