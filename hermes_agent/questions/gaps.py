"""What could not be checked, and what to record so that it can be."""

from __future__ import annotations

from hermes_agent.model.display import plain
from hermes_agent.questions.coverage import CHECKS_OF_CAUSE
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, listed
from hermes_agent.questions.question import Question
from hermes_agent.questions.suspicion import check_text
from tools.knowledge.taxonomy import causes


def what_is_open(discussion: Discussion, _: Question) -> str:
    """The checks that could not answer, and the causes that no analyzer looks for."""
    unanswered = [check for check in discussion.diagnosis.checks if check.status == "cannot_answer"]
    names: dict[str, list[str]] = {}
    for check in unanswered:
        names.setdefault(check_text(discussion, check), []).append(f"`{check.analyzer}`")
    rows = [f"{listed(together)}: {text}" for text, together in names.items()]
    lead = (
        "These questions could not be answered from the sources:\n" + bullets(rows)
        if rows
        else "Every question that Hermes asks of such a run could be answered."
    )
    unwatched = [plain(name) for name in causes() if name not in CHECKS_OF_CAUSE]
    return blocks([lead, f"There is no analyzer yet for: {', '.join(unwatched)}." if unwatched else ""])
