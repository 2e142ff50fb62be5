from __future__ import annotations

import numpy as np
import pytest

from evals.results.held_out import fitted, held_out, monotone
from evals.suite.outcome import CaseResult
from tests.evals.scored import result


def _cases(source: str, confidence: float, right: int, wrong: int, split: str = "dev") -> list[CaseResult]:
    tags = {"source": source, "kind": "cause", "split": split}
    first = [{"cause": "slow_device", "mechanism": None, "confidence": confidence, "impact_pct": 9.0, "ranks": [0]}]
    scored = [1.0] * right + [0.0] * wrong
    return [result(f"{source}-{at}", tags=tags, named=first, scores={"top_1": hit}) for at, hit in enumerate(scored)]


def test_values_that_fall_are_pooled_by_weight_and_others_stay() -> None:
    pooled = monotone(np.array([0.1, 0.6, 0.4, 0.9]), np.array([1.0, 1.0, 3.0, 1.0]))
    assert pooled.tolist() == pytest.approx([0.1, 0.45, 0.45, 0.9])


def test_a_bin_with_few_cases_stays_near_what_was_stated() -> None:
    few = (np.full(2, 0.85), np.zeros(2))
    many = (np.full(200, 0.85), np.zeros(200))
    near, far = (np.interp(0.85, *fitted([each])) for each in (few, many))
    assert near == pytest.approx((6 * 0.75 + 6 * 0.85) / 14), "pooled with the bin below, which holds no case"
    assert far < 0.1


def test_a_map_from_other_origins_is_judged_on_the_one_that_it_has_not_seen() -> None:
    modest = [*_cases("lab", 0.65, 40, 0), *_cases("synthetic", 0.65, 40, 0)]
    rows = {row.origin: row for row in held_out([*modest, *_cases("others", 0.65, 6, 6)])}
    assert rows["lab"].error_mapped < rows["lab"].error_stated == pytest.approx(0.35)
    assert rows["runs of others"].error_mapped > rows["runs of others"].error_stated == pytest.approx(0.15)
    assert rows["runs of others"].brier_mapped > rows["runs of others"].brier_stated


def test_the_split_test_and_origins_with_few_cases_are_left_out() -> None:
    assert held_out([*_cases("lab", 0.65, 20, 0), *_cases("others", 0.65, 3, 0)]) == []
    assert held_out([*_cases("lab", 0.65, 20, 0), *_cases("others", 0.65, 20, 0, split="test")]) == []
