from __future__ import annotations

from pathlib import Path

import pytest

from evals.benchmarks.process import Cost
from evals.benchmarks.report import report
from evals.benchmarks.results import (
    COMMITTED,
    CheckCosts,
    ChecksResult,
    Conditions,
    EngineCost,
    JoinResult,
    Pair,
    RanksCost,
    Results,
    ShapeResult,
    read,
    worse,
    write,
)

CONDITIONS = Conditions("abc1234", 2, "3.11", 0.5, 2.0)


def _result(*cold_s: float, peer: bool = True) -> ShapeResult:
    against = Cost(40.0, 41.0, 2000.0) if peer else None
    pairs = tuple(Pair(against, Cost(cold, 8.0, 500.0), Cost(0.2, 0.2, 20.0)) for cold in cold_s)
    return ShapeResult(CONDITIONS, 1, 1_682_000, 466_000_000, 30_000_000, pairs, "" if peer else "KeyError: 'stream'")


def test_the_medians_of_the_pairs_are_compared() -> None:
    medians = _result(4.0, 5.0, 20.0).medians()

    assert medians["cold time / HTA time"] == pytest.approx(5.0 / 40.0)
    assert medians["cold memory / HTA memory"] == pytest.approx(0.25)
    assert medians["warm time / cold time"] == pytest.approx(0.04)


@pytest.mark.parametrize(("cold_s", "lines"), [(6.2, 0), (6.3, 1)])
def test_a_ratio_that_is_a_quarter_worse_is_named(cold_s: float, lines: int) -> None:
    found = worse({"device": _result(cold_s)}, {"device": _result(5.0)})

    assert len(found) == lines
    assert all("cold time / HTA time" in line for line in found)


def test_a_shape_that_was_not_measured_before_is_no_regression() -> None:
    assert worse({"ranks": _result(9.0)}, {"device": _result(5.0)}) == []


def test_parts_are_stored_and_replaced_one_by_one(tmp_path: Path) -> None:
    checks = ChecksResult(CONDITIONS, {"device": CheckCosts(10, {"a": 1.5}, {"view": 2.0}, 0.5, 4.0)})
    write(Results({"device": _result(5.0)}, checks), tmp_path / "results.json")

    known = read(tmp_path / "results.json").updated(Results({"idle": _result(7.0)}))

    assert known.checks == checks
    assert {name: each.medians() for name, each in known.shapes.items()} == {
        "device": _result(5.0).medians(),
        "idle": _result(7.0).medians(),
    }


def test_runs_of_many_ranks_are_stored_by_size_with_seconds_of_each_rank(tmp_path: Path) -> None:
    cost = RanksCost(CONDITIONS, 100.24, Cost(51.2, 76.8, 226.4), Cost(4.62, 6.0, 202.0), Cost(102.4, 99.0, 260.0))
    write(Results(ranks={1024: cost}), tmp_path / "results.json")

    known = read(tmp_path / "results.json").updated(Results(ranks={64: cost}))
    row = next(line for line in report(known).splitlines() if line.startswith("| 1,024"))

    assert list(known.ranks) == [1024, 64]
    assert row.startswith("| 1,024 | 100.2 | 51.2 | 0.050 | 0.075 | 226 | 4.6 | 202 | 102.4 | 0.100 | 260 |")


def test_the_join_has_a_row_for_each_engine(tmp_path: Path) -> None:
    engines = {"summaries": EngineCost(200.04, 454.4, 12.3456), "pyarrow": EngineCost(10.5, 2406.0, 12.3456)}
    write(Results(join=JoinResult(CONDITIONS, 10_000, 2_500, engines)), tmp_path / "results.json")

    text = report(read(tmp_path / "results.json"))

    assert "25 million rows" in text
    assert "| `summaries` | 200.0 | 454 | 12.346 |" in text


def test_a_trace_that_hta_cannot_read_has_no_ratio_against_it_and_says_why() -> None:
    result = _result(5.0, peer=False)

    assert list(result.medians()) == ["warm time / cold time"]
    assert "HTA cannot read stacks: `KeyError: 'stream'`" in report(Results({"stacks": result}))


def test_the_tables_in_the_repository_are_those_of_the_stored_results() -> None:
    assert (COMMITTED.parent / "RESULTS.md").read_text(encoding="utf-8") == report(read())
