"""The table of leads: causes of the taxonomy, likelihoods that add up, and an observation that is always left."""

from __future__ import annotations

import pytest

from tools.knowledge.tables import table
from tools.knowledge.taxonomy import causes


@pytest.mark.parametrize("kind", sorted(table("leads")))
def test_every_kind_of_place_has_candidates_and_an_observation_that_decides(kind: str) -> None:
    entry = table("leads")[kind]
    likelihoods = [each["likelihood"] for each in entry["candidates"]]
    assert {each["cause"] for each in entry["candidates"]} <= set(causes())
    assert likelihoods == sorted(likelihoods, reverse=True)
    assert sum(likelihoods) <= 1.0
    if ways := entry.get("decide_by"):
        assert "have" not in ways[-1]
