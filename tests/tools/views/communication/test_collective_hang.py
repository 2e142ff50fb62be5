"""Who holds up whom, by dumps with known answers: who is missing, who differs, what cannot be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flight_dumps import Made, done, dump, hang_of, records_of, write
from tools.views.communication.collective_hang import find_hang

WAITING = Made(state="scheduled")


@pytest.mark.parametrize("options", [{}, {"form": "json"}, {"keep": 2}, {"status": False}])
def test_a_rank_that_never_enqueues_is_named_with_what_it_lacks(tmp_path: Path, options: dict[str, bool]) -> None:
    """Ranks 0, 1 and 3 called the 6th and 7th collective, rank 2 five in all."""
    calls = {rank: [*done(5), WAITING, WAITING] for rank in (0, 1, 3)} | {2: done(5)}
    found = hang_of(tmp_path, calls, 4, **options)
    (missing,) = found.missing
    assert (missing.rank, missing.behind, missing.first.sequence) == (2, 2, 6)
    assert missing.waiting == found.waiting == (0, 1, 3)
    assert found.holding_up == (2,)
    assert found.moments is None


def test_a_rank_that_waits_itself_is_not_the_one_to_look_at(tmp_path: Path) -> None:
    """Rank 0 waits for rank 1 in the group of both; rank 1 waits for rank 2 in another group; rank 2 in none."""
    all_groups = {"0": [0, 1, 2], "1": [0, 1], "2": [1, 2]}
    made = {
        0: [*done(3), Made(state="scheduled", group="1")],
        1: [*done(3), Made(state="scheduled", group="2", at_ms=2)],
        2: done(3),
    }
    groups = {rank: {name: each for name, each in all_groups.items() if rank in each} for rank in made}
    found = find_hang(records_of(write(tmp_path, {rank: dump(each, groups[rank]) for rank, each in made.items()})))
    assert found.holding_up == (2,)
    (missing,) = found.missing
    assert (missing.first.group.name, missing.waiting) == ("2", (1,))


def test_a_rank_that_calls_another_collective_differs_from_the_most(tmp_path: Path) -> None:
    calls = {rank: [*done(2), WAITING] for rank in (0, 1, 3)} | {2: [*done(2), Made("broadcast", "scheduled")]}
    (mismatch,) = hang_of(tmp_path, calls, 4).mismatches
    assert (mismatch.sequence, mismatch.difference, mismatch.odd_ranks) == (3, "operations", (2,))
    assert dict(mismatch.calls) == {"broadcast": (2,), "all_reduce": (0, 1, 3)}


@pytest.mark.parametrize(
    ("odd", "difference"),
    [(Made(state="started", elements=512), "sizes"), (Made(state="started", dtype="Half"), "data types")],
)
def test_unequal_sizes_and_types_are_a_mismatch_of_two_ranks_without_a_majority(
    tmp_path: Path, odd: Made, difference: str
) -> None:
    found = hang_of(tmp_path, {0: [*done(1), Made(state="started")], 1: [*done(1), odd]}, 2)
    (mismatch,) = found.mismatches
    assert (mismatch.sequence, mismatch.difference, mismatch.odd_ranks) == (2, difference, ())
    assert found.holding_up == ()


def test_sizes_that_may_differ_are_no_mismatch(tmp_path: Path) -> None:
    uneven = {rank: [Made("all_to_all", "started", elements=100 + rank)] for rank in range(2)}
    found = hang_of(tmp_path, uneven, 2)
    assert found.mismatches == ()
    assert [each.started for each in found.entered] == [(0, 1)]


def test_a_kernel_that_has_not_started_on_one_rank_shows_where_to_look(tmp_path: Path) -> None:
    calls = {rank: [*done(4), Made(state="started")] for rank in (0, 2)} | {1: [*done(4), WAITING]}
    found = hang_of(tmp_path, calls, 3)
    (entered,) = found.entered
    assert (entered.started, entered.scheduled, entered.collective.sequence) == ((0, 2), (1,), 5)
    assert found.holding_up == ()


def test_a_rank_on_which_nothing_ends_that_others_have_finished_is_stalled(tmp_path: Path) -> None:
    """All called 6; ranks 0 and 1 finished 5, rank 2 saw the end of 3."""
    calls = {rank: [*done(5), WAITING] for rank in (0, 1)} | {2: [*done(3), WAITING, WAITING, WAITING]}
    found = hang_of(tmp_path, calls, 3)
    (stalled,) = found.stalled
    assert (stalled.rank, stalled.unconfirmed, stalled.first.sequence) == (2, 2, 4)
    assert found.missing == ()


def test_a_broadcast_that_ended_on_its_root_alone_makes_no_rank_stalled(tmp_path: Path) -> None:
    calls = {0: done(2, "broadcast"), 1: [*done(1, "broadcast"), Made("broadcast", "scheduled")]}
    found = hang_of(tmp_path, calls, 2)
    assert found.stalled == ()
    assert found.holding_up == ()


def test_a_missing_dump_leaves_open_whom_the_others_wait_for(tmp_path: Path) -> None:
    found = hang_of(tmp_path, {rank: [*done(5), WAITING] for rank in (0, 1, 3)}, 4)
    assert found.unseen == (2,)
    assert found.holding_up == ()
    assert found.each_other == ()


def test_a_dump_without_status_that_forgot_its_calls_leaves_the_rank_open(tmp_path: Path) -> None:
    """The last call of rank 1 is of another group, and its dump keeps one call and no status."""
    groups = {"0": [0, 1], "1": [0, 1]}
    made = {0: [*done(2), *done(1, group="1"), WAITING], 1: [*done(2), *done(1, group="1")]}
    dumps = {rank: dump(each, groups, keep=1, status=False) for rank, each in made.items()}
    found = find_hang(records_of(write(tmp_path, dumps)))
    assert found.unseen == (1,)
    assert found.holding_up == ()


def test_dumps_of_a_running_job_at_different_moments_blame_nobody(tmp_path: Path) -> None:
    """Rank 1 wrote its dump when it had called 20, rank 0 later, when all had finished 40."""
    found = hang_of(tmp_path, {0: [*done(40), WAITING], 1: [*done(19), WAITING]}, 2)
    assert found.moments is not None
    assert (found.moments.earlier, found.moments.later) == (1, 0)
    assert found.holding_up == ()


def test_dumps_in_which_all_has_ended_wait_for_nobody(tmp_path: Path) -> None:
    assert hang_of(tmp_path, {rank: done(9 - rank) for rank in range(3)}, 3).waiting == ()


def test_a_receive_that_no_send_answers_names_the_rank_that_does_not_send(tmp_path: Path) -> None:
    """Rank 2 of the ranks 4, 5, 6 is rank 6: it receives from 5, which has sent nothing and waits in nothing."""
    ended = done(2, group="3")
    made = {4: ended, 5: ended, 6: [*ended, Made("recv 2<-1", "scheduled", "3")]}
    dumps = {rank: dump(each, {"3": [4, 5, 6]}) for rank, each in made.items()}
    found = find_hang(records_of(write(tmp_path, dumps)))
    (missing,) = found.missing
    assert (missing.rank, missing.waiting, missing.first.operation) == (5, (6,), "recv 2<-1")


def test_two_ranks_that_send_to_each_other_first_wait_in_a_circle(tmp_path: Path) -> None:
    made = {0: [*done(1), Made("send 0->1", "scheduled")], 1: [*done(1), Made("send 1->0", "scheduled")]}
    found = hang_of(tmp_path, made, 2)
    assert found.each_other == (0, 1)
    assert found.holding_up == ()


def test_calls_of_two_groups_in_different_orders_are_a_circle(tmp_path: Path) -> None:
    groups = {"0": [0, 1], "1": [0, 1]}
    made = {
        0: [*done(2), *done(1, group="1"), Made(state="scheduled", group="0")],
        1: [*done(2), *done(1, group="1"), Made(state="scheduled", group="1")],
    }
    found = find_hang(records_of(write(tmp_path, {rank: dump(each, groups) for rank, each in made.items()})))
    assert found.each_other == (0, 1)


def test_a_time_in_a_dump_after_the_whole_limit_shows_the_time_out(tmp_path: Path) -> None:
    """Rank 1 finished another call 601 s after rank 0 began to wait, whose limit is 600 s."""
    groups = {"0": [0, 1], "1": [1]}
    made = {0: [*done(2), Made(state="scheduled", at_ms=5)], 1: [*done(2), Made(group="1", at_ms=6, seen_ms=601_006)]}
    dumps = {0: dump(made[0], {"0": [0, 1]}), 1: dump(made[1], groups)}
    found = find_hang(records_of(write(tmp_path, dumps)))
    assert found.timed_out
    assert found.holding_up == (1,)


@pytest.mark.parametrize(("name", "ranks"), [("gpu_error_1st", (12, 14)), ("lock_gil_1st", (9, 14))])
def test_the_ranks_of_the_injected_faults_are_named(traces: Path, name: str, ranks: tuple[int, ...]) -> None:
    folder = traces / "nccl_flight_recorder" / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    assert str(list(ranks)) in (folder / "fault_injection.log").read_text()
    found = find_hang(records_of(folder))
    assert found.holding_up == ranks
    assert found.moments is None
    assert found.unseen == ()
