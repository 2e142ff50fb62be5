"""The rank that the diagnosis's first cause is on: what the traced steps alone may not show."""

from __future__ import annotations

from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.model.display import cause_title, rank_list
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import paragraph


def blamed(discussion: Discussion) -> CauseRecord | None:
    """The first cause where it is on some ranks and not on all that were looked at; None where it singles out none."""
    causes, run = discussion.diagnosis.causes, discussion.diagnosis.run
    known = run.ranks or (run.recorded.ranks if run.recorded else [])
    if not causes or set(causes[0].ranks) == set(known):
        return None
    return causes[0]


def which_is_on(discussion: Discussion, cause: CauseRecord) -> str:
    """Which cause that is and where, without a claim."""
    return f"{_called(discussion, cause)}, is on {rank_list(cause.ranks)}"


def first_blamed(discussion: Discussion, cause: CauseRecord) -> str:
    """The ranks to look at, and why: the claim of the cause and what it makes other ranks do."""
    lead = f"By the diagnosis it is {rank_list(cause.ranks)}: {_called(discussion, cause)}, was found there."
    return paragraph([lead, cause.claim, *cause.symptoms])


def _called(discussion: Discussion, cause: CauseRecord) -> str:
    which = "first" if discussion.diagnosis.verdict == "problem" else "likeliest"
    return f"its {which} cause, {cause_title(cause.cause, cause.mechanism)}"


def blamed_elsewhere(discussion: Discussion, rank: int) -> str:
    """That the first cause is on other ranks than this one; empty where it is on it, on all or not there."""
    cause = blamed(discussion)
    if cause is None or rank in cause.ranks:
        return ""
    return f"That is of the traced steps; the diagnosis looks elsewhere: {which_is_on(discussion, cause)}."
