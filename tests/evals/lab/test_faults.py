"""The registry of the lab's faults."""

from __future__ import annotations

import pytest

from evals.lab.job import HEALTHY, SPLITS, Fault, every_job, healthy, jobs_of_faults
from tools.errors import UsageError
from tools.knowledge.taxonomy import causes

FAULTS = tuple({job.kind: job.fault for job in every_job() if job.fault is not None}.values())
ids = pytest.mark.parametrize("known", FAULTS, ids=lambda known: known.id)


def in_taxonomy(name: str) -> bool:
    cause, _, mechanism = name.partition("/")
    return cause in causes() and (not mechanism or mechanism in causes()[cause].mechanisms)


@ids
def test_every_name_of_a_label_is_in_the_taxonomy(known: Fault) -> None:
    assert in_taxonomy("/".join(filter(None, (known.cause, known.mechanism))))
    assert all(in_taxonomy(each) for each in known.also_right)
    assert all(in_taxonomy(each) for each in known.symptoms)
    assert all(in_taxonomy(each) for each in known.not_causes)


@ids
def test_a_label_does_not_contradict_itself(known: Fault) -> None:
    right = {known.cause, *(each.partition("/")[0] for each in known.also_right)}
    assert not right & set(known.not_causes)
    assert known.cause not in set(known.symptoms)
    assert all(known.also_right.values())
    assert known.must_name
    assert (known.statistic == "mean") >= (known.steps is not None)


@ids
def test_a_variant_differs_from_its_twin_and_hits_ranks_that_exist(known: Fault) -> None:
    variants = jobs_of_faults([known.id], None)
    assert len(variants) >= 2
    for each in variants:
        slow, fixed = each.scenarios["slow"], each.scenarios["fixed"]
        assert slow != fixed
        assert slow.ranks == fixed.ranks
        assert set(known.ranks) <= set(range(slow.ranks))
        assert each.split == SPLITS[each.label["workload"]]


@ids
def test_every_fault_is_in_both_splits(known: Fault) -> None:
    assert {each.split for each in jobs_of_faults([known.id], None)} == {"dev", "test"}


def test_names_of_jobs_are_unique() -> None:
    assert len({job.name for job in every_job()}) == len(every_job())


def test_the_lab_holds_what_was_promised() -> None:
    assert len([known for known in FAULTS if "gpu" not in known.needs]) >= 25
    assert len({known.cause for known in FAULTS}) >= 15
    controls = jobs_of_faults([HEALTHY], None)
    assert len(controls) >= 6
    assert {run.split for run in controls} == {"dev", "test"}


def test_a_label_holds_all_that_an_evaluation_needs() -> None:
    made = jobs_of_faults(["heavy_transform"], "images-strong")[0].label
    assert made["verdict"] == "problem"
    assert (made["cause"], made["mechanism"], made["ranks"]) == ("slow_data_processing", "heavy_transform", [1])
    assert made["symptoms"] == [{"cause": "straggler", "ranks": [0]}]
    assert (made["workload"], made["strength"], made["split"]) == ("images", "strong", "dev")
    assert "slow_link" in made["not_causes"]


def test_an_unknown_id_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no fault 'rain'; it can record heavy_transform, too_few_workers"):
        jobs_of_faults(["rain"], None)


def test_an_unknown_variant_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="one_core has no variant 'images-huge'; it has images-strong"):
        jobs_of_faults(["one_core"], "images-huge")


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(ValueError, match="no workload"):
        healthy("videos")
