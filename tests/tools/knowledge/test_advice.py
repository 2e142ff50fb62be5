"""The advice table covers the taxonomy and speaks its language."""

from __future__ import annotations

import pytest

from tools.knowledge.advice import optimizations, table
from tools.knowledge.taxonomy import causes


def test_every_cause_of_the_taxonomy_has_advice() -> None:
    assert set(table()) == set(causes())


def test_every_mechanism_in_the_table_belongs_to_its_cause() -> None:
    strange = [
        (cause, row.mechanism)
        for cause, rows in table().items()
        for row in rows
        if row.mechanism is not None and row.mechanism not in causes()[cause].mechanisms
    ]
    assert strange == []


@pytest.mark.parametrize("cause", sorted(causes()))
def test_advice_is_given_for_every_mechanism_and_for_none(cause: str) -> None:
    for mechanism in (None, *causes()[cause].mechanisms):
        rows = optimizations(cause, mechanism)
        assert rows, f"{cause}/{mechanism} has no advice"
        assert all(row.effort in (1, 2, 3) and row.how and row.risk and row.verify for row in rows)
