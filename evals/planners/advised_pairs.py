"""``python -m evals.planners.advised_pairs``: the advised setting of recorded lab pairs against what it measured.

Each pair holds a slow run and the same training with the fault fixed, measured without a profiler in turn. The advice
is that of the slow run's diagnosis; its setting is predicted as ``hermes-dx whatif`` does.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.judgement.planned_settings import planned_setting
from tools.judgement.ranking import ranking
from tools.judgement.what_if import answered
from tools.sources.load import load_run
from tools.views.profile import Profile

RECORDED = Path(__file__).parents[1] / "lab/recorded"
FAULTS = ("tiny_buckets", "heavy_stage", "few_micro_batches")
HEADER = (
    "| pair | cause found | advised | predicted speedup | measured speedup | in the range |\n|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class AdvisedPair:
    """One recorded pair: speedups are step time before over after; None where no setting is advised or predicted."""

    pair: str
    cause: str
    setting: str
    predicted: float | None
    low: float | None
    high: float | None
    measured: float

    @property
    def holds(self) -> bool:
        """Whether the measured speedup lies in the predicted range."""
        return self.low is not None and self.high is not None and self.low <= self.measured <= self.high

    def line(self) -> str:
        """The row of the table."""
        span = "none" if self.predicted is None else f"{self.predicted:.2f} ({self.low:.2f} to {self.high:.2f})"
        inside = "yes" if self.holds else "no"
        return f"| {self.pair} | {self.cause} | `{self.setting}` | {span} | {self.measured:.2f} | {inside} |"


def advised_pair(folder: Path) -> AdvisedPair:
    """Diagnose the slow run of a recorded pair, predict the advised setting and read what the fix measured."""
    profile = Profile(load_run([folder / "slow"]))
    measured = float(json.loads((folder / "measured.json").read_text("utf-8"))["speedup"]["median"])
    name = f"{folder.parent.name}/{folder.name}"
    for each in ranking(profile).causes:
        planned = planned_setting(profile, each.finding)
        if planned is not None and planned.setting:
            found = answered(profile, planned.setting).prediction
            if found is None:
                return AdvisedPair(name, each.finding.cause, planned.setting, None, None, None, measured)
            low, high = found.speedup_low, found.speedup_high
            return AdvisedPair(name, each.finding.cause, planned.setting, found.speedup, low, high, measured)
    return AdvisedPair(name, "none with a planned setting", "", None, None, None, measured)


def recorded_pairs(places: Sequence[Path]) -> list[Path]:
    """The recorded pairs of the faults that a planner is about."""
    return [
        label.parent for place in places for fault in FAULTS for label in sorted(place.glob(f"{fault}/*/label.json"))
    ]


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; exits with 1 where there is no pair."""
    parser = argparse.ArgumentParser(prog="python -m evals.planners.advised_pairs", description=__doc__)
    parser.add_argument("recordings", nargs="*", type=Path, help="further folders of `python -m evals.lab record`")
    args = parser.parse_args(words)
    pairs = [advised_pair(folder) for folder in recorded_pairs([RECORDED, *args.recordings])]
    print("\n".join([HEADER, *(pair.line() for pair in pairs)]))
    print(f"\n{sum(pair.holds for pair in pairs)} of {len(pairs)} measured speedups lie in the predicted range.")
    return int(not pairs)


if __name__ == "__main__":
    raise SystemExit(main())
