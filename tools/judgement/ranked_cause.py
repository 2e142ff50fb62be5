"""A finding with what fixing it would save, and how much of that lasts beyond the start-up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tools.findings import Finding
from tools.intervals import IntervalSet, covered, length, union
from tools.run.model import Run
from tools.views.profile import Profile
from tools.whatif.change import Change, Scale
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


STARTED_SHARE = 0.05  # of all computation: before this much is done, an unmarked recording is still starting up


def steps_marked(run: Run) -> bool:
    """Return whether steps were found; else the whole recording counts as one step. Records hold whole steps."""
    return not run.ranks or any(rank.step_origin != "window" for rank in run.ranks)


def lasting_pct(profile: Profile, cause: RankedCause) -> float:
    """The cause's share of the step without what falls into the start-up of an unmarked recording."""
    if steps_marked(profile.run) or not cause.finding.change:
        return cause.impact_pct
    return cause.impact_pct * _share_after_start(profile, cause.finding.change)


def _share_after_start(profile: Profile, change: Change) -> float:
    after = whole = 0.0
    for part in change:
        rank = profile.rank(part.rank)
        spans = part.intervals if isinstance(part, Scale) else union(rank.start[part.rows], rank.end[part.rows])
        if len(spans):
            begin = np.array([_started_ns(rank.parts.compute, int(spans[0, 0]))], dtype=np.int64)
            after += float(covered(spans, begin, np.maximum(spans[-1:, 1], begin)).sum())
            whole += float(length(spans))
    return after / whole if whole else 1.0


def _started_ns(computing: IntervalSet, otherwise_ns: int) -> int:
    if not len(computing):
        return otherwise_ns
    done = np.cumsum(computing[:, 1] - computing[:, 0])
    return int(computing[int(np.searchsorted(done, STARTED_SHARE * done[-1], side="right")), 0])
