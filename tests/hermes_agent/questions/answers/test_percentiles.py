"""Percentiles of what is named, and of the longest kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.answers.device import operator_and_shapes
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss, single_precision, unsupported
from tests.recorded_runs import records_of, step_rows, untraced_profile
from tests.synthetic import RankBuilder, profile_of
from tests.tools.analyzers.test_job_output import profile_of as log_profile
from tests.tools.sources.job_log.logs import megatron

LENGTHS_US = tuple(range(10, 210, 10))  # 20 kernels of each step


@pytest.fixture(scope="module")
def kernels() -> Discussion:
    """Kernels of 10 to 200 us, and one name with the longest single kernel and a short one."""
    rank = RankBuilder(0)
    for step in range(4):
        start_us = step * 10_000.0
        for place, length_us in enumerate(LENGTHS_US):
            at_us = start_us + 10.0 + place * 300.0
            rank.kernel("many", at_us + 5, length_us, call_us=at_us)
        rank.kernel("lone", start_us + 7_000, 400.0 if step else 100.0, call_us=start_us + 6_990)
        rank.step(step, start_us, start_us + 10_000)
    return discuss(profile_of(rank))


def figures(discussion: Discussion, question: str) -> dict[str, float]:
    found = reply(discussion, question)
    assert found.intent == "percentile"
    assert unsupported(found.text, discussion) == []
    return {str(each.arguments.get("statistic")): each.value for each in found.evidence}


def test_any_common_percentile_is_measured(kernels: Discussion) -> None:
    """The 75th percentile of 10, 20 ... 200 us, each four times: 60 of 80 values, so between 150 and 160."""
    found = figures(kernels, "p75 of `many`")
    assert found["p75"] == pytest.approx(0.1525)
    assert found["median"] == pytest.approx(0.105)


def test_the_longest_kernel_is_not_all_kernels(kernels: Discussion) -> None:
    found = figures(kernels, "p95 of the longest kernel")
    assert (found["median"], found["max"]) == pytest.approx((0.4, 0.4))
    assert "The longest single kernel of rank 0 is `lone`" in reply(kernels, "p95 of the longest kernel").text


def test_a_percentile_that_is_not_measured_is_refused(kernels: Discussion) -> None:
    assert reply(kernels, "p37 of `many`").text.startswith("That percentile is not measured. Those that are: 5, 10")


def test_percentiles_of_unprofiled_steps_name_their_source() -> None:
    run = discuss(untraced_profile(records_of([step_rows(0, [50.0] * 60)])))
    text = reply(run, "p95 of the step time in the log").text
    assert "It rests on 54 steps by the monitor's records, not by the job's output, without the first ones" in text
    assert "not by the job's output" not in reply(run, "p95 of the step time").text


def test_percentiles_of_the_log_are_of_its_lines(tmp_path: Path) -> None:
    """Lines of 10 to 400 ms in steps of 10: the 95th percentile of all 40, also of the first ones, is 380.5 ms."""
    run = discuss(log_profile(tmp_path, megatron(*((step, 10.0 * step) for step in range(1, 41)))))
    found = figures(run, "p95 of the step time in the log")
    assert found["p95"] == pytest.approx(380.5)
    assert "40 steps that the job's output prints" in reply(run, "p95 of the step time in the log").text


def test_shapes_with_blanks_are_read() -> None:
    label = 'aten::bmm [ [ 96, 8, 8 ], [ 96, 8, 64 ] ] [ "float", "float" ]'
    assert operator_and_shapes(label) == ("aten::bmm", "96x8x8, 96x8x64")
    assert operator_and_shapes('aten::mm [[2, 3], [3, 4]] ["float", "float"]') == ("aten::mm", "2x3, 3x4")


def test_a_version_that_was_not_recorded_is_not_a_list_of_all_settings() -> None:
    found = reply(single_precision(), "which pytorch version?")
    assert found.text.startswith("The version of PyTorch was not recorded.")
    assert "|" not in found.text
