"""Whether the ranks that a question names exist, and which steps there are."""

from __future__ import annotations

from hermes_agent.model.display import rank_list
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.question import Question


def no_such_rank(discussion: Discussion, question: Question) -> str:
    """That a rank the question names was not recorded, and which were; empty when all were."""
    run = discussion.diagnosis.run
    known = run.ranks or (run.recorded.ranks if run.recorded else [])
    if all(rank in known for rank in question.ranks):
        return ""
    return f"This run has no such rank; it has {rank_list(known)}."


def step_list(first: int, last: int) -> str:
    """``step 3`` or ``steps 3 to 9``."""
    return f"step {first}" if first == last else f"steps {first} to {last}"
