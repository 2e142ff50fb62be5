"""Answers about how sure the diagnosis is, and what could not be checked."""

from __future__ import annotations

from hermes_agent.model.diagnosis import CauseRecord, CheckRecord
from hermes_agent.model.display import cause_heading, cause_title, on_ranks
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, general, listed, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.analyzers.registry import spec_of, unwatched_causes
from tools.knowledge.thresholds import Thresholds

WELL_SUPPORTED = Thresholds()["confidence"]


ALL_ANSWERED = "Every question that Hermes asks of such a run could be answered."


def where(discussion: Discussion, cause: CauseRecord) -> str:
    return on_ranks(cause.ranks, discussion.ranks, cause.stands_for)


RATED = 5  # causes whose confidence is given


OPEN_NAMED = 5  # checks without an answer that are named


def unanswered_checks(discussion: Discussion, _: Question) -> str:
    """The checks that could not answer, and the causes that no check looks for."""
    names: dict[str, list[str]] = {}
    for check in discussion.open_checks:
        names.setdefault(check_text(check), []).append(f"`{check.analyzer}`")
    rows = bullets(f"{listed(together)}: {text}" for text, together in names.items())
    lead = f"These questions could not be answered from the sources:\n{rows}" if rows else ALL_ANSWERED
    unwatched = ", ".join(cause_title(name, None) for name in unwatched_causes())
    return blocks([lead, f"There is no analyzer yet for: {unwatched}." if unwatched else ""])


def how_sure(discussion: Discussion, _: Question) -> str:
    """The verdict, for each cause how well it is supported and what would disprove it, and what is open."""
    diagnosis = discussion.diagnosis
    names = [f"“{spec_of(each.analyzer).title}”" for each in discussion.open_checks]
    more = [f"{len(names) - OPEN_NAMED} more"] if len(names) > OPEN_NAMED else []
    still_open = wording("open_checks").format(listed([*names[:OPEN_NAMED], *more])) if names else ALL_ANSWERED
    rated = bullets(_confidence(discussion, each) for each in diagnosis.causes[:RATED])
    return blocks([paragraph([wording(f"verdict_{diagnosis.verdict}"), wording("certain_figures")]), rated, still_open])


def check_text(check: CheckRecord) -> str:
    """The outcome of one check: its sentences, or why it cannot answer and what it needs."""
    if check.status != "cannot_answer":
        return paragraph(check.text)
    return f"{capital(general(check.reason))}. What it needs: {general(check.needs)}."


def _confidence(discussion: Discussion, cause: CauseRecord) -> str:
    name = f"{cause_heading(cause.cause, cause.mechanism)}{where(discussion, cause)}"
    support = "well supported" if cause.confidence >= WELL_SUPPORTED else "a hypothesis"
    lead = f"{name}: {support}, confidence `{cause.confidence:.2f} of 1`"
    return paragraph(
        [
            f"{lead}, by how far the figures pass the limits.",
            _interval(discussion, cause),
            *(f"Against it: {contrary}" for contrary in cause.against),
            f"Would be disproved if {general(cause.disproved_by)}." if cause.disproved_by else "",
        ]
    )


def _interval(discussion: Discussion, cause: CauseRecord) -> str:
    """The range in which the speedup without the cause is expected to lie."""
    if (impact := discussion.impact(cause)) is None:
        return ""
    of_cause = impact.arguments
    low, high = (discussion.measured("predicted_speedup", **of_cause, bound=bound) for bound in ("low", "high"))
    if low is None or high is None:
        if (most := discussion.measured("predicted_speedup", **of_cause)) is not None:
            return discussion.say("Without it a step is at most {0} as fast; how much less is not known.", most)
        return "What its removal brings is not predicted."
    return discussion.say("Without it a step is expected to be between {0} and {1} as fast.", low, high)
