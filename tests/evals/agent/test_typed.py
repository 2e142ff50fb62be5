"""The scorer of typed questions, and answers made to please it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from evals.agent.typed import EIGHT_RUNS, ENGINEERS, QUESTIONS, UNSEEN, Fact, TypedQuestion, questions, report, scored
from hermes_agent.questions.kinds import NOT_UNDERSTOOD

IDLE = TypedQuestion(
    id=1,
    kind="short",
    run="dlrm",
    ask="how long is rank 2 idle?",
    facts=(Fact(about=("idle",), value="8.71 ms"),),
    rank=2,
)
MEMORY = TypedQuestion(id=2, kind="short", run="demo", ask="peak memory?", missing="profile_memory", unit="GiB")
EVERYTHING = "\n".join(
    f"On rank {rank} {part} takes {10 * rank + place + 0.71} ms."
    for rank, (place, part) in product(range(8), enumerate(("compute", "communication", "data wait", "idle")))
)


def test_there_are_enough_questions_and_each_says_what_is_right() -> None:
    for file, count in ((QUESTIONS, 60), (UNSEEN, 24), (ENGINEERS, 30), (EIGHT_RUNS, 40)):
        document = questions(file)
        assert len({each.id for each in document.questions}) == count
        assert {each.run for each in document.questions} == set(document.runs)
        assert all(bool(each.facts) != bool(each.missing) for each in document.questions)
    assert sum(each.held_out for each in questions().questions) == 20


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("Rank 2 is idle for 8.71 ms [E1] of each step.", "right"),
        ("Rank 2 is idle for 8710 us.", "right"),
        ("Rank 3 is idle for 8.71 ms.", "wrong"),  # the figure of another rank
        ("Rank 2 is idle for 9.71 ms.", "wrong"),
        ("Rank 2 computes for 8.71 ms.", "wrong"),  # the figure of another quantity
        ("How long is rank 2 idle?", "missed"),
        ("This cannot be answered from the trace.", "missed"),
        (EVERYTHING, "wrong"),
        (EVERYTHING.replace(".\n", " and "), "wrong"),
        ("Idle on ranks 0, 1, 2, 3, 4, 5, 6 and 7: 8.71 ms.", "wrong"),
        ("Idle times are " + ", ".join(f"{figure}.71 ms" for figure in range(20)) + ".", "wrong"),
    ],
)
def test_a_fact_is_a_statement_about_that_place_and_quantity(answer: str, outcome: str) -> None:
    assert scored(IDLE, answer, "device").outcome == outcome


def test_what_was_not_understood_is_never_right() -> None:
    assert scored(IDLE, "Rank 2 is idle for 8.71 ms.", NOT_UNDERSTOOD).outcome == "not understood"
    assert scored(MEMORY, "No profile_memory.", NOT_UNDERSTOOD).outcome == "not understood"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("The trace lacks memory records: profile with profile_memory=True.", "right"),
        ("The peak is 3.2 GiB; profile_memory was on.", "wrong"),
        ("Peak memory?", "wrong"),
        ("It cannot be said; more data is needed.", "wrong"),
        ("It needs no trace, monitor, profile_memory, OMP, batch, memory or earlier records.", "wrong"),
    ],
)
def test_a_refusal_names_the_source_that_is_missing_and_no_figure(answer: str, outcome: str) -> None:
    assert scored(MEMORY, answer, "memory").outcome == outcome


def refused(_: TypedQuestion) -> str:
    return "This cannot be answered: the run has no records of it, which it needs."


def parroted(question: TypedQuestion) -> str:
    return question.ask


def listed(_: TypedQuestion) -> str:
    return EVERYTHING


@pytest.mark.parametrize("profile", [refused, parroted, listed])
def test_a_profile_that_knows_nothing_answers_nothing_right(profile: Callable[[TypedQuestion], str]) -> None:
    asked = [each for file in (QUESTIONS, UNSEEN, ENGINEERS, EIGHT_RUNS) for each in questions(file).questions]
    right = [each.id for each in asked if scored(each, profile(each), "").outcome == "right"]
    assert right == []


def test_the_report_counts_outcomes_by_kind() -> None:
    results = [scored(IDLE, answer, "device") for answer in ("Rank 2 is idle for 8.71 ms.", "Rank 3: 8.71 ms.")]
    text = report([*results, scored(IDLE, "?", NOT_UNDERSTOOD)])
    assert "| short | 3         | 1     | 0      | 1              | 1     |" in text
