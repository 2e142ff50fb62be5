"""What of a recording without marked steps lies in its start-up, which no later step repeats."""

from __future__ import annotations

import numpy as np

from tools.intervals import IntervalSet, covered, length, union
from tools.judgement.ranked_cause import RankedCause
from tools.run.model import Run
from tools.views.profile import Profile
from tools.whatif.change import Change, Scale

STARTED_SHARE = 0.05  # of all computation: before this much is done, an unmarked recording is still starting up


def steps_marked(run: Run) -> bool:
    """Whether steps were found; without any, the whole recording stands for one step, its start-up included.

    Records tell whole steps.
    """
    return not run.ranks or any(rank.step_origin != "window" for rank in run.ranks)


def lasting_pct(profile: Profile, cause: RankedCause) -> float:
    """The cause's share of the step without what falls into the start-up of an unmarked recording."""
    if steps_marked(profile.run) or not cause.finding.change:
        return cause.impact_pct
    return cause.impact_pct * _share_after_start(profile, cause.finding.change)


def _share_after_start(profile: Profile, change: Change) -> float:
    """Share of what a change applies to that lies after the start-up."""
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
    """When the first computation beyond ``STARTED_SHARE`` began."""
    if not len(computing):
        return otherwise_ns
    done = np.cumsum(computing[:, 1] - computing[:, 0])
    return int(computing[int(np.searchsorted(done, STARTED_SHARE * done[-1], side="right")), 0])
