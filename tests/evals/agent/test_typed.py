"""The scorer of typed questions."""

from __future__ import annotations

import pytest

from evals.agent.typed import TypedQuestion, holds, questions, report, scored
from hermes_agent.questions.intents import NOT_UNDERSTOOD


def question(says: tuple[str, ...], figures: tuple[str, ...] = (), *, refuses: bool = False) -> TypedQuestion:
    return TypedQuestion(id=1, kind="short", run="demo", ask="?", says=says, figures=figures, refuses=refuses)


def test_there_are_sixty_questions_and_a_third_is_held_out() -> None:
    document = questions()
    assert len({each.id for each in document.questions}) == 60
    assert sum(each.held_out for each in document.questions) == 20
    assert {each.run for each in document.questions} == set(document.runs)
    assert all(each.figures or each.says for each in document.questions)


@pytest.mark.parametrize(
    ("answer", "figure", "found"),
    [
        ("it takes 32.8 ms [E1]", "32.8 ms", True),
        ("it takes 32800 us", "32.8 ms", True),
        ("it takes 33.8 ms", "32.8 ms", False),
        ("it takes 32.8 % of the step", "32.8 ms", False),
        ("1.08x faster", "13.7 ms | 1.08 x", True),
        ("| e0.1 | 32.8 | `gemm` |", "32.8 ms", True),
        ("| e32.8 | 1.0 | `gemm` |", "32.8 ms", False),
    ],
)
def test_a_figure_counts_with_its_unit(answer: str, figure: str, found: bool) -> None:
    assert holds(answer, figure) is found


def test_another_answer_is_wrong_and_one_that_was_not_understood_is_missed() -> None:
    asked = question(figures=("5.0 ms",), says=("rank 7",))
    outcomes = [
        scored(asked, "rank 7 takes 5.0 ms", "ranks"),
        scored(asked, "rank 7 takes 9.0 ms", "ranks"),
        scored(asked, "This was not understood", NOT_UNDERSTOOD),
    ]
    assert [each.outcome for each in outcomes] == ["right", "wrong", "missed"]
    assert "| short | 3         | 1     | 1      | 1     |" in report(outcomes)


def test_a_refusal_has_to_say_what_is_missing() -> None:
    asked = question(says=("memory",), refuses=True)
    assert scored(asked, "The memory peak is not known.", "memory").outcome == "right"
    assert scored(asked, "The memory is fine.", "memory").outcome == "wrong"
