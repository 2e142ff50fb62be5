"""How sure is the diagnosis?"""

from __future__ import annotations

from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.model.display import cause_title, on_ranks
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, general, listed, paragraph
from hermes_agent.questions.question import Question
from tools.errors import UsageError
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import ranking
from tools.judgement.savings import cause_key
from tools.knowledge.thresholds import DEFAULTS

CAUSES_TOLD = 5
VERDICTS = {
    "problem": "The verdict is a problem: a cause is well supported and costs a noticeable part of the step.",
    "healthy": "The verdict is healthy: what could be checked was checked, and nothing worth changing was found.",
    "inconclusive": "The verdict is inconclusive: what was found is not supported well enough to be called the cause.",
}
MEANING = (
    "Every figure is measured on the recording and can be measured again, `show E1` does; "
    "what is uncertain is the cause."
)


def how_sure(discussion: Discussion, _: Question) -> str:
    """The verdict's grounds, for each cause how well it is supported and what would disprove it, and what is open."""
    diagnosis = discussion.diagnosis
    told = [_cause(discussion, each) for each in diagnosis.causes[:CAUSES_TOLD]]
    return blocks([paragraph([VERDICTS[diagnosis.verdict], MEANING]), bullets(told), _open(discussion)])


def _cause(discussion: Discussion, cause: CauseRecord) -> str:
    name = (
        f"{capital(cause_title(cause.cause, cause.mechanism))}{on_ranks(cause.ranks, discussion.diagnosis.run.ranks)}"
    )
    supported = cause.confidence >= DEFAULTS["confidence"].value
    lead = f"{name} is {'well supported' if supported else 'a hypothesis'}: confidence `{cause.confidence:.2f} of 1`"
    parts = [f"{lead}, by how far the figures pass the limits.", _interval(discussion, cause)]
    parts += [f"Against it: {contrary}" for contrary in cause.against]
    if cause.disproved_by:
        parts.append(f"What would disprove it: {general(cause.disproved_by)}.")
    return paragraph(parts)


def _interval(discussion: Discussion, cause: CauseRecord) -> str:
    """Between what the speedup without the cause is expected to lie."""
    ranked = _ranked(discussion, cause)
    if ranked is None:
        return ""
    name, mechanism, ranks = cause_key(ranked)
    try:
        low, high = (
            discussion.measure("predicted_speedup", cause=name, mechanism=mechanism, ranks=ranks, bound=bound)
            for bound in ("low", "high")
        )
    except UsageError:
        return "What its removal brings is not predicted."
    return discussion.say("Without it a step is expected to be between {0} and {1} as fast.", low, high)


def _ranked(discussion: Discussion, cause: CauseRecord) -> RankedCause | None:
    for each in ranking(discussion.material.profile()).causes:
        finding = each.finding
        if (finding.cause, finding.mechanism, each.check) == (cause.cause, cause.mechanism, cause.check) and (
            list(finding.ranks) in (cause.ranks, [])
        ):
            return each
    return None


def _open(discussion: Discussion) -> str:
    open_checks = [f"`{each.analyzer}`" for each in discussion.diagnosis.checks if each.status == "cannot_answer"]
    if not open_checks:
        return "Every question that Hermes asks of such a run could be answered."
    return (
        f"What could not be answered from these sources: {listed(open_checks)}; “What could you not check?” says why."
    )
