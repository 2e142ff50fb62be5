"""What the base install consists of, each package counted once."""

from __future__ import annotations

from importlib.metadata import requires

from evals.install_size import Row, rows, table


def test_each_package_counts_once_and_every_requirement_has_a_row() -> None:
    found = rows()
    names = [name for row in found for name in (row.name, *row.pulled_mb)]
    assert len(names) == len(set(names))
    base = [text for text in requires("hermes-dx") or () if "extra ==" not in text]
    assert len(found) == len(base) + 1
    pyarrow = next(row for row in found if row.name == "pyarrow")
    assert pyarrow.own_mb > 10.0


def test_the_table_adds_up() -> None:
    lines = table(
        [Row("chromadb", 60.0, {"kubernetes": 70.0, "small": 0.2}), Row("shared", 0.0, {"x": 3.0})]
    ).splitlines()
    assert lines[2] == "| chromadb | 130 | 60 | kubernetes 70 |"
    assert lines[-1] == "| **all** | **133** | | |"
