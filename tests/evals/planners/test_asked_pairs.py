"""What-ifs that say what the fix of a recorded pair did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.lab.job import every_job
from evals.planners.advised_pairs import RECORDED
from evals.planners.asked_pairs import AskedPair, asked_of, asked_pairs


def test_the_change_that_a_fix_is_comes_from_the_table_of_faults() -> None:
    asked = {job.name: asked_of(job) for job in every_job()}

    assert asked["narrow_link/images-strong"] == "link 20x"  # 4000 instead of 200 Mbit/s
    assert asked["too_few_workers/images-strong"] == "num_workers=1"
    assert asked["slow_rank/tokens-strong"] == "rank 1 as fast as the others"
    assert asked["tiny_buckets/tokens-mild"] == ""
    assert not any(change for name, change in asked.items() if name.startswith("healthy/"))


def test_a_recorded_pair_is_compared_with_what_it_measured(tmp_path: Path) -> None:
    (tmp_path / "slow_rank").mkdir()
    folder = RECORDED / "slow_rank/images-strong"
    (tmp_path / "slow_rank/images-strong").symlink_to(folder)

    (pair,) = asked_pairs(tmp_path)

    assert pair.predicted is not None
    assert pair.measured == json.loads((folder / "measured.json").read_text())["speedup"]["median"]
    assert pair.holds == (pair.predicted.speedup_low <= pair.measured <= pair.predicted.speedup_high)
    assert pair.predicted.speedup == pytest.approx(pair.measured, rel=0.15)


def test_a_refused_change_counts_neither_as_right_nor_as_wrong() -> None:
    pair = AskedPair("a/b", "link 2x", None, "no transfer was recorded", 1.5)
    assert not pair.holds
    assert pair.line() == "| a/b | `link 2x` | refused: no transfer was recorded | 1.50 | - |"
