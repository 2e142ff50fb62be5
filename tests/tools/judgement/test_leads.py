"""Leads: pauses by rank and group of steps, waiting that another rank's pause explains, and what was not observed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from tests.synthetic import RankBuilder, profile_of, run_of
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.model import Layout
from tools.sources.load import load_run
from tools.views.profile import Profile

STEPS = 12


def pausing(rare_ms: float, rare_rank: int = 0, types: bool = True) -> Profile:
    """Two ranks of 100 ms steps: rank 0 pauses 20 ms in each, and ``rare_rank`` ``rare_ms`` more in every 4th."""
    ranks = []
    for number in range(2):
        rank, at = RankBuilder(number, device=None), 0.0
        for step in range(STEPS):
            begun = at
            rank.operator("aten::mm", at, 50_000, types=["float", "float"] if types else None)
            rank.operator("aten::add_", at + 50_000, 50_000)
            rare = rare_ms if number == rare_rank and step % 4 == 3 else 0.0
            at += 100_000 + 1e3 * (rare + (20.0 if number == 0 else 0.0))
            rank.operator("aten::detach", at, 1_000)
            at += 1_000
            rank.step(step, begun, at)
        ranks.append(rank)
    return profile_of(*ranks)


def test_a_rare_pause_at_the_place_of_a_regular_one_has_a_lead_of_its_own() -> None:
    rare, regular = ranking(pausing(200.0)).leads
    assert (rare.place.steps, rare.place.ranks) == ("every 4th step", (0,))
    assert rare.impact_ms == pytest.approx(220.0 / 4)
    assert regular.impact_ms == pytest.approx(20.0 * 3 / 4)
    assert rare.candidates[0].cause == "checkpoint_stall"
    assert regular.candidates[0].cause != "checkpoint_stall"


def test_the_same_place_on_another_rank_in_other_steps_is_another_lead() -> None:
    rare, regular = ranking(pausing(200.0, rare_rank=1)).leads
    assert (rare.place.steps, rare.place.ranks) == ("every 4th step", (1,))
    assert (regular.place.steps, regular.place.ranks) == ("every step", (0,))
    assert [rare.impact_ms, regular.impact_ms] == [pytest.approx(50.0), pytest.approx(20.0)]


def computing(long_us: float, shapes: bool) -> Profile:
    """Steps of eight calls of one operator without a pause; the last two take ``long_us``."""
    rank, at = RankBuilder(device=None), 0.0
    for step in range(6):
        begun = at
        for call in range(8):
            us = long_us if call >= 6 else 2_000.0
            rank.operator("aten::mm", at, us, dims=[[64, 64], [64, 64]] if shapes else None)
            at += us
        rank.step(step, begun, at)
    return profile_of(rank)


def test_nothing_that_stands_out_is_no_lead_on_the_size_of_computation() -> None:
    known = ranking(computing(2_000.0, shapes=True))
    (lead,) = known.leads
    assert (known.verdict, lead.impact_ms) == ("inconclusive", 0.0)
    assert "Not observed: who else had the cores of the host." in lead.claim.template
    assert "monitor" in lead.decide_by


def test_without_shapes_they_decide_before_the_monitor() -> None:
    (lead,) = ranking(computing(2_000.0, shapes=False)).leads
    assert lead.impact_ms == 0.0
    assert lead.candidates[0].cause == "underutilization"
    assert "record_shapes=True" in lead.decide_by


def test_calls_of_one_operator_at_very_different_cost_are_a_lead_with_their_size() -> None:
    profile = computing(40_000.0, shapes=False)
    (lead,) = ranking(profile).leads
    assert measure(profile, "costly_calls_ms", rank=0).value == pytest.approx(80.0)
    assert lead.impact_pct == pytest.approx(100.0 * 80 / 92)
    assert [fact.value for fact in lead.claim.facts] == [pytest.approx(each) for each in (80.0, 40.0, 2.0)]
    assert (lead.claim.names, lead.candidates[0].cause) == (("aten::mm",), "underutilization")
    assert "record_shapes=True" in lead.decide_by


def test_a_pause_inside_a_named_span_says_in_which() -> None:
    rank = RankBuilder(device=None)
    for step in range(4):
        begin = step * 100_000.0
        rank.step(step, begin, begin + 100_000.0)
        rank.operator("aten::mm", begin, 50_000.0)
        rank.annotation("[Callback]Tidy.on_train_batch_end", begin + 50_000.0, 45_000.0)
        rank.operator("aten::detach", begin + 95_000.0, 5_000.0)
    (lead,) = ranking(profile_of(rank)).leads
    assert lead.place.frame == "[Callback]Tidy.on_train_batch_end"
    assert lead.claim.names == ("aten::mm", "aten::detach", "[Callback]Tidy.on_train_batch_end")


@pytest.mark.parametrize(("pause_us", "first"), [(60_000.0, "garbage_collection"), (12_000.0, "operator_dispatch")])
def test_a_pause_too_short_for_a_collection_of_all_objects_is_none(pause_us: float, first: str) -> None:
    rank = RankBuilder(device=None)
    for step in range(4):
        begin = step * 100_000.0
        rank.step(step, begin, begin + 100_000.0)
        rank.operator("aten::mm", begin, 20_000.0)
        rank.operator("aten::detach", begin + 20_000.0 + pause_us, 80_000.0 - pause_us)
    (lead,) = ranking(profile_of(rank)).leads
    assert lead.candidates[0].cause == first
    assert sum(each.likelihood for each in lead.candidates) <= 1.0


def test_the_cause_that_a_lead_names_is_its_first_candidate_and_likelihoods_stay_within_one(traces: Path) -> None:
    profile = Profile(load_run([traces / "nsys/h100_2gpu_1s.sqlite"]))
    found = ranking(profile)
    assert not found.causes  # no steps are marked, and the copies are most of the recording
    likelihoods = [each.likelihood for each in found.leads[0].candidates]
    assert found.leads[0].candidates[0].cause == found.leads[1].candidates[0].cause == "memory_pressure"
    assert found.leads[1].impact_ms == 0.0
    assert likelihoods == sorted(likelihoods, reverse=True)
    assert sum(likelihoods) <= 1.0 + 0.005 * len(likelihoods)


def test_a_pause_in_an_unrecorded_backward_pass_waits_for_another_thread() -> None:
    for recorded in (False, True):
        rank = RankBuilder(device=None)
        rank.operator("aten::mm", 0, 10_000)
        rank.annotation("## backward ##", 10_000, 30_000)
        if recorded:
            rank.operator("autograd::engine::evaluate_function: MmBackward0", 10_100, 50)
        rank.operator("aten::add_", 39_990, 10_000)
        rank.step(0, 0, 50_000)
        (lead, *_) = ranking(profile_of(rank)).leads
        assert ("autograd's thread, which is not recorded" in lead.claim.template) != recorded
        assert (not lead.candidates) != recorded


def queued(layout: Layout | None = None) -> Profile:
    """Kernels are queued behind an event for 40 ms of a step of 50, while the host waits in a copy."""
    rank = RankBuilder()
    rank.operator("aten::copy_", 4, 44_990)
    rank.copy("Memcpy DtoH (Device -> Pageable)", 44_980, 10, call_us=5)
    rank.runtime("hipMemcpyWithStream", 6, 44_984)
    rank.kernel("late", 45_000, 4_000, call_us=2)
    rank.step(0, 0, 50_000)
    return profile_of(rank, layout=layout or Layout())


def test_idle_time_with_queued_kernels_names_the_call_in_which_the_host_waits() -> None:
    (lead, *_) = ranking(queued()).leads
    assert lead.place.part == "idle"
    assert lead.claim.template.endswith("the host waits in {n0} inside {n1}.")
    assert lead.claim.names == ("hipMemcpyWithStream", "aten::copy_")


@pytest.mark.parametrize(
    ("layout", "alone"), [(Layout(world_size=1), True), (Layout(), True), (Layout(world_size=8), False)]
)
def test_a_job_of_one_process_has_no_straggler(layout: Layout, alone: bool) -> None:
    found = ranking(queued(layout))
    causes = {each.cause for lead in found.leads for each in lead.candidates}
    assert ("straggler" in causes) != alone
    assert ("other ranks" in found.needs) != alone


def test_idle_time_before_a_streams_first_recorded_work_may_be_of_work_before_the_recording() -> None:
    """A step is launched at once and begins 50 ms later, when what was launched before the recording is done."""
    rank = RankBuilder()
    for at in range(20):
        rank.kernel("gemm", 50_000 + 1000 * at, 990, call_us=10 + 10 * at)
    rank.runtime("cudaDeviceSynchronize", 300, 69_600)
    rank.step(0, 0, 70_000)
    run = run_of(rank)
    origins: tuple[tuple[Literal["window", "profiler_step"], bool], ...] = (("window", True), ("profiler_step", False))
    for origin, said in origins:
        ranks = tuple(replace(each, step_origin=origin) for each in run.ranks)
        (lead, *_) = ranking(Profile(replace(run, ranks=ranks))).leads
        assert lead.place.part == "idle"
        assert ("launched before the recording" in lead.claim.template) == said


def test_time_behind_everything_recorded_is_no_pause_of_the_host() -> None:
    """A mark of 10 s, of which the first 0.3 ms hold events."""
    rank = RankBuilder()
    rank.operator("aten::mm", 0, 100)
    rank.kernel("gemm", 150, 150, call_us=50)
    rank.step(0, 0, 10_000_000)
    (lead, *_) = ranking(profile_of(rank)).leads
    assert "may have ended before the step's mark" in lead.claim.template
    assert (lead.candidates, lead.claim.names) == ((), ("aten::mm",))
