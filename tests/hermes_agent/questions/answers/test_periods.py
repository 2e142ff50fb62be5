"""Suppositions about a distance in steps, held against the steps in which a cause was found."""

from __future__ import annotations

import pytest

from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.questions.answers.periods import supposed_period


def _cause(*steps: int) -> CauseRecord:
    return CauseRecord(
        cause="evaluation_stall",
        family="other",
        mechanism="",
        confidence=0.9,
        impact_ms_per_step=1.0,
        impact_pct=1.0,
        method="critical_path",
        ranks=[0],
        steps=list(steps),
        claim="",
        evidence=[],
        evidence_against=[],
        disproved_by="",
    )


@pytest.mark.parametrize(
    ("steps", "words", "holds", "said"),
    [
        ((14, 19, 24), "is it the validation every 5 steps", True, "every 5 steps: steps 14, 19 and 24."),
        ((14, 19, 24), "is it the validation every 10th step", False, "24, not every 10."),
        ((9, 10, 19, 20, 29, 30), "is it a save every 10 steps", True, "steps 9, 19 and 29."),
        ((3, 4, 9), "every 2 iterations", None, "too few to show a distance"),
        ((1, 5, 20, 22), "every 4 steps", False, "at no fixed distance"),
        ((5, 6, 7, 8), "every 1 steps", True, "one after the other"),
        (tuple(range(0, 90, 10)), "every 10 steps", True, "steps 0, 10, 20, 30, 40, 50 and 3 more."),
    ],
)
def test_the_steps_of_the_cause_confirm_or_refute_a_distance(
    steps: tuple[int, ...], words: str, holds: bool | None, said: str
) -> None:
    found = supposed_period(_cause(*steps), words)
    assert found is not None
    assert found.holds is holds
    assert said in found.text


def test_questions_without_a_distance_and_causes_of_all_steps_are_left_alone() -> None:
    assert supposed_period(_cause(14, 19, 24), "is it the validation") is None
    assert supposed_period(_cause(), "is it the network every 5 steps") is None
