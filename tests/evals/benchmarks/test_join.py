"""The benchmark of the join: its engines agree on a small run."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.benchmarks.join import by_pyarrow, by_summaries, write


def test_the_join_of_the_product_agrees_with_a_hash_join_of_all_rows(tmp_path: Path) -> None:
    write(tmp_path, ranks=16, collectives=50)
    found, expected = by_summaries(tmp_path), by_pyarrow(tmp_path)
    assert found["caused_ns"].tolist() == pytest.approx(expected["caused_ns"].tolist())
    assert found["waited_ns"].tolist() == expected["waited_ns"].tolist()
    assert float(found["caused_ns"].sum()) > 0
