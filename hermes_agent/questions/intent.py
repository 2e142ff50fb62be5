"""One kind of question that is understood without a language model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.question import Question

Answering = Callable[[Discussion, Question], str | None]  # None: not meant after all, try the next


@dataclass(frozen=True)
class Intent:
    """One kind of question. ``patterns`` holds one pattern a line, over the question's normalised words."""

    name: str
    about: str
    example: str
    patterns: str
    answer: Answering

    def fits(self, words: str) -> bool:
        """Whether any pattern is in the words."""
        return any(re.search(pattern, words) for pattern in self.patterns.split())
