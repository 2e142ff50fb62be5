"""The sets of paraphrases: their cases exist, words are not the case's own, and recall on them has floors."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest

from case_library.library import load_cases
from case_library.retrieval.asked import asked_lines
from case_library.retrieval.fusion import Weights
from case_library.retrieval.query import document
from case_library.retrieval.words import terms
from case_library.schema import Case
from evals.retrieval.asking import Library
from evals.retrieval.paraphrases import SETS, ParaphraseSet, ask_set, load_paraphrases
from evals.retrieval.questions import load_questions

RARE = 10  # cases that have a word; one of fewer would give the case away
WORD = re.compile(r"[a-z][a-z0-9_]+")


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list(load_cases())


def words(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


@pytest.mark.parametrize("name", SETS)
def test_each_question_is_about_another_case_of_the_library(name: str, cases: list[Case]) -> None:
    asked = load_paraphrases(name)
    ids = [each.case for each in asked.questions]
    assert len(set(ids)) == len(ids) == 40
    assert set(ids) <= {case.id for case in cases}
    assert len(asked.off_topic) == 12


def test_the_sets_of_one_hand_share_no_case() -> None:
    ids = [each.case for name in SETS if name not in ("blind", "fresh") for each in load_paraphrases(name).questions]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", ["unseen", "later"])
def test_an_unseen_question_has_no_rare_word_of_its_case(name: str, cases: list[Case]) -> None:
    texts = {case.id: words(document(case) + " " + case.effect) for case in cases}
    uses = Counter(word for each in texts.values() for word in each)
    for each in load_paraphrases(name).questions:
        shared = words(each.text) & texts[each.case]
        assert not {word for word in shared if uses[word] < RARE}, each.case


def test_paraphrases_find_their_cause_and_questions_off_topic_are_abstained_on(cases: list[Case]) -> None:
    library = Library(cases)
    for name, floor, abstained in (("development", 0.85, 0.9), ("unseen", 0.85, 0.75), ("later", 0.85, 0.75)):
        figures = ask_set(library, load_paraphrases(name), {"all": Weights()})["all"]
        assert figures.top >= floor, name
        assert figures.first <= figures.top
        assert figures.off_topic_abstained >= abstained, name


def test_no_line_of_what_people_ask_repeats_most_words_of_a_question() -> None:
    sets = [load_paraphrases(name) for name in SETS if name != "fresh"]  # written after the lines, its texts are long
    texts = [text for each in sets for text in (*(question.text for question in each.questions), *each.off_topic)]
    asked = [_said(text) for text in (*texts, *(question.text for question in load_questions()))]
    names = re.compile(r"[\w./]+", re.ASCII)  # a single name of an API or a variable is nobody's question
    every = [line for lines in asked_lines().values() for line in lines]
    lines = [(line, _said(line)) for line in every if not names.fullmatch(line)]
    assert not [line for line, said in lines if any(len(said & each) >= max(3, 0.7 * len(said)) for each in asked)]


def _said(text: str) -> set[str]:
    letters = re.findall("[\u3400-\u9fff]", text)
    return {*terms(text), *map("".join, pairwise(letters))}


def test_a_set_with_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="answer"):
        ParaphraseSet.model_validate({"questions": [], "off_topic": [], "answer": 1})
