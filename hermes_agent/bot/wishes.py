"""What a message asks for: a run by its registered name, and what to do with it. A path is never taken."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from hermes_agent.registered_runs import NAME

WORD = re.compile(r"[^\s,;:!?\"'`()<>]+")
PATH = re.compile(r"[/\\]|^~|\.(?:json|gz|db|log|jsonl)$")
IN_NAME = re.compile(rf"{NAME}\Z")
ORDERS = frozenset({"diagnose", "analyse", "analyze", "run", "please", "the", "of", "for", "in", "on", "about"})
BETWEEN = frozenset({"with", "to", "and", "against", "vs", "versus", "from"})
SURE = 0.75  # similarity (difflib) from which a word counts as a misspelt name
LISTED = 5
MOST_WORDS = 12  # that are compared with the names


@dataclass(frozen=True)
class Help:
    """How to ask."""


@dataclass(frozen=True)
class ListRuns:
    """The registered names."""


@dataclass(frozen=True)
class Diagnose:
    """The diagnosis of a run."""

    run: str


@dataclass(frozen=True)
class Question:
    """A question about a run."""

    run: str
    text: str


@dataclass(frozen=True)
class Compare:
    """What changed from one run to another."""

    before: str
    after: str


@dataclass(frozen=True)
class Unclear:
    """No run is named; ``reason`` is one sentence for the person."""

    reason: str


Wish: TypeAlias = Help | ListRuns | Diagnose | Question | Compare | Unclear


@dataclass(frozen=True)
class _Named:
    """A registered name in a message; ``leads``: nothing but words such as "diagnose" stands before it."""

    name: str
    begin: int
    end: int
    leads: bool


def wish_of(text: str, names: Sequence[str], present: str = "") -> Wish:
    """What a message asks for; ``present``: the run of its thread."""
    words = _words(text)
    lower = [word.lower() for word in words]
    if not present and lower in ([], ["help"]):
        return Help()
    if lower in (["runs"], ["list"], ["list", "runs"]):
        return ListRuns()
    known = {name.lower(): name for name in names}
    if lower[:1] == ["compare"]:
        return _compare(words[1:], known, present)
    named = _named(text, known)
    telling = [word for word in words if not (present and word.isalpha())]  # in a thread a plain word is one
    if named is None and (near := _misspelt(telling, known)):
        return Unclear(near)
    run = named.name if named is not None else present
    if not run:
        return Unclear(_lacking(words, known))
    question = text if named is None else f"{text[: named.begin]}{'' if named.leads else 'it'}{text[named.end :]}"
    if all(word.lower() in ORDERS or word == "it" for word in _words(question)):
        return Diagnose(run)
    return Question(run, question.strip(" \t\n:,`"))


def _named(text: str, known: Mapping[str, str]) -> _Named | None:
    """The run that a message names: its first word, a word in back quotes, or one that is no plain word.

    A run may be called "slow": in "why is it slow?" that is no name.
    """
    leads = True
    for match in WORD.finditer(text):
        word, begin = match.group().rstrip(".").lower(), match.start()
        end = begin + len(word)
        quoted = text[begin - 1 : begin] == text[end : end + 1] == "`"
        if word in known and (leads or quoted or not word.isalpha()):
            return _Named(known[word], begin - quoted, end + quoted, leads)
        leads = leads and word in ORDERS
    return None


def _words(text: str) -> list[str]:
    return [word for match in WORD.finditer(text) if (word := match.group().rstrip("."))]


def _compare(words: Sequence[str], known: Mapping[str, str], present: str) -> Wish:
    """``compare A B``, or in a thread of a run ``compare with B``; anything else is a question about the run."""
    others = [word for word in words if word.lower() not in BETWEEN | ORDERS]
    named = [known[word.lower()] for word in others if word.lower() in known]
    if len(named) == len(others) == 2 and named[0] != named[1]:
        return Compare(named[0], named[1])
    if len(named) == len(others) == 1 and present and named[0] != present:
        return Compare(named[0], present)
    near = _misspelt(others, known)
    if present and not near:
        return Question(present, " ".join(["compare", *words]))
    return Unclear(near or (_lacking(others, known) if not named else "Name two registered runs to compare."))


def _lacking(words: Sequence[str], known: Mapping[str, str]) -> str:
    if any(PATH.search(word) for word in words):
        return (
            "A path in a message is never opened; have the run registered on the bot's machine with "
            "`hermes-dx runs add NAME PATH` and ask by its name."
        )
    if near := _misspelt(words, known):
        return near
    if not known:
        return "No run is registered yet; register one on the bot's machine with `hermes-dx runs add NAME PATH`."
    return f"Which run? Write its name and the question, for example: {_example(known)} why is it slow?"


def _misspelt(words: Sequence[str], known: Mapping[str, str]) -> str:
    """A sentence for a word that is nearly a name, "" without one."""
    for word in words[:MOST_WORDS]:
        if not IN_NAME.match(word) or word.lower() in known or len(word) < 3:
            continue
        near = get_close_matches(word.lower(), known, LISTED, cutoff=SURE)
        if near:
            listed = " or ".join(f"`{known[each]}`" for each in near)
            return f"There is no registered run `{word}`; did you mean {listed}?"
    return ""


def _example(known: Mapping[str, str]) -> str:
    names = list(known.values())
    more = (
        f" (or {', '.join(f'`{name}`' for name in names[1:LISTED])}{' …' * (len(names) > LISTED)})" if names[1:] else ""
    )
    return f"`{names[0]}`{more}"
