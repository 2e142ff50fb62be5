"""Loops that read values of tensors, on runs made up event by event."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.analyzers.cpu.value_reads import value_reads
from tools.findings import Check, Finding
from tools.metrics.registry import measure

STEP_US = 40_000.0
READS = 30


def run(made_by: str = "aten::norm", read: str = "aten::item", inside: str = "", pause_us: float = 0.0) -> RankBuilder:
    """Three steps: 20 ms of a linear layer, then 30 times an operator of 200 us and a read of 10 us."""
    rank = RankBuilder(device=None)
    for number in range(3):
        begin = number * STEP_US
        rank.step(number, begin, begin + STEP_US)
        rank.operator("aten::linear", begin + 100.0, 20_000.0)
        at = begin + 22_000.0
        if inside:
            rank.annotation(inside, at - 1.0, READS * (220.0 + pause_us) + 2.0)
        for _ in range(READS):
            rank.operator(made_by, at, 200.0)
            rank.operator(read, at + 205.0 + pause_us, 10.0)
            at += 220.0 + pause_us
    return rank


def found(rank: RankBuilder) -> Finding | None:
    answer = value_reads.once(profile_of(rank))
    return answer.findings[0] if isinstance(answer, Check) and answer.findings else None


def test_statistics_read_one_after_the_other_are_found_with_all_their_time() -> None:
    profile = profile_of(run())
    # All turns but the first of a step: 29 of 220 us, so 6.38 ms of a step of 40 ms.
    assert measure(profile, "value_reads_per_step", rank=0).value == READS - 1
    assert measure(profile, "value_read_ms", rank=0).value == pytest.approx(29 * 0.220)
    assert measure(profile, "value_read_pct", rank=0).value == pytest.approx(100 * 6.38 / 40)
    finding = found(run())
    assert finding is not None
    assert (finding.cause, finding.mechanism, finding.ranks) == ("operator_dispatch", "host_synchronization", (0,))


def test_python_that_works_on_the_values_between_the_reads_belongs_to_the_loop() -> None:
    rank = run(made_by="aten::detach", read="aten::resolve_neg", pause_us=300.0)
    assert measure(profile_of(rank), "value_read_ms", rank=0).value == pytest.approx(29 * 0.520)
    finding = found(rank)
    assert finding is not None
    assert finding.mechanism is None


def test_an_optimizer_that_reads_its_step_counters_is_none() -> None:
    assert found(run(inside="Optimizer.step#Adam.step")) is None


def test_a_data_loader_that_reads_values_is_none() -> None:
    assert found(run(inside="enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")) is None


def test_a_model_that_runs_between_the_reads_is_none() -> None:
    assert found(run(made_by="aten::linear")) is None


def test_tensors_made_of_values_between_the_reads_are_a_batch_in_the_making() -> None:
    assert found(run(made_by="aten::lift_fresh")) is None


def test_one_long_pause_between_two_reads_is_not_part_of_a_loop() -> None:
    rank = run()
    rank.operator("aten::item", STEP_US - 1_000.0, 10.0)
    before = measure(profile_of(run()), "value_read_ms", rank=0).value
    assert measure(profile_of(rank), "value_read_ms", rank=0).value == pytest.approx(before)


def test_a_loss_and_some_metrics_are_no_loop() -> None:
    rank = RankBuilder(device=None)
    for number in range(3):
        begin = number * STEP_US
        rank.step(number, begin, begin + STEP_US)
        rank.operator("aten::linear", begin + 100.0, 20_000.0)
        for place in range(8):
            rank.operator("aten::mean", begin + 22_000.0 + place * 2_000.0, 1_900.0)
            rank.operator("aten::item", begin + 23_910.0 + place * 2_000.0, 10.0)
    answer = value_reads.once(profile_of(rank))
    assert answer is not None
    assert answer.status == "clean"


def test_the_question_does_not_arise_on_a_device() -> None:
    rank = RankBuilder()
    rank.operator("aten::mm", 0.0, 10.0)
    rank.kernel("sgemm", 20.0, 100.0, call_us=5.0)
    rank.step(0, 0.0, 200.0)
    assert value_reads.once(profile_of(rank)) is None
