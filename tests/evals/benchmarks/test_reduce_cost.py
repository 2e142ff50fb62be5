"""The benchmark of the map over ranks: its table, and a run small enough for a test."""

from __future__ import annotations

from evals.benchmarks.many_ranks import ManyRanks
from evals.benchmarks.process import Cost
from evals.benchmarks.reduce_cost import Row, measured, report


def test_a_row_per_size_with_seconds_of_each_rank() -> None:
    row = Row(1024, 100.24, Cost(51.2, 76.8, 226.4), Cost(4.62, 6.0, 202.0))
    assert report([row]).splitlines()[-1] == "| 1,024 | 100.2 | 51.2 | 0.050 | 0.075 | 226 | 4.6 | 202 |"


def test_a_small_run_is_measured() -> None:
    row = measured(ManyRanks(ranks=3, per_host=1, steps=1, layers=1, straggler=0))
    assert row.ranks == 3
    assert row.first.cpu_s > 0
    assert row.trace_mb > 0
