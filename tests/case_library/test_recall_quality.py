"""Floors of recall on the bundled cases, with margin below what `python -m evals.retrieval` measured."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from case_library.library import load_cases
from case_library.retrieval.fusion import Weights
from case_library.retrieval.query import CaseQuery
from case_library.retrieval.ranker import CaseRanker
from evals.retrieval.asking import WAYS, Library, Outcome, ask
from evals.retrieval.questions import UserQuestion, load_questions
from evals.retrieval.report import abstaining, found

EVERY = 6  # every sixth case is left out here; the evaluation leaves out each


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(load_cases())


@pytest.fixture(scope="module")
def left_out(library: Library) -> dict[str, list[Outcome]]:
    """Outcomes of the chosen cases by the way they ask."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in WAYS}
    for case in library.cases[::EVERY]:
        [ranker] = library.without(case.id, Weights())
        for way, query_of in WAYS.items():
            outcomes[way].append(ask(ranker, query_of(case), case.cause))
    return outcomes


@pytest.fixture(scope="module")
def ranker(library: Library) -> CaseRanker:
    return library.without("", Weights())[0]


def asked(ranker: CaseRanker, questions: Sequence[UserQuestion]) -> list[Outcome]:
    return [ask(ranker, CaseQuery(text=question.text), question.cause) for question in questions]


@pytest.mark.parametrize(("way", "floor"), list(zip(WAYS, (0.80, 0.70, 0.80, 0.90, 0.90), strict=True)))
def test_a_left_out_case_finds_its_cause_among_the_best_three(
    left_out: dict[str, list[Outcome]], way: str, floor: float
) -> None:
    figures = found(left_out[way])
    assert figures.asked >= 33
    assert figures.recall >= floor
    assert figures.abstained <= 0.1


@pytest.mark.parametrize("half", ["development", "held out"])
def test_user_questions_find_their_cause_and_those_out_of_scope_are_abstained_on(ranker: CaseRanker, half: str) -> None:
    outcomes = asked(ranker, [question for question in load_questions() if question.half == half])
    inside = found([outcome for outcome in outcomes if outcome.cause])
    assert inside.asked >= 40
    assert inside.recall >= 0.80
    scope = abstaining(outcomes)
    assert scope.out_of_scope >= 40
    assert scope.recall >= 0.90
    assert scope.precision >= 0.85


def test_questions_out_of_scope_written_after_tuning_are_abstained_on(ranker: CaseRanker) -> None:
    outcomes = asked(ranker, [question for question in load_questions() if question.half == "later"])
    assert len(outcomes) >= 40
    assert abstaining(outcomes).recall >= 0.85
