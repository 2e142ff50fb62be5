"""A finding with what fixing it would save."""

from __future__ import annotations

from dataclasses import dataclass

from tools.findings import Finding
from tools.run.model import Run, has_steps
from tools.whatif.predict import Prediction


@dataclass(frozen=True, eq=False)
class RankedCause:
    """A finding with what fixing it would save.

    ``impact_ms`` is what the step would lose if the cause were gone, never more than the fixes before it leave.
    ``then_ms`` is what it saves after those fixes: more than ``impact_ms`` where they mask it. Both are of a step of
    ``step_ms``, one for the whole list: the mean traced one, or the mean unprofiled one where a saving is from records.
    """

    finding: Finding
    check: str
    step_ms: float
    impact_ms: float
    impact_pct: float
    then_ms: float
    alone: Prediction | None  # the step if only this were changed; None when it cannot be replayed
    method: str
    symptoms: tuple[Finding, ...] = ()
    masked_by: tuple[int, ...] = ()  # places of the causes that mask it, from 1
    shared_with: tuple[int, ...] = ()  # places of the causes that would save some of the same milliseconds alone

    @property
    def at_most(self) -> bool:
        """Whether the saving is the most that it can be, and how much less is not known."""
        return self.alone is not None and self.alone.at_most


MOST_UNMARKED = 0.5  # of a recording without marked steps: what saves more takes away what need be in no step


def mostly_start_up(run: Run, cause: RankedCause) -> bool:
    """Whether no steps are marked and the change would take away most of the recording, which need be no step."""
    if steps_marked(run) or cause.alone is None:
        return False
    return cause.alone.saving_ms > MOST_UNMARKED * cause.alone.step_ms_before


def steps_marked(run: Run) -> bool:
    """Return whether steps were found; else the whole recording counts as one step. Records hold whole steps."""
    return has_steps(run)
