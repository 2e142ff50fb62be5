"""How many ranks and steps records hold, in words."""

from __future__ import annotations

import pytest

from hermes_agent.model.display import recorded_count
from hermes_agent.model.run_record import RecordedRecord


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


def test_times_between_lines_are_no_lines() -> None:
    between = RecordedRecord(ranks=[0], steps=[(20, 20), (30, 30)], between_lines=True)
    assert recorded_count(between, 8) == ("job of 8 ranks", "2 intervals between recorded steps, the last to step 30")
    of_epochs = RecordedRecord(ranks=[0], steps=[(1, 8)], between_lines=True, epochs=2)
    assert recorded_count(of_epochs, 8)[1] == "8 intervals between recorded steps of 2 epochs"


@pytest.mark.parametrize(
    ("least", "world", "words"),
    [
        (None, None, "ranks not stated"),
        (8, None, "job of at least 8 ranks"),
        (8, 16, "job of 16 ranks"),
        (None, 1, "job of 1 rank"),
    ],
)
def test_a_log_that_names_no_rank_is_not_one_rank(least: int | None, world: int | None, words: str) -> None:
    recorded = RecordedRecord(ranks=[0], ranks_stated=False, least_ranks=least, steps=[(0, 59)])
    assert recorded_count(recorded, world) == (words, "60 steps")


def test_rows_of_a_table_of_operations_are_workers_and_not_devices() -> None:
    recorded = RecordedRecord(ranks=list(range(16)), workers="data parallel 4 x pipeline 4", steps=[(0, 59)])
    assert recorded_count(recorded)[0] == "16 workers (data parallel 4 x pipeline 4)"


def test_lines_of_epochs_without_a_known_length_are_counted_by_epochs() -> None:
    recorded = RecordedRecord(ranks=[0], steps=[(100, 100), (200, 200), (300, 300)], epochs=2)
    assert recorded_count(recorded)[1] == "3 step lines of 2 epochs"
