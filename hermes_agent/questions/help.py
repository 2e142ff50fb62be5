"""What can be asked, and what is said to a question that is not understood."""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets
from hermes_agent.questions.similar import for_text

EXAMPLES = ("Why is it slow?", "What should I change first?", "Could it be the network?")


def what_can_be_asked(topics: list[tuple[str, str]]) -> str:
    """All topics with an example each."""
    rows = [f"{about}: “{example}”" for about, example in topics]
    return blocks(["You can ask:\n" + bullets(rows), "Answers cite their evidence; `show E1` opens it."])


def not_understood(discussion: Discussion, text: str) -> str:
    """That the question was not understood, three that would be, and cases close to its words."""
    lead = (
        "I answer from measurements without a language model, and this question I did not understand. Ask for example:"
    )
    return blocks([f"{lead}\n{bullets(f'“{example}”' for example in EXAMPLES)}", for_text(discussion, text)])
