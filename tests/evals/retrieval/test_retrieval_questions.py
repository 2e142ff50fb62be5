"""The questions and the way they are parted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evals.retrieval.questions import load_questions
from tools.knowledge.taxonomy import causes

EMPTY = "out_of_scope: []\nout_of_scope_seen: []\nout_of_scope_later: []\n"


def test_there_are_enough_questions_and_every_cause_is_asked_about_in_both_halves() -> None:
    questions = load_questions()
    inside = [question for question in questions if question.cause]
    assert len(inside) >= 80
    assert len(questions) - len(inside) >= 40
    asked = Counter((question.cause, question.half) for question in inside)
    assert {(cause, half) for cause in causes() for half in ("development", "held out")} == set(asked)


def test_the_half_follows_from_the_text_and_not_from_the_place(tmp_path: Path) -> None:
    path = tmp_path / "questions.yaml"
    halves = []
    for texts in (["one", "two", "three", "four"], ["four", "three", "two", "one"]):
        path.write_text(f"questions:\n  straggler: {texts}\n{EMPTY}", encoding="utf-8")
        halves.append({question.text: question.half for question in load_questions(path)})
    assert halves[0] == halves[1]
    assert Counter(halves[0].values()) == {"development": 2, "held out": 2}


def test_what_was_seen_is_development_and_what_came_later_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "questions.yaml"
    path.write_text("questions: {}\nout_of_scope: []\nout_of_scope_seen: [a]\nout_of_scope_later: [b]\n", "utf-8")
    assert [(question.text, question.half) for question in load_questions(path)] == [
        ("a", "development"),
        ("b", "later"),
    ]


@pytest.mark.parametrize(
    ("questions", "fault"),
    [("{bad_luck: [a]}", "not in the taxonomy"), ("{straggler: [a, a]}", "occur twice"), ("[a]", "questions")],
)
def test_a_wrong_file_is_refused(tmp_path: Path, questions: str, fault: str) -> None:
    path = tmp_path / "questions.yaml"
    path.write_text(f"questions: {questions}\n{EMPTY}", encoding="utf-8")
    with pytest.raises(ValueError, match=fault):
        load_questions(path)
