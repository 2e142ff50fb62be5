"""What changed against the baseline?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets
from hermes_agent.questions.question import Question


def against_baseline(discussion: Discussion, _: Question) -> str:
    """The comparison that the diagnosis holds, or how to get one."""
    comparison = discussion.diagnosis.comparison
    if comparison is None:
        return (
            "This run was diagnosed without a baseline, so there is nothing to compare with. "
            "`hermes-dx compare BEFORE AFTER` compares two runs, and `--baseline RUN` makes it part of the diagnosis."
        )
    return blocks([comparison.headline, bullets(comparison.changes)])
