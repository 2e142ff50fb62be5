"""The registry of the lab's faults."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
import yaml

from evals.lab.faults import FAULTS, HEALTHY, Fault, fault
from evals.lab.plan import RANKS
from tools.errors import UsageError


@pytest.fixture(scope="module")
def causes() -> dict[str, Any]:
    taxonomy = yaml.safe_load((files("tools") / "taxonomy.yaml").read_text(encoding="utf-8"))
    known: dict[str, Any] = taxonomy["causes"]
    return known


@pytest.mark.parametrize("known", FAULTS, ids=lambda known: known.id)
def test_cause_mechanism_and_symptoms_are_in_the_taxonomy(known: Fault, causes: dict[str, Any]) -> None:
    assert known.mechanism in causes[known.cause]["mechanisms"]
    assert all(symptom.cause in causes for symptom in known.symptoms)


@pytest.mark.parametrize("known", FAULTS, ids=lambda known: known.id)
def test_a_fault_changes_the_world_and_sits_on_ranks_that_exist(known: Fault) -> None:
    assert known.slow != known.fixed
    assert known.ranks
    assert set(known.ranks) <= set(range(RANKS))
    assert all(symptom.cause != known.cause for symptom in known.symptoms)


@pytest.mark.parametrize("known", FAULTS, ids=lambda known: known.id)
def test_the_mended_world_holds_no_fault(known: Fault) -> None:
    assert known.fixed.raw_images_on == HEALTHY.raw_images_on
    assert known.fixed.loss == HEALTHY.loss


def test_ids_are_unique() -> None:
    assert len({known.id for known in FAULTS}) == len(FAULTS)


def test_an_unknown_id_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no fault 'rain'; it can record slow_loader_one_rank, small_operators"):
        fault("rain")
