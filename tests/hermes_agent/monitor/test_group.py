from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from hermes_agent.monitor.format import CAPTURED
from hermes_agent.watch.anomaly import Anomaly, AnomalyKind
from hermes_agent.watch.group import GroupWatch
from hermes_agent.watch.parts import parts_of
from hermes_agent.watch.series import DEFAULT, WatchThresholds
from tests.hermes_agent.monitor.monitored import record

RANKS = 4
BASE_MS = 80.0


def run(
    slow_rank: int | None, since: int, part: str = "own", extra_ms: float = 40.0, steps: int = 260, known: bool = True
) -> list[Anomaly]:
    """A synchronous group: every rank's step is as long as the slowest rank's own time and the collective after it."""
    draw = random.Random(5)
    group = GroupWatch()
    group.ranks.update(range(RANKS))
    found: list[Anomaly] = []
    for step in range(steps):
        late = {rank: extra_ms if rank == slow_rank and step >= since else 0.0 for rank in range(RANKS)}
        own = {rank: BASE_MS * (1 + draw.gauss(0, 0.01)) + late[rank] for rank in range(RANKS)}
        wall = max(own.values()) + 20
        for rank in draw.sample(range(RANKS), RANKS):
            wait = 2.0 + (late[rank] if part == "data" else 0.0)
            found += group.feed(rank, record(step, wall, wait, own[rank] if known else None))
    return found


@pytest.mark.parametrize(("part", "named"), [("own", "other work of its own"), ("data", "data wait")])
def test_the_rank_and_the_part_behind_a_change_are_found(part: str, named: str) -> None:
    found = [each for each in run(2, 200, part) if each.deviation.kind is AnomalyKind.CHANGE]
    (change,) = found
    assert change.deviation.noticed < 210
    assert change.suspect is not None
    assert (change.suspect.rank, change.suspect.part) == (2, named)
    assert change.suspect.excess_ms == pytest.approx(40, rel=0.1)
    assert "rank 2" in change.claim


def test_a_rank_that_was_slow_from_the_start_is_found_without_a_change() -> None:
    found = run(1, 0, extra_ms=20.0)
    assert [each.deviation.kind for each in found] == [AnomalyKind.SLOW_RANK]
    assert found[0].rank == 1
    assert found[0].suspect is not None
    assert found[0].suspect.excess_ms == pytest.approx(20, rel=0.2)


def test_an_even_group_is_left_in_peace() -> None:
    assert run(None, 0) == []


def test_a_rank_whose_own_time_is_unknown_is_not_guessed() -> None:
    (change,) = [each for each in run(2, 200, known=False) if each.deviation.kind is AnomalyKind.CHANGE]
    assert change.suspect is None
    assert "`monitor.watch_model(model)` records it" in change.claim


def test_data_wait_alone_names_the_rank_where_own_time_is_unknown() -> None:
    (change,) = [each for each in run(2, 200, "data", known=False) if each.deviation.kind is AnomalyKind.CHANGE]
    assert (change.rank, change.suspect.part if change.suspect else "") == (2, "data wait")


def test_a_change_on_all_ranks_alike_has_no_suspect() -> None:
    group = GroupWatch()
    group.ranks.update((0, 1))
    found: list[Anomaly] = []
    for step in range(260):
        wall = 100.0 if step < 200 else 140.0
        for rank in (0, 1):
            found += group.feed(rank, record(step, wall, 2.0, wall - 20))
    (change,) = [each for each in found if each.deviation.kind is AnomalyKind.CHANGE]
    assert change.suspect is None
    assert "several ranks' own time grew alike" in change.claim


def test_profiled_steps_are_not_judged() -> None:
    group = GroupWatch()
    group.ranks.add(0)
    found: list[Anomaly] = []
    for step in range(100):
        captured = 50 <= step < 60
        found += group.feed(0, record(step, 300.0 if captured else 100.0, flags=CAPTURED if captured else 0))
    assert found == []


def test_a_step_that_a_rank_never_reports_does_not_hold_up_memory() -> None:
    group = GroupWatch()
    group.ranks.update((0, 1))
    for step in range(1000):
        assert group.feed(0, record(step, 100.0)) == []
    assert group.unmatched == 1000 - 256


