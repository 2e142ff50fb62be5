"""Whether an answer is about what its question names; one that is not is marked as what comes nearest."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes_agent.evidence.citations import without_citations
from hermes_agent.questions.answers.figures import UNITS
from hermes_agent.questions.prose import blocks, listed
from hermes_agent.questions.reading.asked import quantity_of
from hermes_agent.questions.reading.question import Question, lexicon
from hermes_agent.questions.short_form import in_short, without_reading

# Kinds of answers about causes: an answer to whether and why, and to no question for a figure, a name or a time.
OF_CAUSES = ("suspicion", "definition", "overview")
FOR_A_FACT = re.compile(
    r"^(what(?! (is|are|if|about|does)\b)|whats (the|my|our)|what (is|are) (the|my|our)|which|how (many|much|long|often"
    r"|big|large|fast|high)|when|where|who)\b"
)
FOR_A_CAUSE = re.compile(
    r"\b(why|wrong|slow\w*|bottlenecks?|problems?|issues?|causes?|blame|fault|matter|reasons?|limit\w*|bound|hurts?|bad"
    r"|guilty|culprits?|found|find|happened|summary|verdict|diagnosis|conclusion|mean|means|stand for|bottom line)\b"
)

NO_UNIT = r"(?!)"  # found in no answer
OF_NO_WEIGHT = {
    "what",
    "whats",
    "is",
    "are",
    "the",
    "a",
    "an",
    "my",
    "our",
    "of",
    "in",
    "on",
    "this",
    "run",
    "training",
}


def nearest_only(question: Question, name: str, text: str, free: bool) -> str:
    """What an answer of the kind ``name`` lacks of its question, with its beginning as what comes nearest; else "".

    ``free``: the kind says by itself what it cannot give, so only words that narrow the question are looked for.
    """
    shown = without_citations(without_reading(text))
    lacking = [*_narrowed(question, shown), *([] if free else _operations(question, shown))]
    if lacking:
        reason = f"it does not cover {listed(lacking, 'or')}"
    elif name in OF_CAUSES and not _is_for_a_cause(question, name, shown):
        reason = "it judges a cause"
    else:
        return ""
    return blocks([f"This does not answer exactly that: {reason}. What comes nearest:", in_short(text)])


def _narrowed(question: Question, shown: str) -> Iterator[str]:
    """The titles of what the question is narrowed by and the answer does not name."""
    for each in lexicon().narrowing:
        if re.search(rf"\b(?:{each.words})\b", question.words) and not re.search(each.shown, shown, re.IGNORECASE):
            yield each.title


def _operations(question: Question, shown: str) -> Iterator[str]:
    """The operations that the question names and the answer does not, by any name that kernels have for them."""
    for each in lexicon().operations:
        pieces = "|".join(re.escape(piece) for piece in each.pieces)
        named = re.search(rf"\b(?:{each.words})\b", question.words)
        if named and not re.search(rf"{pieces}|{each.words}", shown, re.IGNORECASE):
            yield each.title


def _is_for_a_cause(question: Question, name: str, shown: str) -> bool:
    """Whether a question asks for a cause or its meaning, or the answer states a figure of the unit asked for."""
    words = question.words
    if not FOR_A_FACT.search(words) or FOR_A_CAUSE.search(words):
        return True
    if name == "definition" and question.subject is not None:
        subject = question.subject
        named = f"{subject.title} {' '.join(subject.causes)} {subject.mechanism or ''}".replace("_", " ").lower()
        left = re.sub(rf"\b(?:{subject.words})\b", " ", words) if subject.words else words
        return all(each in named or each in OF_NO_WEIGHT for each in left.split())
    quantity = quantity_of(question)
    units = UNITS["time"] + "|" + UNITS["share"] if quantity == "time" else UNITS.get(quantity or "", NO_UNIT)
    return bool(re.search(units, in_short(shown)))
