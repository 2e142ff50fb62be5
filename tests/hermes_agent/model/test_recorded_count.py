"""How many ranks and steps records hold, in words."""

from __future__ import annotations

import pytest

from hermes_agent.model.diagnosis import RecordedRecord
from hermes_agent.model.display import recorded_count


@pytest.mark.parametrize(
    ("ranks", "steps", "world", "words"),
    [
        ([0, 1], [(0, 59)], None, ("2 ranks", "60 steps")),
        ([0, 1], [(0, 59)], 2, ("2 ranks", "60 steps")),
        ([0], [(10, 10), (20, 20), (30, 30)], 256, ("job of 256 ranks", "3 of steps 10 to 30")),
        ([0], [(0, 9), (20, 29)], None, ("1 rank", "20 of steps 0 to 29")),
    ],
)
def test_ranks_and_steps_are_those_of_the_records(
    ranks: list[int], steps: list[tuple[int, int]], world: int | None, words: tuple[str, str]
) -> None:
    assert recorded_count(RecordedRecord(ranks=ranks, steps=steps), world) == words