def test_ranks_that_do_not_wait_for_each_other_are_told_apart_by_their_step_time() -> None:
    group = GroupWatch()
    group.ranks.update((0, 1, 2))
    found: list[Anomaly] = []
    for step in range(60):
        for rank in (0, 1, 2):
            found += group.feed(rank, record(step, 130.0 if rank == 1 else 100.0))
    assert [(each.deviation.kind, each.rank) for each in found] == [(AnomalyKind.SLOW_RANK, 1)]
    assert found[0].suspect is not None
    assert found[0].suspect.part == "the whole step"


def test_a_second_fault_is_blamed_on_its_own_rank_and_not_on_the_first() -> None:
    group = GroupWatch()
    group.ranks.update((0, 1, 2))
    found: list[Anomaly] = []
    for step in range(160):
        late = {0: 50.0 if step >= 125 else 0.0, 1: 0.0, 2: 30.0 if step >= 100 else 0.0}
        wall = BASE_MS + max(late.values()) + 20
        for rank in (0, 1, 2):
            found += group.feed(rank, record(step, wall, 2.0, BASE_MS + late[rank]))
    changes = [each for each in found if each.deviation.kind is AnomalyKind.CHANGE]
    assert [(each.deviation.step, each.rank) for each in changes] == [(100, 2), (125, 0)]
    assert changes[1].suspect is not None
    assert changes[1].suspect.excess_ms == pytest.approx(50)


def noisy_pair(
    fault: Callable[[int], float], core_wait: Callable[[int], float] = lambda _: 0.0, steps: int = 500, seed: int = 3
) -> list[Anomaly]:
    """Two ranks whose own time is 18 ms with a noise of 2 ms each, as measured on a shared machine of two cores; rank 1
    has a fault, and both wait for a core. The step lasts as long as the slower rank and 18 ms of exchange."""
    draw = random.Random(seed)
    group = GroupWatch()
    group.ranks.update((0, 1))
    found: list[Anomaly] = []
    for step in range(steps):
        waits = {rank: max(draw.gauss(1.0, 0.3), 0.0) * core_wait(step) for rank in (0, 1)}
        own = {rank: 18 + abs(draw.gauss(0, 2)) + waits[rank] + (fault(step) if rank == 1 else 0.0) for rank in (0, 1)}
        wall = max(own.values()) + 18
        for rank in (0, 1):
            found += group.feed(rank, record(step, wall, 0.3, own[rank]), waits[rank])
    return found


@pytest.mark.parametrize("seed", range(10))
def test_a_fault_of_15_percent_on_one_rank_is_noticed_within_30_steps_and_its_rank_named(seed: int) -> None:
    found = noisy_pair(lambda step: 5.5 if step >= 300 else 0.0, seed=seed)
    change = next(each for each in found if each.suspect is not None)
    assert change.deviation.kind in (AnomalyKind.RANK_CHANGE, AnomalyKind.CHANGE)  # whichever is clear first
    assert change.rank == 1
    assert 285 <= change.deviation.step <= 306
    assert 300 <= change.deviation.noticed < 330
    assert change.suspect is not None
    assert change.suspect.excess_ms == pytest.approx(5.5, rel=0.35)


@pytest.mark.parametrize("seed", range(10))
def test_even_ranks_are_never_named_also_while_other_jobs_take_their_cores(seed: int) -> None:
    found = noisy_pair(lambda _: 0.0, lambda step: 15.0 if 200 <= step < 300 else 0.0, steps=1500, seed=seed)
    assert [each for each in found if each.suspect is not None] == []
    changes = [each for each in found if each.deviation.kind is AnomalyKind.CHANGE]
    assert changes
    assert all(each.contention for each in changes)
    assert "more per step for a free core" in changes[0].claim


def test_a_fault_while_other_jobs_take_the_cores_is_still_named() -> None:
    found = noisy_pair(lambda step: 5.5 if step >= 300 else 0.0, lambda step: 15.0 if 250 <= step < 450 else 0.0)
    named = [each for each in found if each.suspect is not None]
    assert {each.rank for each in named} == {1}
    assert named[0].deviation.noticed < 340


