"""What is said of causes that no check found: what was looked at, what is open, and what nobody looks for."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_agent.model.display import cause_title
from hermes_agent.questions.answers.cause_status import CauseStatus, Kind
from hermes_agent.questions.answers.certainty import check_text
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import capital, general, listed, paragraph
from hermes_agent.questions.reading.question import Subject, wording
from tools.knowledge.taxonomy import causes

NOT_FOUND: tuple[Kind, ...] = ("unpriced", "open", "other", "absent", "clean")


def _name(subject: Subject, status: CauseStatus) -> str:
    return subject.title if subject.mechanism else cause_title(status.cause, None)


def unwatched(subject: Subject, found: Sequence[CauseStatus]) -> str:
    """That no check looks for some of the causes, and the signs of a single one; empty where each is looked for."""
    names = [_name(subject, each) for each in found if each.kind == "unwatched"]
    if not names:
        return ""
    signs = f"Signs to look for: {signs_of(found[0].cause)}." if len(found) == 1 else ""
    return paragraph([f"There is no analyzer for {listed(names)} yet, so this is open, not ruled out.", signs])


def about_not_found(discussion: Discussion, subject: Subject, found: Sequence[CauseStatus]) -> list[str]:
    """The evidence against the causes that were not found; causes with the same answer share one paragraph.

    A reason, or what is needed, that several of them have in common is said once.
    """
    names: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind in NOT_FOUND:
        for each in found:
            if each.kind == kind:
                key = wording(f"not_found_{kind}"), tuple(dict.fromkeys(_checked(discussion, each)))
                names.setdefault(key, []).append(_name(subject, each))
    said: set[str] = set()
    paragraphs = []
    for (lead, sentences), group in names.items():
        fresh = [each for each in sentences if each not in said]
        nearest = wording("nearest_checks") if fresh and lead == wording("not_found_absent") else ""
        paragraphs.append(paragraph([lead.format(listed(group, "or")), nearest, *fresh]))
        said.update(sentences)
    return paragraphs


def _checked(discussion: Discussion, status: CauseStatus) -> list[str]:
    """What the checks of a cause that was not found say, those that answered first, and what counts against others."""
    answered = [check_text(check) for check in status.checks if check.status != "cannot_answer"]
    unanswered = [check for check in status.checks if check.status == "cannot_answer"]
    reasons = [f"{capital(general(check.reason))}." for check in unanswered]
    needs = [f"What it needs: {general(check.needs)}." for check in unanswered]
    texts = [*answered, *reasons, *needs]
    if status.kind == "other":
        names = {check.analyzer for check in status.checks}
        instead = [record for record in discussion.diagnosis.causes if record.check in names]
        texts += [f"Against it: {text}" for record in instead for text in record.against]
    return texts


def signs_of(cause: str) -> str:
    """The signs of a cause in one row."""
    return "; ".join(general(sign) for sign in causes()[cause].signals)
