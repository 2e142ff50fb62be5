"""What one launch of the training is asked to do, as written for its processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from evals.lab.scenarios import Training

WARMUP_STEPS = 4
MEASURED_STEPS = 34  # per launch; two launches of each scenario
PERIODIC_STEPS = 60  # where the fault hits some steps only
PROFILED_STEPS = 3


@dataclass(frozen=True)
class Plan:
    """One launch: the options of the script, the folder for its data and records, and whether its end is profiled."""

    training: Training
    folder: Path
    ranks: int
    profile: bool
    measured_steps: int = MEASURED_STEPS

    @property
    def measured(self) -> range:
        """Steps whose time counts: after the warm-up and before any profiler of the lab is active."""
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

    @property
    def run(self) -> Path:
        """The folder of what is recorded."""
        return self.folder / "run"

    def trace(self, rank: int) -> Path:
        """Where that rank's Kineto trace goes."""
        return self.run / f"rank{rank}.pt.trace.json"

    def step_log(self, rank: int) -> Path:
        """Where that rank's step log goes: one JSON object per step."""
        return self.run / f"steps_rank{rank}.jsonl"

    def summary(self, rank: int) -> Path:
        """Where that rank reports its versions and its last loss."""
        return self.folder / f"summary_rank{rank}.json"

    def messages(self, rank: int) -> Path:
        """What that rank printed."""
        return self.folder / f"messages_rank{rank}.txt"

    def samples(self, rank: int) -> Path:
        """The disk of that rank."""
        return self.folder / f"data{rank}"


_PLANS = TypeAdapter(Plan)


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan for the processes of a launch."""
    path.write_bytes(_PLANS.dump_json(plan))


def read_plan(path: Path) -> Plan:
    """Read back what ``write_plan`` wrote."""
    return _PLANS.validate_json(path.read_bytes())
