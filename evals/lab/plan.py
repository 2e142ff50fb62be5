"""What one launch of the training is asked to do, as written for its processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evals.lab.faults import World

RANKS = 2
WARMUP_STEPS = 4
MEASURED_STEPS = 34  # per launch; two launches of each world
PROFILED_STEPS = 5


@dataclass(frozen=True)
class Plan:
    """One launch: the world, the folder for its data and records, and whether a profiler watches the last steps."""

    world: World
    folder: Path
    profile: bool
    measured_steps: int = MEASURED_STEPS

    @property
    def measured(self) -> range:
        """Steps whose time counts: after the warm-up and before any profiler is active."""
        return range(WARMUP_STEPS, WARMUP_STEPS + self.measured_steps)

    @property
    def profiled(self) -> range:
        """Steps in the trace; one step between lets the profiler start, as its own warm-up."""
        first = self.measured.stop + 1
        return range(first, first + PROFILED_STEPS) if self.profile else range(0)

    @property
    def steps(self) -> int:
        """Steps in all."""
        return max(self.measured.stop, self.profiled.stop)

    def trace(self, rank: int) -> Path:
        """Where that rank's Kineto trace goes."""
        return self.folder / f"rank{rank}.pt.trace.json"

    def step_log(self, rank: int) -> Path:
        """Where that rank's step log goes: one JSON object per step."""
        return self.folder / f"steps_rank{rank}.jsonl"

    def summary(self, rank: int) -> Path:
        """Where that rank reports its versions and its last loss."""
        return self.folder / f"summary_rank{rank}.json"


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan for the processes of a launch."""
    path.write_text(json.dumps({**asdict(plan), "folder": str(plan.folder)}), encoding="utf-8")


def read_plan(path: Path) -> Plan:
    """Read back what ``write_plan`` wrote."""
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    world = saved.pop("world")
    world["raw_images_on"] = tuple(world["raw_images_on"])
    return Plan(world=World(**world), folder=Path(saved.pop("folder")), **saved)
