"""The parts of a step that a cause spends."""

from __future__ import annotations

from hermes_agent.evidence.spent_parts import parts_of, ranks_of, spent_parts
from tests.hermes_agent.statements.slow_loader import diagnosis
from tools.knowledge.taxonomy import causes
from tools.views.parts import PARTS


def test_every_cause_of_the_taxonomy_spends_known_parts() -> None:
    for name in causes():
        assert parts_of(name) <= {*PARTS}, name
    assert parts_of("made_up") == frozenset()


def test_a_slow_loader_spends_the_wait_for_data_of_its_rank() -> None:
    found = diagnosis()
    assert ranks_of(found.causes[0]) == {0}
    assert spent_parts(found, found.causes[0], frozenset({0})) == {"data_wait"}


def test_the_ranks_that_a_rank_stands_for_are_ranks_of_its_cause() -> None:
    found = diagnosis().causes[0].model_copy(update={"ranks": [0], "stands_for": [(4, 6)]})
    assert ranks_of(found) == {0, 4, 5, 6}
