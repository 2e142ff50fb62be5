"""What the checks of a run say of a cause: listed, small, of unknown cost, clean, open, or looked for by none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from hermes_agent.questions.discussion import Discussion
from tools.analyzers.registry import check_of, checks_for, has_own_check
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import ranking
from tools.knowledge.taxonomy import known_mechanism

Kind = Literal[
    "listed",  # among the ranked causes
    "minor",  # found, but saves too little to be ranked
    "unpriced",  # found on a run without steps, of which it would cost a part
    "other",  # the checks that look for it found something else instead
    "clean",  # all its checks looked, and it is not there
    "open",  # at least one of its checks could not answer
    "absent",  # it has checks, but none of them was made on this run
    "unwatched",  # no check looks for it
]


@dataclass(frozen=True, eq=False)
class CauseStatus:
    """The outcome of the checks for a cause; ``listed`` holds places from 0, ``checks`` the nearest where absent."""

    cause: str
    mechanism: str | None
    kind: Kind
    checks: tuple[CheckRecord, ...] = ()
    listed: tuple[tuple[int, CauseRecord], ...] = ()
    minor: tuple[RankedCause, ...] = ()


def cause_status(discussion: Discussion, cause: str, mechanism: str | None) -> CauseStatus:
    """What the checks that look for a cause, or for one mechanism of it, found."""
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
    if found and not discussion.profile().measured and (own := _unpriced(discussion, cause, checks)):
        return CauseStatus(cause, mechanism, "unpriced", own)
    if any(check.status == "cannot_answer" for check in checks):
        return CauseStatus(cause, mechanism, "open", checks)
    return CauseStatus(cause, mechanism, "other" if found else "clean", checks)


def _unpriced(discussion: Discussion, cause: str, checks: Sequence[CheckRecord]) -> tuple[CheckRecord, ...]:
    """Those of the checks that found the cause, on a run whose steps are not known."""
    answers = {each.analyzer: check_of(discussion.profile(), each.analyzer) for each in checks}
    found = {name for name, each in answers.items() if each and any(one.cause == cause for one in each.findings)}
    return tuple(each for each in checks if each.analyzer in found)


def _listed(discussion: Discussion, cause: str, mechanism: str | None) -> tuple[tuple[int, CauseRecord], ...]:
    same = [(place, record) for place, record in enumerate(discussion.diagnosis.causes) if record.cause == cause]
    exact = [(place, record) for place, record in same if mechanism in (None, record.mechanism)]
    if exact or not has_own_check(mechanism):
        return tuple(exact or same)
    # By the job's own output alone a cause whose mechanism is open may have any of them.
    recorded = not discussion.profile().traced
    return tuple(each for each in same if recorded and known_mechanism(each[1].mechanism) is None)


def _minor(discussion: Discussion, cause: str, mechanism: str | None) -> tuple[RankedCause, ...]:
    same = [each for each in ranking(discussion.profile()).below if each.finding.cause == cause]
    return tuple(
        each for each in same if mechanism is None or known_mechanism(each.finding.mechanism) in (None, mechanism)
    )
