"""What the tests of the monitor share: options for short runs, fakes, and starting a script of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from hermes_agent.monitor.capture import CaptureLimits
from hermes_agent.monitor.flush import FlushPlan
from hermes_agent.monitor.format import UNKNOWN_DEPTH, UNKNOWN_US, StepRecord
from hermes_agent.monitor.session import Options

REPOSITORY = Path(__file__).resolve().parents[3]


class FakeProfiler:
    """Writes which steps it saw."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def start(self, first_step: int, steps: int) -> None:
        self.seen.append(first_step)

    def step(self) -> None:
        self.seen.append(self.seen[-1] + 1)

    def stop(self) -> None:
        pass

    def export(self, path: Path) -> None:
        path.write_text(" ".join(map(str, self.seen)), encoding="utf-8")


class BrokenProfiler(FakeProfiler):
    """Cannot start."""

    def start(self, first_step: int, steps: int) -> None:
        raise RuntimeError("another profiler is running in this process")


def options(
    capacity: int = 512, limits: CaptureLimits | None = None, profiler: type[FakeProfiler] = FakeProfiler
) -> Options:
    """Flushes often enough for a test."""
    return Options(capacity=capacity, plan=FlushPlan(flush_s=0.02), limits=limits or CaptureLimits(), profiler=profiler)


def record(
    step: int, wall_ms: float, data_wait_ms: float = 0.0, own_ms: float | None = None, **more: int
) -> StepRecord:
    """A record as a rank writes it."""
    empty = dict.fromkeys(StepRecord._fields, 0)
    known = {
        "sequence": step,
        "step": step,
        "end_unix_ns": 1 + step,
        "wall_us": int(wall_ms * 1e3),
        "data_wait_us": int(data_wait_ms * 1e3),
        "own_us": UNKNOWN_US if own_ms is None else int(own_ms * 1e3),
        "in_flight": UNKNOWN_DEPTH,
        "result_queue": UNKNOWN_DEPTH,
        "pinned_queue": UNKNOWN_DEPTH,
    }
    return StepRecord(**(empty | known | more))


def start_script(text: str, *arguments: str, python: str = sys.executable, **environment: str) -> subprocess.Popen[str]:
    """Runs Python text in a process of its own."""
    paths = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [python, "-c", textwrap.dedent(text), *arguments],
        env={**os.environ, "PYTHONPATH": paths, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
