"""Several environment faults place a rank together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from evals.lab.environment_faults.placement import EnvironmentFaultError, Placement, surrounded


@dataclass(frozen=True)
class Marked:
    """Places every rank with a word of its own."""

    word: str
    lacking: str = ""

    def missing(self) -> str:
        return self.lacking

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        yield tuple(
            Placement((self.word, str(rank)), {self.word: str(rank), "LAST": self.word}) for rank in range(ranks)
        )


def test_prefixes_nest_in_the_order_given_and_later_variables_win(tmp_path: Path) -> None:
    with surrounded((Marked("outer"), Marked("inner")), 2, tmp_path) as placements:
        assert placements[1] == Placement(("outer", "1", "inner", "1"), {"outer": "1", "inner": "1", "LAST": "inner"})
    with surrounded((), 2, tmp_path) as placements:
        assert placements == (Placement(), Placement())


def test_nothing_is_set_up_when_one_of_them_cannot_be(tmp_path: Path) -> None:
    lacking = (Marked("a", "no a here"), Marked("b"), Marked("c", "no c here"), Marked("d", "no a here"))
    with pytest.raises(EnvironmentFaultError, match=r"no a here; no c here$"), surrounded(lacking, 1, tmp_path):
        pass
