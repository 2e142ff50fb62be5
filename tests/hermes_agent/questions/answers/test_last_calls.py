"""What a rank called last, by the dumps of a flight recorder."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from tests.flight_dumps import Made, done, dump, write
from tests.hermes_agent.questions.discussed import discuss, slow_loader
from tools.sources.load import load_run
from tools.views.profile import Profile

GROUPS = {"0": range(2)}


@pytest.fixture
def stuck(tmp_path: Path) -> Discussion:
    """Rank 1 has not called the fourth collective, in which rank 0 waits."""
    made = {0: dump([*done(3), Made("broadcast", state="started")], GROUPS), 1: dump(done(3), GROUPS)}
    return discuss(Profile(load_run([write(tmp_path, made)])))


def test_the_last_call_of_a_rank_has_its_time_and_whether_it_ended(stuck: Discussion) -> None:
    found = reply(stuck, "when did rank 0 last make progress")
    records = stuck.profile().run.collectives
    assert records is not None
    assert records.flight is not None
    last = records.flight.calls[records.flight.calls["rank"] == 0].iloc[-1]
    moment = datetime.fromtimestamp(int(last["created_ns"]) // 1_000_000 / 1e3, UTC)
    assert found.intent == "last_call"
    size = f"with {last['elements']} elements of `{last['types']}`"
    assert f"Rank 0 last called `broadcast` {size}. It is number `{last['sequence']}` of group" in found.text
    assert f"{moment:%Y-%m-%d %H:%M:%S}" in found.text
    assert "Of its 4 recorded calls 1 had not ended" in found.text
    assert "All its recorded calls had ended." in reply(stuck, "what was the last collective of rank 1").text


def test_a_rank_without_a_dump_is_named_with_those_that_have_one(stuck: Discussion) -> None:
    found = reply(stuck, "when did rank 7 last make progress").text
    assert found == "There is no dump of rank 7; dumps are there of ranks 0 and 1."
    step = reply(stuck, "how long does a step of rank 7 take").text
    assert step.startswith("This run has no such rank. The records of collectives")


def test_without_dumps_the_question_is_left_to_others() -> None:
    assert reply(slow_loader(), "when did rank 0 last make progress").intent != "last_call"
