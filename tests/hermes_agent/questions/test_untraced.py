"""Questions about a run that has records and no trace: answered from the series, or one sentence why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from hermes_agent.questions.kinds import NOT_MEASURABLE
from tests.hermes_agent.questions.discussed import EXAMPLES, discuss
from tests.recorded_runs import records_of, step_rows, untraced_profile
from tests.tools.sources.utilisation import reports
from tools.sources.load import load_run
from tools.views.profile import Profile

INSIDE_STEPS = {  # what only a trace shows
    *("kernels", "host_calls", "collectives", "waiting", "launch_queue", "utilisation", "named_work"),
    *("two_places", "event", "overlap", "phases", "layers", "code_lines", "worst_shape", "group_cost", "device_gaps"),
    *(
        "operation",
        "counts",
        "streams",
        "optimizer",
        "single_collective",
        "critical_path",
        "stage_layers",
        "device_doing",
    ),
}


@pytest.fixture(scope="module")
def recorded() -> Discussion:
    """Rank 1 takes 40 ms longer by itself, of steps of 100 ms."""
    steps = [step_rows(0, [100.0] * 60, own_ms=50.0), step_rows(1, [100.0] * 60, own_ms=90.0)]
    return discuss(untraced_profile(records_of(steps)))


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_kind_of_question_gets_an_answer(recorded: Discussion, example: str) -> None:
    found = reply(recorded, example)
    asked = EXAMPLES[example]
    assert found.intent == (NOT_MEASURABLE if asked in INSIDE_STEPS else asked)
    assert found.text
    assert found.notes == ()


def test_the_step_time_comes_from_the_records(recorded: Discussion) -> None:
    found = reply(recorded, "How long does a step take?")
    assert {each.metric for each in found.evidence} == {"series_step_ms", "series_variation_pct"}
    assert "100 ms" in found.text


def test_the_slowest_rank_is_named_by_its_own_time(recorded: Discussion) -> None:
    found = reply(recorded, "Which rank is the slowest?")
    assert "Rank 1 takes longest by itself" in found.text
    assert "90.0 ms" in found.text


def test_what_lies_inside_of_steps_is_refused_with_what_to_record(recorded: Discussion) -> None:
    found = reply(recorded, "Which kernel takes the most time?")
    assert found.intent == NOT_MEASURABLE
    assert "hermes-dx monitor profile" in found.text


def test_a_refusal_is_said_in_plain_words(recorded: Discussion) -> None:
    said = reply(recorded, "Which kernel takes the most time?").text
    assert said.startswith("What was asked cannot be measured on this run: the run holds no trace")


def test_where_the_time_goes_is_answered_as_far_as_records_do() -> None:
    run = untraced_profile(records_of([step_rows(0, [100.0] * 60, data_wait_ms=30.0)]))
    found = reply(discuss(run), "Where does the time go?")
    assert {each.metric for each in found.evidence} == {"series_step_ms", "series_part_ms"}
    assert "Waiting for data: 30.0 ms" in found.text
    assert "What the rest of the step goes into is not among what was read." in found.text


def test_the_network_is_answered_from_the_checks_of_records(recorded: Discussion) -> None:
    found = reply(recorded, "Is the network slow?")
    assert found.intent == "suspicion"
    assert "Nothing that was read could show whether the network costs time." in found.text


def test_one_rank_alone_is_not_asked_for_the_records_of_others() -> None:
    run = untraced_profile(records_of([step_rows(0, [100.0] * 60)]))
    assert reply(discuss(run), "Which rank is slow?").text.startswith("The run has one rank only")


def test_what_records_lack_to_compare_ranks_is_said_in_sentences() -> None:
    run = untraced_profile(records_of([step_rows(rank, [100.0] * 60) for rank in (0, 1)]))
    parts = reply(discuss(run), "Which rank is slow?").text.split("\n\n")
    assert len(parts) > 1
    assert all(part[0].isupper() for part in parts)


def test_the_step_time_of_records_is_a_figure_of_many_wordings(recorded: Discussion) -> None:
    for question in ("iteration time in seconds", "mean step time"):
        found = reply(recorded, question)
        assert {each.metric: each.value for each in found.evidence}["series_step_ms"] == pytest.approx(100.0)


def test_one_garbage_collection_is_no_collection_time_of_a_step() -> None:
    """3 collections of 20 ms in each step of rank 1: 60 ms per step."""
    steps = [step_rows(rank, [100.0] * 60, gc_ms=60.0 * rank, gc_longest_ms=25.0 * rank, gc_runs=3 * rank)
             for rank in (0, 1)]  # fmt: skip
    run = discuss(untraced_profile(records_of(steps)))
    asked = {
        "how long does one garbage collection take": {"collector_each_ms": 20.0},
        "how long does a garbage collection take on rank 1": {"collector_each_ms": 20.0},
        "how much time per step is lost to gc on rank 1": {"collector_rank_ms": 60.0},
        "how much time per step is lost to gc": {"collector_cost_ms": 60.0},
    }
    for question, values in asked.items():
        found = {each.metric: each.value for each in reply(run, question).evidence}
        assert found == pytest.approx(values), question


def test_use_of_devices_is_not_answered_by_what_else_was_read(tmp_path: Path) -> None:
    (tmp_path / "df.txt").write_text(reports.DF)
    found = reply(discuss(Profile(load_run([tmp_path / "df.txt"]))), "is the GPU well used?")
    assert found.text.startswith("What was read of this run does not state that.")
    (tmp_path / "mig.txt").write_text(reports.INSTANCES)
    parts = reply(discuss(Profile(load_run([tmp_path / "mig.txt"]))), "is the GPU well used?")
    assert parts.text.startswith("Instance `MIG 1` of device 0: engines active 93.0 %")


FEW_WORKERS = """GPU available: True (cuda), used: True
python3/site-packages/lightning/trainer/connectors/data_connector.py:441: The 'train_dataloader' does not have many workers which may be a bottleneck. Consider increasing the value of the `num_workers` argument to `num_workers=15` in the `DataLoader` to improve performance.
Epoch 0:   2%|▏         | 87/5087 [01:01<59:04,  1.41it/s, v_num=0]
"""  # noqa: E501


def test_a_warning_of_the_data_loader_is_told_and_not_denied(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(FEW_WORKERS)
    said = reply(discuss(Profile(load_run([tmp_path]))), "is data loading the bottleneck?").text
    assert said.startswith("Lightning warns that the data loader has few workers: 1 line")
    assert "What was seen of data input does not settle whether it costs time." in said
    assert "Nothing found points to" not in said
