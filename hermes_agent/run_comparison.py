"""What changed from one run to another, in words and with its figures, and whether that passes a limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hermes_agent.evidence.citations import without_citations
from hermes_agent.evidence.ledger import Ledger, render
from tools.comparison.compare import compare
from tools.comparison.noise import LEAST_STEPS, ChangeInterval, change_interval
from tools.views.profile import Profile

if TYPE_CHECKING:
    from tools.comparison.compare import Comparison

Outcome = Literal["passed", "within_noise", "regression", "not_assessable"]
TEST_TIME = "library_time_ms"  # the metric in place of a step where outputs of nccl-tests are compared
MANY_STEPS = 20  # that a recording should have for the gate


@dataclass(frozen=True)
class RunComparison:
    """Sentences without citations: their figures belong to no diagnosis. ``noise_pct``: of two recordings alike."""

    headline: str
    changes: tuple[str, ...]
    notes: tuple[str, ...]  # what was assumed
    comparison: Comparison
    interval: ChangeInterval | None  # None: too few steps
    noise_pct: float

    @property
    def against_noise(self) -> str:
        """Whether the change is more than the steps' own spread, as a sentence; "" where too few steps show it."""
        if self.interval is None:
            return ""
        low, high = self.interval.low_pct, self.interval.high_pct
        bounds = f"{self.change_pct:+.1f} %, 95 % interval {low:+.1f} to {high:+.1f} %"
        if low <= 0.0 <= high:
            return f"Within noise: {bounds}."
        if abs(self.change_pct) < self.noise_pct:
            return f"Within noise: {bounds}; two recordings of one program differ by {self.noise_pct:g} %."
        return f"Beyond noise: {bounds}."

    @property
    def comparable(self) -> str:
        """How far the runs can be compared, as a sentence."""
        found = self.comparison.comparability
        against = f": {'; '.join(found.reasons)}" if found.reasons else ""
        return f"Comparability {found.score:.2f} of 1{against}."

    @property
    def change_pct(self) -> float:
        """The change of the mean step in percent of the step before."""
        step = self.comparison.step
        return (step.after.value / step.before.value - 1.0) * 100.0


@dataclass(frozen=True)
class Gate:
    """Whether the step became longer than a limit allows; ``reason`` is one sentence."""

    outcome: Outcome
    reason: str


def compared(before: Profile, after: Profile) -> RunComparison:
    """The changes between two runs; raises NotComparableError with every reason against comparing them."""
    found = compare(Profile(before.run, before.thresholds, label="baseline"), after)
    ledger = Ledger()
    return RunComparison(
        without_citations(render(found.headline, ledger)),
        tuple(without_citations(render(change, ledger)) for change in found.changes),
        tuple(f"Not verified: {note}" for note in found.notes),
        found,
        None if found.step.before.metric == TEST_TIME else change_interval(before, after, found),
        before.thresholds["change_noise_pct"],
    )


def judged(found: RunComparison, allowed_pct: float) -> Gate:
    """Whether a regression beyond the limit is shown; what lies within noise is none.

    Noise is the spread of the steps (95 % interval), and what two recordings of one program differ by.
    """
    change, interval = found.change_pct, found.interval
    of_test = found.comparison.step.before.metric == TEST_TIME
    what = "the largest message of nccl-tests" if of_test else "the average step"
    if change <= allowed_pct:
        changed = "changed its time by" if of_test else "changed by"
        return Gate("passed", f"{what} {changed} {change:+.1f} %, {allowed_pct:g} % longer is allowed")
    longer = f"{what} {'takes' if of_test else 'is'} {change:.1f} % longer, {allowed_pct:g} % is allowed"
    if of_test:
        return Gate("not_assessable", f"{longer}, but one run of each shows no noise; repeat both tests")
    if interval is None:
        need = f"record at least {LEAST_STEPS} steps of each run, better {MANY_STEPS}"
        return Gate("not_assessable", f"{longer}, but too few steps were recorded to tell it from noise; {need}")
    bounds = f"95 % interval {interval.low_pct:+.1f} to {interval.high_pct:+.1f} %"
    if interval.low_pct <= 0.0:
        return Gate("within_noise", f"{longer}, but that is within the noise of the steps ({bounds})")
    if change < found.noise_pct:
        same = f"two recordings of one program differ by as much ({found.noise_pct:g} %)"
        return Gate("within_noise", f"{longer}, but {same}")
    return Gate("regression", f"{longer} ({bounds})")
