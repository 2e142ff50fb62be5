"""Why the device is idle, on made-up and on real runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.asked import asking
from tests.real_runs import real_profile
from tests.synthetic import RankBuilder, profile_of
from tools.whatif.change import Scale

analyze = asking("cpu.device_idle", "cpu.queued_idle")


def rank_with_pauses(pause_us: float, name: str = "aten::cumprod") -> RankBuilder:
    rank = RankBuilder()
    at = 0.0
    for number in range(4):
        rank.operator(name, at, pause_us)
        rank.kernel("kernel", start_us=at + pause_us + 2, duration_us=1000, call_us=at + pause_us)
        rank.step(number, at, at + pause_us + 1002)
        at += pause_us + 1002
    return rank


def test_long_pauses_of_the_host_are_found_with_what_fills_them() -> None:
    stalls, _ = analyze(profile_of(rank_with_pauses(1000)))
    (finding,) = stalls.findings
    assert finding.cause == "operator_dispatch"
    assert finding.claim.facts[0].value == pytest.approx(1.002, rel=0.01)
    assert finding.claim.names == ("aten::cumprod",)
    assert finding.confidence < 0.5, "pauses without a recorded reason stay a hypothesis"
    (change,) = finding.change
    assert isinstance(change, Scale)
    assert (change.track, change.factor, len(change.intervals)) == (0, 0.0, 4)


def test_a_busy_device_is_clean_with_the_figures_that_show_it() -> None:
    rank = RankBuilder()
    for number in range(10):
        rank.kernel("kernel", start_us=2 + 100 * number, duration_us=100, call_us=max(0, 100 * number - 300))
    rank.step(0, 0, 1002)
    checks = analyze(profile_of(rank))
    assert [check.status for check in checks] == ["clean", "clean"]
    assert checks[0].support[0].facts[0].value == pytest.approx(0.2, rel=0.01)


def test_idle_time_with_work_launched_is_not_called_healthy() -> None:
    rank = RankBuilder()
    rank.kernel("kernel", start_us=500, duration_us=500, call_us=0)
    rank.step(0, 0, 1000)
    queued = analyze(profile_of(rank))[1]
    assert queued.status == "cannot_answer"
    assert "launched" in queued.reason
    assert queued.needs


def test_without_a_device_there_is_no_answer() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::add", 0, 10)
    rank.step(0, 0, 10)
    assert [check.status for check in analyze(profile_of(rank))] == ["cannot_answer", "cannot_answer"]


def test_launches_that_are_not_joined_to_their_work_leave_the_question_open() -> None:
    rank = RankBuilder()
    rank.runtime("cudaLaunchKernel", 0, 5)
    rank.kernel("kernel", start_us=900, duration_us=100)
    rank.step(0, 0, 1000)
    checks = analyze(profile_of(rank))
    assert [check.status for check in checks] == ["cannot_answer", "cannot_answer"]
    assert "joined" in checks[0].reason


def test_the_device_idle_share_of_a_host_bound_run_is_as_published(traces: Path) -> None:
    profile = real_profile(traces / "hta" / "nccl_parser_config.json.gz")
    (finding,) = analyze(profile)[0].findings
    idle = finding.details[0].facts[0]
    assert idle.metric == "device_idle_pct"
    assert idle.value == pytest.approx(77.78, abs=2.0)  # HTA counts from the first to the last kernel