def test_a_rank_whose_own_time_falls_makes_no_suspect_of_the_other() -> None:
    found = noisy_pair(lambda step: 10.0 if step < 300 else 0.0)
    assert {each.rank for each in found if each.suspect is not None} == {1}  # slow from the start, and nobody later


def test_single_long_steps_are_reported_in_one_line() -> None:
    group = GroupWatch()
    group.ranks.add(0)
    found: list[Anomaly] = []
    for step in range(300):
        found += group.feed(0, record(step, 150.0 if step in (120, 131, 177) else 160.0 if step == 150 else 100.0))
    (spikes,) = found
    assert (spikes.deviation.kind, spikes.deviation.count) == (AnomalyKind.SPIKE, 4)
    assert spikes.claim == (
        "4 single long steps from step 120 to 177: 150.0 ms at the median, 160.0 ms at most, usually 100.0 ms"
    )
    assert group.rest() == []


def test_waiting_for_a_core_is_taken_from_all_parts_of_the_own_time_alike() -> None:
    parts = parts_of(record(1, 80.0, data_wait_ms=16.0, own_ms=40.0), core_wait_ms=10.0)
    assert parts.share_ms == pytest.approx(
        {"data wait": 12.0, "garbage collection": 0.0, "other work of its own": 18.0}
    )
    assert parts.known_ms == pytest.approx(30.0)
    assert parts_of(record(1, 80.0, own_ms=40.0), core_wait_ms=50.0).known_ms == 0.0


def drowned(cpu_share: float) -> list[Anomaly]:
    """Rank 1 computes 9 ms longer from step 300 on, while both wait 20 to 60 ms of each step for a core."""
    draw = random.Random(4)
    group = GroupWatch()
    group.ranks.update((0, 1))
    found: list[Anomaly] = []
    for step in range(400):
        fault = 9.0 if step >= 300 else 0.0
        for rank in (0, 1):
            cpu = 18 + draw.gauss(0, 0.7) + (fault if rank == 1 else 0.0)
            waits = draw.uniform(20, 60)
            wall = 85.0 + draw.gauss(0, 8)
            own = cpu + waits
            spun = cpu if cpu_share == 0 else cpu_share * wall
            row = record(step, wall, 0.3, own, thread_cpu_us=int(1e3 * spun))
            found += group.feed(rank, row, waits + draw.gauss(0, 15))
    return found


def test_work_that_grows_on_one_rank_is_named_by_its_cpu_time_where_waiting_for_a_core_hides_it() -> None:
    named = [each for each in drowned(0.0) if each.suspect is not None]
    assert [(each.deviation.kind, each.rank) for each in named] == [(AnomalyKind.RANK_CHANGE, 1)]
    assert named[0].suspect is not None
    assert named[0].suspect.part == "other work of its own"
    assert 322 <= named[0].deviation.noticed < 334


def test_the_cpu_time_of_threads_that_may_spin_names_nobody() -> None:
    assert [each for each in drowned(0.97) if each.suspect is not None] == []


def named_by_changes(thresholds: WatchThresholds) -> int:
    """Changes of 20 runs that name a rank though all steps get longer by the exchange; own time has 12 ms of noise."""
    named = 0
    for seed in range(20):
        draw = random.Random(seed)
        group = GroupWatch(thresholds)
        group.ranks.update((0, 1))
        for step in range(200):
            wall = 100.0 + draw.gauss(0, 2) + (14.0 if step >= 150 else 0.0)
            for rank in (0, 1):
                found = group.feed(rank, record(step, wall, 0.3, 50 + draw.gauss(0, 12)))
                named += sum(each.deviation.kind is AnomalyKind.CHANGE and each.suspect is not None for each in found)
    return named


def test_a_difference_within_the_noise_of_own_time_names_no_rank() -> None:
    assert named_by_changes(DEFAULT) == 0
    assert named_by_changes(replace(DEFAULT, suspect_noises=0.0)) > 0
