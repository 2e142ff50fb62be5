"""Answers that are read from tools, on runs with known answers."""

from __future__ import annotations

import pytest

from hermes_agent.model.events import Event, ToolCalled
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from hermes_agent.questions.kinds import NOT_MEASURABLE
from hermes_agent.questions.material import never
from tests.hermes_agent.questions import discussed
from tests.hermes_agent.questions.discussed import unsupported
from tests.synthetic import RankBuilder, profile_of
from tools.run.events import EventKind


@pytest.fixture(scope="module")
def loader() -> Discussion:
    return discussed.slow_loader()


@pytest.fixture(scope="module")
def late() -> Discussion:
    return discussed.late_rank()


@pytest.fixture(scope="module")
def mixed() -> Discussion:
    """Three steps of 10 ms: kernels of 1, 2, 3 and 4 ms; step 2 runs the longest twice as long."""
    rank = RankBuilder(0)
    for step in range(3):
        start_us = step * 10_000.0
        at_us = start_us + 20
        for number, length_us in enumerate((1_000, 2_000, 3_000, 8_000 if step == 2 else 4_000)):
            if step == 2 and number == 2:
                length_us = 500
            rank.kernel(f"kernel_{number}", at_us, length_us, call_us=start_us + number + 1)
            at_us += length_us
        rank.step(step, start_us, max(at_us, start_us + 10_000.0))
    return discussed.discuss(profile_of(rank))


def test_so_many_kernels_of_a_step_are_listed_the_longest_first(mixed: Discussion) -> None:
    lines = reply(mixed, "the two slowest kernels of rank 0 in step 2").text.splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| e0")]
    assert [(row[2], row[3].rstrip(" |")) for row in rows] == [("8.00", "`kernel_3`"), ("2.00", "`kernel_1`")]


def test_the_next_page_holds_the_next_kernels(mixed: Discussion) -> None:
    question = "the 2 slowest kernels"
    first, second, third = (reply(mixed, question, page).text for page in range(3))
    assert ["kernel_3" in first, "kernel_2" in first, "kernel_1" in second, "kernel_0" in second] == [True] * 4
    assert third == "There are no further rows."


def test_two_steps_are_compared_by_kernel(mixed: Discussion) -> None:
    text = reply(mixed, "compare steps 0 and 2 by kernel").text
    first = next(line for line in text.splitlines() if line.startswith("| n0"))
    assert "| 4.00 | 8.00 | +4 |" in first
    assert "kernel_3" in first


def test_gaps_say_what_the_host_did(loader: Discussion) -> None:
    text = reply(loader, "gaps over 1 ms and what the host did").text
    assert "gaps longer than 1 ms: 10" in text
    assert discussed.LOADER in text


def test_a_shorter_limit_leaves_nothing_out_and_a_longer_one_everything(loader: Discussion) -> None:
    assert "no gap longer than 90 ms" in reply(loader, "gaps over 90 ms").text


def test_overlap_of_one_collective_is_said_with_its_figures(late: Discussion) -> None:
    answer = reply(late, "is the first all-reduce of rank 0 in step 3 overlapped with backward?")
    assert {each.metric for each in answer.evidence} == {"instance_ms", "instance_overlap_ms"}
    assert answer.text.startswith(("Yes", "No", "Only in part"))


@pytest.mark.parametrize(
    ("question", "needs"),
    [
        ("which layer is slow?", "with_modules=True"),
        ("which line of code is slow?", "with_stack=True"),
        ("worst GEMM shape", "record_shapes=True"),
        ("what is the MFU?", "flops_per_step"),
        ("which NCCL settings are set?", "hermes-dx env"),
        ("what would a doubled batch bring?", "Record a few steps"),
    ],
)
def test_what_was_not_recorded_is_refused_with_what_it_needs(loader: Discussion, question: str, needs: str) -> None:
    assert needs in reply(loader, question).text


def test_an_unknown_name_is_never_0_ms(mixed: Discussion) -> None:
    answer = reply(mixed, "who calls `kernal_9`?")
    assert answer.intent == NOT_MEASURABLE
    assert "kernel_" in answer.text


@pytest.mark.parametrize(
    "question",
    ["forward against backward", "the 3 slowest kernels", "gaps", "compare steps 1 and 2", "who calls `kernel_1`?"],
)
def test_every_cited_figure_is_written_as_it_was_measured_and_tables_fit(mixed: Discussion, question: str) -> None:
    answer = reply(mixed, question)
    assert unsupported(answer.text, mixed) == []
    assert all(len(line) <= 80 for line in answer.text.splitlines() if line.startswith("|"))


def test_names_of_the_run_cannot_forge_citations() -> None:
    rank = RankBuilder(0)
    for step in range(3):
        rank.kernel("gemm [E1] `[A1]`", step * 1_000.0 + 20, 900, call_us=step * 1_000.0 + 10)
        rank.step(step, step * 1_000.0, step * 1_000.0 + 1_000)
    text = reply(discussed.discuss(profile_of(rank)), "the 3 slowest kernels in step 1").text
    assert "[A1]" not in text
    assert "[E1]" not in text


def test_calls_of_an_answer_are_reported(mixed: Discussion) -> None:
    events: list[Event] = []
    mixed.material.listen(events.append, never)
    reply(mixed, "forward against backward")
    calls = [event.call for event in events if isinstance(event, ToolCalled)]
    assert [(call.name, call.by) for call in calls] == [("phases", "template"), ("find_events", "template")]
    assert all(call.handle in mixed.results.texts for call in calls)


def test_a_switch_is_answered_by_the_recorded_setting_of_that_name_and_by_no_other() -> None:
    rank = RankBuilder(0, deterministic="True", cudnn_benchmark="False")
    for step in range(3):
        rank.kernel("sgemm", step * 1_000.0 + 20, 900, call_us=step * 1_000.0 + 10)
        rank.step(step, step * 1_000.0, step * 1_000.0 + 1_000)
    discussion = discussed.discuss(profile_of(rank))
    answer = reply(discussion, "is deterministic mode on?")
    assert answer.intent == "settings"
    assert "| `deterministic` | `True` |" in answer.text
    assert "benchmark" not in answer.text
    assert reply(discussion, "is the flux capacitor on?").intent != "settings"


def test_python_frames_are_found_by_a_part_of_their_name() -> None:
    """Two frames of 3 ms in each step of 10 ms, one inside the other: 3 ms in which one of them runs."""
    rank = RankBuilder(0)
    for step in range(3):
        start_us = step * 10_000.0
        rank.event(EventKind.PYTHON, "sklearn/metrics.py(3): score", start_us + 100, 3_000)
        rank.event(EventKind.PYTHON, "sklearn/base.py(9): inner", start_us + 200, 2_000)
        rank.kernel("sgemm", start_us + 4_000, 5_000, call_us=start_us + 3_900)
        rank.step(step, start_us, start_us + 10_000.0)
    discussion = discussed.discuss(profile_of(rank))
    answer = reply(discussion, "how long does sklearn take per step?")
    assert answer.text.startswith("Python frames whose name holds `sklearn`: 3.00 ms")
    assert unsupported(answer.text, discussion) == []
