"""The setting that a planner gives for what was found."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.synthetic import RankBuilder, profile_of
from tests.tools.analyzers.overlap.test_pipeline import chain
from tests.tools.whatif.planners.test_recorded_experts import recorded as expert_run
from tools.findings import Finding, Sentence
from tools.judgement.catalog import measure
from tools.judgement.planned_settings import PLANNED, planned_setting
from tools.knowledge.taxonomy import causes
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.planners import recorded_experts
from tools.whatif.planners.expert_degree import DegreePlan

RECORDED = Path(__file__).parents[3] / "evals/lab/recorded"


@cache
def recorded(name: str) -> Profile:
    return Profile(load_run([RECORDED / name / "slow"]))


def finding(cause: str, mechanism: str | None = None) -> Finding:
    return Finding(cause, Sentence(""), 0.9, mechanism)


def test_the_planned_causes_are_those_of_the_taxonomy() -> None:
    known = causes()
    assert all(cause in known and mechanism in (None, *known[cause].mechanisms) for cause, mechanism in PLANNED)


def test_tiny_buckets_get_the_bucket_size_and_its_gain() -> None:
    profile = recorded("tiny_buckets/tokens-mild")
    found = planned_setting(profile, finding("small_packet"))
    assert found is not None
    assert found.setting == "bucket_cap_mb=25"
    assert found.sentence.facts[0].value == measure(profile, "changed_speedup", changes="bucket_cap_mb=25").value
    speedup, low, high = (fact.value for fact in found.sentence.facts)
    assert low < speedup < high


def test_a_heavy_stage_gets_the_layers_of_each_stage() -> None:
    profile = recorded("heavy_stage/stages-strong")
    found = planned_setting(profile, finding("pipeline_imbalance"))
    assert found is not None
    assert found.setting == "equal stages"
    assert "3, 3 layers per stage (now 1, 5, ranks 0, 1)" in found.sentence.template
    planned, own = (fact.value for fact in found.sentence.facts)
    computes = [measure(profile, "stage_compute_ms", rank=rank).value for rank in (0, 1)]
    assert own == max(computes)
    assert sum(computes) / 2 < planned < max(computes)


def test_stages_whose_layers_are_not_recorded_get_the_mean() -> None:
    profile = profile_of(*chain(0, 4, (1000.0, 3000.0)))
    found = planned_setting(profile, finding("pipeline_imbalance"))
    assert found is not None
    assert found.setting == "equal stages"
    assert [fact.value for fact in found.sentence.facts] == pytest.approx([2.0, 3.0])
    assert "with_modules=True" in found.sentence.template


def test_stages_that_are_cut_as_evenly_as_layers_allow_get_no_setting() -> None:
    found = planned_setting(recorded("few_micro_batches/stages-strong"), finding("pipeline_imbalance"))
    assert found is not None
    assert found.setting == ""
    assert "no cut of whole layers is more even than 3, 3 per stage" in found.sentence.template


def test_few_micro_batches_get_four_for_each_stage() -> None:
    found = planned_setting(recorded("few_micro_batches/stages-strong"), finding("pipeline_bubble"))
    assert found is not None
    assert found.setting == "micro_batches=8"
    assert [fact.value for fact in found.sentence.facts] == pytest.approx([100 / 2, 100 / 9])


def test_what_the_run_lacks_is_named_and_no_setting_given() -> None:
    rank = RankBuilder()
    rank.operator("DistributedDataParallel.forward", 1, 20)
    rank.kernel("gemm", start_us=10, duration_us=50, call_us=2)
    rank.step(0, 0, 100)
    found = planned_setting(profile_of(rank), finding("small_packet"))
    assert found is not None
    assert found.setting == ""
    assert "no all-reduce of known size was recorded" in found.sentence.template
    assert "record_shapes=True" in found.sentence.template
    assert planned_setting(profile_of(rank), finding("memory_bound")) is None


def test_experts_whose_costs_are_recorded_get_their_chunks() -> None:
    profile = expert_run()
    found = planned_setting(profile, finding("moe_imbalance"))
    made = recorded_experts.plan_run(profile).plan
    assert found is not None
    assert isinstance(made, DegreePlan)
    assert found.setting == ""
    assert f"{made.degree} chunks of the expert layer" in found.sentence.template


def test_experts_of_one_size_name_what_is_missing() -> None:
    found = planned_setting(recorded("hot_experts/experts-strong"), finding("moe_imbalance"))
    assert found is not None
    assert "cannot be planned: the time of the all-to-alls does not follow their size" in found.sentence.template


def test_a_loader_in_the_training_process_gets_the_workers_that_keep_up_and_their_gain() -> None:
    rank = RankBuilder(device=None)
    for step in range(4):  # 50 ms in the loader, 20 ms for the rest: three workers make a batch in less than 20 ms
        begin = step * 70_000.0
        rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, 50_000.0)
        rank.operator("aten::mm", begin + 50_000.0, 20_000.0)
        rank.step(step, begin, begin + 70_000.0)
    found = planned_setting(profile_of(rank), finding("slow_data_processing", "too_few_workers"))
    assert found is not None
    assert found.setting == "num_workers=3"
    batch, least, speedup, low, high = (fact.value for fact in found.sentence.facts)
    assert [batch, least] == pytest.approx([50.0, 3.0])
    assert low <= speedup <= high
    assert speedup == pytest.approx(70.0 / 20.0, rel=0.02)


def test_no_number_of_workers_is_planned_where_workers_load_already() -> None:
    rank = RankBuilder(device=None)
    rank.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0.0, 50_000.0)
    rank.operator("aten::mm", 50_000.0, 20_000.0)
    rank.step(0, 0.0, 70_000.0)
    assert planned_setting(profile_of(rank), finding("slow_data_processing", "too_few_workers")) is None
