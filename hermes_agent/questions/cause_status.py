"""The status of one cause in a diagnosis: listed, minor, ruled out, open, or not looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from hermes_agent.questions.discussion import Discussion
from tools.analyzers.registry import checks_for, has_own_check
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import ranking

Kind = Literal[
    "listed",  # among the ranked causes
    "minor",  # found, but saves too little to be ranked
    "other",  # the checks that look for it found something else instead
    "clean",  # all its checks looked, and it is not there
    "open",  # at least one of its checks could not answer
    "absent",  # it has checks, but none of them was made on this run
    "unwatched",  # no check looks for it
]


@dataclass(frozen=True, eq=False)
class CauseStatus:
    """The outcome of the checks for one cause, or one mechanism of it.

    ``listed`` holds places in the ranking (0 first) and records; for ``absent``, ``checks`` holds the nearest ones.
    """

    cause: str
    mechanism: str | None
    kind: Kind
    checks: tuple[CheckRecord, ...] = ()
    listed: tuple[tuple[int, CauseRecord], ...] = ()
    minor: tuple[RankedCause, ...] = ()


def cause_status(discussion: Discussion, cause: str, mechanism: str | None = None) -> CauseStatus:
    """The status of a cause, or of one mechanism of it."""
    names, records = checks_for(cause, mechanism), discussion.diagnosis.checks
    checks = tuple(check for check in records if check.analyzer in names)
    if listed := _listed(discussion, cause, mechanism):
        return CauseStatus(cause, mechanism, "listed", checks, listed)
    if not names:
        return CauseStatus(cause, mechanism, "unwatched")
    if not checks:
        topics = {name.partition(".")[0] for name in names}
        near = tuple(check for check in records if check.analyzer.partition(".")[0] in topics)
        return CauseStatus(cause, mechanism, "absent", near)
    found = any(check.status == "found" for check in checks)
    if found and (minor := _minor(discussion, cause, mechanism)):
        return CauseStatus(cause, mechanism, "minor", checks, minor=minor)
    if any(check.status == "cannot_answer" for check in checks):
        return CauseStatus(cause, mechanism, "open", checks)
    return CauseStatus(cause, mechanism, "other" if found else "clean", checks)


def _listed(discussion: Discussion, cause: str, mechanism: str | None) -> tuple[tuple[int, CauseRecord], ...]:
    same = [(place, record) for place, record in enumerate(discussion.diagnosis.causes) if record.cause == cause]
    exact = [(place, record) for place, record in same if mechanism in (None, record.mechanism)]
    return tuple(exact if exact or has_own_check(mechanism) else same)


def _minor(discussion: Discussion, cause: str, mechanism: str | None) -> tuple[RankedCause, ...]:
    same = [each for each in ranking(discussion.material.profile()).below if each.finding.cause == cause]
    return tuple(each for each in same if mechanism is None or each.finding.mechanism in (None, mechanism))
