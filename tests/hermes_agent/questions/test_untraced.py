"""Questions about a run that has records and no trace: answered from the series, or one sentence why not."""

from __future__ import annotations

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import INTENTS
from hermes_agent.questions.reply import NOT_MEASURABLE, reply
from tests.hermes_agent.questions.discussed import discuss
from tests.recorded_runs import records_of, step_rows, untraced_profile


@pytest.fixture(scope="module")
def recorded() -> Discussion:
    """Rank 1 takes 40 ms longer by itself, of steps of 100 ms."""
    steps = [step_rows(0, [100.0] * 60, own_ms=50.0), step_rows(1, [100.0] * 60, own_ms=90.0)]
    return discuss(untraced_profile(records_of(steps)))


@pytest.mark.parametrize("example", [intent.example for intent in INTENTS if intent.example])
def test_every_kind_of_question_gets_an_answer(recorded: Discussion, example: str) -> None:
    found = reply(recorded, example)
    assert found.text
    assert found.notes == ()


def test_the_step_time_comes_from_the_records(recorded: Discussion) -> None:
    found = reply(recorded, "How long does a step take?")
    assert {each.metric for each in found.evidence} == {"series_step_ms", "series_variation_pct"}
    assert "100 ms" in found.text


def test_the_slowest_rank_is_named_by_its_own_time(recorded: Discussion) -> None:
    found = reply(recorded, "Which rank is the slowest?")
    assert "Rank 1 takes longest itself" in found.text
    assert "90.0 ms" in found.text


def test_what_lies_inside_of_steps_is_refused_with_what_to_record(recorded: Discussion) -> None:
    found = reply(recorded, "Which kernel takes the most time?")
    assert found.intent == NOT_MEASURABLE
    assert "hermes-dx monitor profile" in found.text
