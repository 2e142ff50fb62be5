"""Sentences with facts become text with citations."""

from __future__ import annotations

import string
from collections.abc import Iterable

from hermes_agent.evidence.figures import written
from hermes_agent.evidence.ledger import Ledger
from hermes_agent.evidence.printable import printable
from tools.findings import Sentence

NAME_LIMIT = 80
LONGEST_NAME = 4096  # more of a name is not even looked at


def quoted(name: str) -> str:
    """A name read from a run, made harmless: no control characters, no back quotes, no citation marks, bounded."""
    text = " ".join(printable(name, LONGEST_NAME).split())
    text = text.replace("`", "'").replace("[", "(").replace("]", ")")
    return f"`{text if len(text) <= NAME_LIMIT else text[: NAME_LIMIT - 1] + '…'}`"


def render(sentence: Sentence, ledger: Ledger) -> str:
    """The sentence with every fact written out and cited."""
    places: dict[str, str] = {}
    for index, fact in enumerate(sentence.facts):
        places[str(index)] = f"{written(fact.value, fact.unit)} [{ledger.cite(fact)}]"
    for index, name in enumerate(sentence.names):
        places[f"n{index}"] = quoted(name)
    text = _Places().vformat(sentence.template, (), places)
    return text[:1].upper() + text[1:]


def render_all(sentences: Iterable[Sentence], ledger: Ledger) -> list[str]:
    """Several sentences, in order."""
    return [render(sentence, ledger) for sentence in sentences]


class _Places(string.Formatter):
    """Looks every field up by its text; positions are names here."""

    def get_value(self, key: int | str, args: object, kwargs: object) -> str:
        assert isinstance(kwargs, dict)
        return str(kwargs[str(key)])
