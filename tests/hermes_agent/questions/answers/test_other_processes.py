"""Questions about other processes on the training's cores, and about the rank that has no core."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import answer_text
from hermes_agent.questions.reading.question import read_question
from tests.hermes_agent.questions.discussed import busy, discuss, unsupported
from tests.recorded_runs import recorded_profile, records_of, step_rows

STEP_MS = 50.0
SHARES = {0: 0.1, 1: 0.4}  # of its time that the training thread has no core


def contended(foreign: str = "") -> Discussion:
    """Two ranks on two cores that others keep busy: rank 1 has no core for 40 % of its time, rank 0 for 10 %."""
    rates = {
        rank: {"training_run_delay_us": share * 1e6, "run_delay_us": share * 1e6, "process_cpu_us": 0.6e6}
        for rank, share in SHARES.items()
    }
    records = records_of([step_rows(rank, [STEP_MS] * 40) for rank in SHARES], rates)
    anomalies = pd.DataFrame({"rank": [1], "attempt": [0], "foreign": [foreign]})
    return discuss(recorded_profile(replace(records, anomalies=anomalies) if foreign else records))


def asked(discussion: Discussion, text: str) -> str:
    answer = answer_text(discussion, read_question(text))[1]
    assert not unsupported(answer, discussion)
    return answer


def test_the_question_for_the_process_gets_the_cause_and_how_to_see_its_name() -> None:
    text = asked(contended(), "Which process steals my CPU?")
    assert text.startswith("The cause found is other processes on the training cores.")
    assert f"no core for {SHARES[1] * STEP_MS:.1f} ms" in text
    assert "is not recorded" in text
    assert "`pidstat -u 1`" in text


def test_a_process_that_the_agent_noted_is_named() -> None:
    text = asked(contended("other-training 350 %"), "Which process steals my CPU?")
    assert "other-training 350 %" in text
    assert "is not recorded" not in text


def test_without_samples_nothing_is_said_of_other_processes() -> None:
    text = asked(busy(), "Which process steals my CPU?")
    assert text.startswith("Whether another process takes the training's cores is not assessable")


@pytest.mark.parametrize(
    ("question", "lead"),
    [
        ("is rank 1's CPU slower than rank 0's?", "Yes: the training thread of rank 1 has no core for 20.0 ms"),
        ("is rank 1's CPU slower?", "Yes: the training thread of rank 1 has no core for 20.0 ms"),
        ("is rank 0's CPU slower than rank 1's?", "No, the other way round: the training thread of rank 0 has no core"),
    ],
)
def test_the_rank_without_a_core_is_the_one_with_the_slower_cpu(question: str, lead: str) -> None:
    text = asked(contended(), question)
    assert text.startswith(lead)
    for share in SHARES.values():
        assert f"{share * STEP_MS:.1f}".rstrip("0").rstrip(".") in text


def test_a_cause_on_all_ranks_is_named_with_the_rank_of_its_figures() -> None:
    discussion = contended()
    assert discussion.diagnosis.causes[0].ranks == [0, 1]
    slow, other = (asked(discussion, f"is rank {rank} slow?") for rank in (1, 0))
    assert "its figures are of this one: other processes on the training cores" in slow
    assert "No cause was found on it alone." not in slow
    assert "other processes on the training cores (with the figures of rank 1)" in other


def test_the_answer_on_confidence_names_five_open_checks_by_title() -> None:
    discussion = contended()
    text = asked(discussion, "how sure are you?")
    left = len(discussion.open_checks) - 5
    assert left > 0
    assert f" and {left} more;" in text
    assert not any(f"`{each.analyzer}`" in text for each in discussion.open_checks)
