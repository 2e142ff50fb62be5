"""The table of the benchmark of the map over ranks."""

from __future__ import annotations

from evals.benchmarks.process import Cost
from evals.benchmarks.reduce_cost import Row, report


def test_a_row_per_size_with_seconds_of_each_rank() -> None:
    row = Row(1024, 100.24, Cost(51.2, 76.8, 226.4), Cost(4.62, 6.0, 202.0))
    assert report([row]).splitlines()[-1] == "| 1,024 | 100.2 | 51.2 | 0.050 | 0.075 | 226 | 4.6 | 202 |"
