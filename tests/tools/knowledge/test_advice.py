"""The advice table covers the taxonomy and speaks its language."""

from __future__ import annotations

import pytest

from tools.knowledge.taxonomy import causes, optimizations


def test_every_mechanism_in_the_advice_belongs_to_its_cause() -> None:
    strange = [
        (cause.id, row.mechanism)
        for cause in causes().values()
        for row in cause.advice
        if row.mechanism is not None and row.mechanism not in cause.mechanisms
    ]
    assert strange == []


def test_no_two_causes_or_mechanisms_have_the_same_name() -> None:
    names = [name for cause in causes().values() for name in (cause.name, *cause.mechanism_names.values())]
    for kind in ("title", "phrase"):
        values = [getattr(name, kind) for name in names]
        assert len(set(values)) == len(values)
        assert not [value for value in values if "_" in value]


def test_a_title_names_the_ranks_where_they_are_known() -> None:
    (row,) = optimizations("straggler", None)
    assert row.title("rank 7") == "Find what delays rank 7"
    assert row.title() == "Find what delays the late rank"


@pytest.mark.parametrize("cause", sorted(causes()))
def test_advice_is_given_for_every_mechanism_and_for_none(cause: str) -> None:
    for mechanism in (None, *causes()[cause].mechanisms):
        rows = optimizations(cause, mechanism)
        assert rows, f"{cause}/{mechanism} has no advice"
        assert all(row.effort in (1, 2, 3) and row.how and row.risk and row.verify for row in rows)
