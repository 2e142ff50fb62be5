"""The commonest questions in German, Chinese, Spanish and French, put into English."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from hermes_agent.questions.lexicon import lexicon

LIMIT = 2000
# A question with one of these is English, also where another language has its first word ("Comment on the step time").
ENGLISH = re.compile(
    r"\b(the|is|are|why|how|which|does|should|could|would|my|this|of|it|for|with|to|and|we|you|do|i)\b"
)


@dataclass(frozen=True)
class Foreign:
    """A question in another language and the English one it was taken for."""

    language: str
    question: str


RANK = re.compile(r"(?:rank|rang|rango|gpu)\s*(\d{1,7})|(\d{1,7})\s*号?卡")
STEP = re.compile(r"(?:schritt|paso|etape|iteration|iteracion)\s*(\d{1,9})|第?\s*(\d{1,9})\s*步")
OF_A_PLACE = {  # questions that may be about one rank or step
    "Why is it slow?": "Why is {} slow?",
    "Where does the time go?": "Break down {}",
    "How long does a step take?": "How long is {}?",
}


def in_english(text: str) -> Foreign | None:
    """The English question that a question in another language is taken for; None when it is not known to be one."""
    words, languages = folded(text[:LIMIT]), lexicon().languages
    if words.isascii() and ENGLISH.search(words):
        return None
    for question in next(iter(languages.values())).questions:
        for name, language in languages.items():
            subjects = "|".join(language.subjects.values())
            if _search(name, language.questions[question].replace("{s}", subjects), words):
                named = (subject for subject, pattern in language.subjects.items() if _search(name, pattern, words))
                english = question.replace("{subject}", next(named, "the first cause"))
                return Foreign(name, _placed(english, words))
    return None


def folded(text: str) -> str:
    """Lower case without accents, punctuation as blanks, single blanks; other scripts are kept."""
    bare = "".join(each for each in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(each))
    return " ".join(re.sub(r"[^\w]+|_", " ", bare).split())


def _search(language: str, pattern: str, words: str) -> bool:
    """Chinese has no blanks between words; elsewhere a name begins and ends with a word."""
    return bool(re.search(pattern if language == "Chinese" else rf"\b(?:{pattern})\b", words))


def _placed(question: str, words: str) -> str:
    """The question about the rank or the step that was named."""
    ranks = [f"rank {first or second}" for first, second in RANK.findall(words)]
    steps = [f"step {first or second}" for first, second in STEP.findall(words)]
    if not (where := ranks + steps) or question not in OF_A_PLACE:
        return question
    place = " ".join(where) if question == "Where does the time go?" else where[0]
    step_of = "a step of " if ranks and question == "How long does a step take?" else ""
    return OF_A_PLACE[question].format(step_of + place)
