"""Stages of a pipeline on the host, with sends and receives of one size, whose waiting can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest

from tests.asked import ask, asking
from tests.synthetic import RankBuilder, profile_of
from tools.errors import UsageError
from tools.findings import Check
from tools.judgement.verdict import unexplained_parts
from tools.metrics.communication.pipeline import Stages, expected_bubble, pipeline
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.whatif.predict import predict

analyze = asking("pipeline.bubble", "pipeline.imbalance")

TRANSFER_US = 20.0
STEPS = 3


class Stage:
    """One rank that computes and exchanges in turn."""

    def __init__(self, number: int) -> None:
        self.rank = RankBuilder(number, device=None)
        self.now_us = 0.0

    def compute(self, us: float) -> None:
        """One operator."""
        self.rank.operator("aten::mm", self.now_us, us)
        self.now_us += us

    def exchange(self, name: str, us: float) -> None:
        """A transfer of one size, waiting included."""
        handle = self.rank.event(EventKind.ANNOTATION, name, self.now_us, us)
        self.rank.detail("operators", handle, dims="[[64]]", types='["float"]', sequence=-1, forward_thread=-1)
        self.now_us += us


def two_stages(micro_batches: int, compute_us: Sequence[float] = (1000.0, 1000.0)) -> Profile:
    """One pipeline of two ranks."""
    return profile_of(*chain(0, micro_batches, compute_us))


def chain(first_rank: int, micro_batches: int, compute_us: Sequence[float] = (1000.0, 1000.0)) -> list[RankBuilder]:
    """All forwards, then all backwards; each stage computes ``compute_us`` per step, spread over its micro-batches."""
    return steps_of(first_rank, micro_batches, [compute_us] * STEPS)


def steps_of(first_rank: int, micro_batches: int, computes_us: Sequence[Sequence[float]]) -> list[RankBuilder]:
    """The same with the compute of each step."""
    first, last = Stage(first_rank), Stage(first_rank + 1)
    for step, compute_us in enumerate(computes_us):
        each = [us / micro_batches / 2 for us in compute_us]
        slowest, begin_us = max(each), first.now_us
        for number in range(micro_batches):
            first.compute(each[0])
            first.exchange("gloo:send", TRANSFER_US)
            waits = each[0] if number == 0 else slowest - each[1]
            last.exchange("gloo:recv", TRANSFER_US + waits)
            last.compute(each[1])
        first.exchange("gloo:recv", TRANSFER_US + 2 * slowest + micro_batches * (slowest - each[0]))
        for number in range(micro_batches):
            last.compute(each[1])
            last.exchange("gloo:send", TRANSFER_US)
            if number:
                first.exchange("gloo:recv", TRANSFER_US + slowest - each[0])
            first.compute(each[0])
        end_us = max(first.now_us, last.now_us)
        for stage in (first, last):
            stage.now_us = end_us
            stage.rank.step(step, begin_us, end_us)
    return [first.rank, last.rank]


def named(profile: Profile, name: str) -> Check:
    return ask(profile, name)


def test_the_bubble_of_a_schedule_follows_from_stages_and_micro_batches() -> None:
    assert expected_bubble(4, 4) == pytest.approx(3 / 7)
    assert expected_bubble(2, 8) == pytest.approx(1 / 9)


def test_pipelines_side_by_side_are_not_one_long_one() -> None:
    stages = pipeline(profile_of(*chain(0, 4), *chain(2, 4)))
    assert stages is not None
    assert (stages.count, stages.micro_batches, len(stages.table)) == (2, 4.0, 4)


def test_more_micro_batches_save_bubble_and_cost_host_time() -> None:
    table = pd.DataFrame({"compute_ms": [50.0, 50.0], "wait_ms": [50.0, 50.0], "host_ms": [2.0, 7.0]}, index=[0, 1])
    stages = Stages(2, 1.0, table)
    assert stages.saved_ms(8) == pytest.approx(50 * (1 - 1 / 8) - 0.5 * 2.0 * 7)
    assert stages.saved_ms(1) == 0
    assert stages.saved_ms(64) < 0  # the host's time for 63 more of them is more than the bubble


def test_few_micro_batches_are_a_bubble() -> None:
    profile = two_stages(2)
    check = named(profile, "pipeline.bubble")
    assert check.status == "found"
    finding = check.findings[0]
    assert (finding.cause, finding.ranks) == ("pipeline_bubble", (0, 1))
    assert measure(profile, "pipeline_micro_batches").value == 2
    assert measure(profile, "pipeline_expected_bubble_pct").value == pytest.approx(100 / 3)
    assert finding.confidence > 0.5


def test_mending_the_bubble_brings_the_waiting_of_four_micro_batches_per_stage() -> None:
    profile = two_stages(2)
    stages = pipeline(profile)
    assert stages is not None
    saved_ms = predict(profile, named(profile, "pipeline.bubble").findings[0].change).saving_ms
    kept = expected_bubble(2, 8) / expected_bubble(2, 2)
    assert saved_ms == pytest.approx(stages.bubble_ms * (1 - kept), rel=0.25)


def test_enough_micro_batches_leave_no_finding() -> None:
    assert named(two_stages(8), "pipeline.bubble").status == "clean"


def test_the_bubble_that_a_schedule_leaves_is_no_open_part_of_the_step_and_waiting_for_a_heavy_stage_is() -> None:
    even, uneven = chain(0, 8), chain(0, 8, compute_us=(1000.0, 2000.0))
    table = profile_of(*even).breakdown
    waiting_pct = 100.0 * table["exposed_communication_ns"].sum() / table["wall_ns"].sum()
    limit_pct = waiting_pct - 100 / 18
    assert unexplained_parts(profile_of(*even, unexplained_part_pct=limit_pct), ()) == ()
    assert unexplained_parts(profile_of(*uneven, unexplained_part_pct=limit_pct), ()) == ("exposed_communication",)


def test_no_more_bubble_than_was_measured_is_taken_for_the_schedules() -> None:
    few = chain(0, 2)
    profile = profile_of(*few)
    stages = pipeline(profile)
    assert stages is not None
    table = profile.breakdown
    waiting_pct = 100.0 * table["exposed_communication_ns"].sum() / table["wall_ns"].sum()
    measured_pct = 100.0 * stages.bubble_ms / profile.mean_step_ms
    assert measured_pct < waiting_pct < 100 / 3  # the schedule may leave a third of a step
    limit_pct = waiting_pct - measured_pct - 1.0
    assert "exposed_communication" in unexplained_parts(profile_of(*few, unexplained_part_pct=limit_pct), ())


def test_a_stage_that_computes_longer_is_an_imbalance() -> None:
    profile = two_stages(8, compute_us=(1000.0, 2000.0))
    check = named(profile, "pipeline.imbalance")
    assert check.status == "found"
    assert check.findings[0].ranks == (1,)
    assert measure(profile, "stage_imbalance_pct").value == pytest.approx(100 / 3)
    assert measure(profile, "stage_compute_ms", rank=1).value == pytest.approx(2.0)


@pytest.mark.parametrize("steps", [1, 2])
def test_an_imbalance_of_one_or_two_steps_is_of_low_confidence_and_no_interval_is_given(steps: int) -> None:
    """Two steps with 0.5 and 1.0 ms over the mean would give an interval of 0.75 +/- 12.7 * 0.354 / sqrt(2) ms."""
    computes = [(1000.0, 2000.0), (1000.0, 3000.0)][:steps]
    profile = profile_of(*steps_of(0, 4, computes))
    (finding,) = named(profile, "pipeline.imbalance").findings
    assert finding.confidence < profile.thresholds["confidence"]
    said = [each.template for each in finding.details]
    assert not any("95 %" in each for each in said)
    assert any("Fewer than 3 steps" in each for each in said)
    with pytest.raises(UsageError, match="fewer than 3 steps"):
        measure(profile, "least_stage_excess_ms")


def test_an_excess_within_the_scatter_of_the_steps_is_no_imbalance() -> None:
    """The excess over the mean is 0, 0 and 0.75 ms: 0.25 - 4.303 * 0.433 / sqrt(3) ms at least."""
    profile = profile_of(*steps_of(0, 4, [(1000.0, 1000.0), (1000.0, 1000.0), (1000.0, 2500.0)]))
    assert measure(profile, "least_stage_excess_ms").value == pytest.approx(0.25 - 4.303 * 0.4330 / 3**0.5, abs=1e-3)
    check = named(profile, "pipeline.imbalance")
    assert check.status == "cannot_answer"
    assert "within noise" in check.reason
    assert [fact.value for each in check.support for fact in each.facts] == pytest.approx([1.5, 20.0])


def test_equal_stages_are_balanced() -> None:
    assert named(two_stages(4), "pipeline.imbalance").status == "clean"


def test_ranks_that_begin_alike_are_a_ring_and_no_pipeline() -> None:
    ring = [Stage(0), Stage(1)]
    for stage in ring:
        for step in range(STEPS):
            begin_us = stage.now_us
            for _ in range(3):
                stage.compute(100.0)
                stage.exchange("gloo:send", TRANSFER_US)
                stage.exchange("gloo:recv", 2 * TRANSFER_US)
            stage.rank.step(step, begin_us, stage.now_us)
    profile = profile_of(*(stage.rank for stage in ring))
    assert pipeline(profile) is None
    assert {check.status for check in analyze(profile)} == {"clean"}


def test_one_stage_alone_cannot_be_judged() -> None:
    stage = Stage(0)
    stage.compute(100.0)
    stage.exchange("gloo:send", TRANSFER_US)
    stage.rank.step(0, 0, stage.now_us)
    assert {check.status for check in analyze(profile_of(stage.rank))} == {"cannot_answer"}


@pytest.mark.parametrize(
    ("excess_ms", "least_ms"), [([6.0, 6.0, 6.0], 6.0), ([4.4, 7.05, 6.25], 5.9 - 4.303 * 1.3593 / 3**0.5)]
)
def test_an_excess_of_compute_counts_as_far_as_the_scatter_of_the_steps_leaves_it_sure(
    excess_ms: list[float], least_ms: float
) -> None:
    steps_ms = pd.DataFrame({0: [48.0] * 3, 1: [48.0 + 2.0 * each for each in excess_ms]})
    table = pd.DataFrame({"compute_ms": steps_ms.mean(), "wait_ms": [12.0, 0.0]})
    assert Stages(2, 4.0, table, steps_ms).least_imbalance_ms == pytest.approx(least_ms, rel=1e-3)
