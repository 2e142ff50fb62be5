"""``python -m evals.planners.asked_pairs``: what-ifs that say what the fix of a lab pair did, against what it measured.

The change comes from the table of faults, not from a diagnosis: the fixed run's ``num_workers``, the ratio of the
links' rates, the slow rank, or no waits for data where the fix prepares samples before training or reads them from a
local disk. Measured without a profiler. Half precision and waits for a device need a device, which the lab has not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evals.lab.environment_faults.network import LinkedHosts
from evals.lab.job import Job, every_job
from evals.lab.scenarios import Scenario
from evals.planners.advised_pairs import RECORDED
from tools.judgement.what_if import answered
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.predict import Prediction

HEADER = "| pair | asked | predicted speedup | measured speedup | in the range |\n|---|---|---|---|---|"
PREPARED = ("heavy_transform", "throttled_storage")  # fixes that leave next to nothing of the waits for data


@dataclass(frozen=True)
class AskedPair:
    """One recorded pair: the speedup that a what-if predicts, None where it is refused, and the measured one."""

    pair: str
    asked: str
    predicted: Prediction | None
    why: str  # it is refused
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the measured speedup lies in the predicted range."""
        return self.predicted is not None and self.predicted.speedup_low <= self.measured <= self.predicted.speedup_high

    def line(self) -> str:
        """The row of the table."""
        if self.predicted is None:
            return f"| {self.pair} | `{self.asked}` | refused: {self.why} | {self.measured:.2f} | - |"
        span = f"{self.predicted.speedup:.2f} ({self.predicted.speedup_low:.2f} to {self.predicted.speedup_high:.2f})"
        return f"| {self.pair} | `{self.asked}` | {span} | {self.measured:.2f} | {'yes' if self.holds else 'no'} |"


def asked_of(job: Job) -> str:
    """The change of the grammar that the job's fix is; "" where none is."""
    if job.fault is None:
        return ""
    slow, fixed = job.scenarios["slow"], job.scenarios["fixed"]
    if job.kind in PREPARED:
        return "no waits for data"
    if job.kind == "too_few_workers":
        return f"num_workers={fixed.training.data.workers}"
    if job.kind == "slow_rank":
        return f"rank {job.fault.ranks[0]} as fast as the others"
    if job.kind == "narrow_link":
        return f"link {_rate_mbit(fixed) / _rate_mbit(slow):.6g}x"
    return ""


def _rate_mbit(scenario: Scenario) -> float:
    return next(each.rate_mbit for each in scenario.environment_faults if isinstance(each, LinkedHosts))


def asked_pairs(recorded: Path = RECORDED) -> Iterator[AskedPair]:
    """The recorded pairs whose fix is a change of the grammar, in the order of the table of faults."""
    for job in every_job():
        folder, asked = recorded / job.name, asked_of(job)
        if asked and (folder / "measured.json").is_file():
            found = answered(Profile(load_run([folder / "slow"])), asked)
            why = "; ".join(each.why for each in found.refused)
            measured = float(json.loads((folder / "measured.json").read_text("utf-8"))["speedup"]["median"])
            yield AskedPair(job.name, asked, found.prediction, why, measured)


def main() -> int:
    """Print the table; exits with 1 where there is no pair."""
    pairs = list(asked_pairs())
    print("\n".join([HEADER, *(pair.line() for pair in pairs)]))
    predicted = [pair for pair in pairs if pair.predicted is not None]
    print(f"\n{sum(pair.holds for pair in pairs)} of {len(predicted)} measured speedups lie in the predicted range.")
    return int(not pairs)


if __name__ == "__main__":
    raise SystemExit(main())
