"""An answer that is not about what its question names is marked as what comes nearest."""

from __future__ import annotations

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from hermes_agent.questions.reading.question import read_question
from hermes_agent.questions.subject_match import nearest_only
from tests.hermes_agent.questions import discussed

BACKWARD = "The kernels of the backward of rank 0 run 20.2 ms [E1] per step."


@pytest.fixture(scope="module")
def loader() -> Discussion:
    return discussed.slow_loader()


@pytest.mark.parametrize(
    ("question", "name", "text", "lacking"),
    [
        ("how much time in conv backward?", "phases", BACKWARD, "convolutions"),
        ("how many steps per hour?", "throughput", "Steps: 2 steps/s [E1].", "rates per hour"),
        ("is the compute balanced?", "suspicion", "Computation has a part in it.", "balance between ranks"),
        ("which size is the worst for the network?", "suspicion", "The network has a part in it.", "judges a cause"),
        ("what is the achieved network rate?", "definition", "A slow link. Signs: few bytes.", "judges a cause"),
    ],
)
def test_what_the_answer_lacks_is_named_and_the_answer_is_what_comes_nearest(
    question: str, name: str, text: str, lacking: str
) -> None:
    marked = nearest_only(read_question(question), name, text, free=False)
    lead, nearest = marked.split("\n\n", 1)
    assert lead.startswith("This does not answer exactly that: ")
    assert lacking in lead
    assert nearest == text


@pytest.mark.parametrize(
    ("question", "name", "text"),
    [
        ("how much time in backward?", "phases", BACKWARD),
        ("how much time in conv backward?", "figure", "Kernels of convolutions in backward: 3 ms [E1]."),
        ("was there any packet loss?", "suspicion", "No sign of packet retransmission: 0 % [E1]."),
        ("how much of the step is the network?", "suspicion", "The network takes 49.0 % [E1] of the step."),
        ("why is the network slow?", "suspicion", "The network has a part in it."),
        ("what is a straggler?", "definition", "A straggler is a rank that arrives last."),
        ("what is the small_packet cause?", "definition", "Many small messages."),
    ],
)
def test_an_answer_to_its_question_is_left_as_it_is(question: str, name: str, text: str) -> None:
    assert nearest_only(read_question(question), name, text, free=False) == ""


def test_a_share_of_kernel_time_is_a_share(loader: Discussion) -> None:
    text = reply(loader, "what share of kernel time is in gemms?").text
    assert "% [E" in text
    assert "| ms |" not in text


def test_a_run_without_records_of_the_driver_names_no_xid(loader: Discussion) -> None:
    assert reply(loader, "any Xid?").text.startswith("Whether the driver reported Xid errors is in none of the sources")
