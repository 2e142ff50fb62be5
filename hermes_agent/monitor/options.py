"""How the monitor of one rank works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hermes_agent.monitor.capture import CaptureLimits, Profiler, TorchProfiler
from hermes_agent.monitor.flush import FlushPlan


@dataclass(frozen=True)
class Options:
    """The defaults are meant for training."""

    capacity: int = 4096  # records in the ring
    plan: FlushPlan = field(default_factory=FlushPlan)
    limits: CaptureLimits = field(default_factory=CaptureLimits)
    watch_loaders: bool = True  # time every torch DataLoader without wrapping it
    profiler: Callable[[], Profiler] = TorchProfiler
    host: str | None = None  # name of the machine in the records, its own where None
    end_limit_s: float = 30.0  # what ending may wait for files and traces
