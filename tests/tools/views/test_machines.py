"""Host names that stand for one machine, by what its cores counted."""

from __future__ import annotations

from tools.views.host.records import Counted, same_machines


def counted(time_s: float, booted_s: float, idled_s: float, cores: float = 8.0) -> Counted:
    """Cores that have idled for so long by then, half idle since."""
    up_s = time_s - booted_s
    return Counted(time_s, cores, up_s * cores * 100.0, idled_s * cores * 100.0, 0.5 * cores * 100.0)


def test_containers_that_count_the_same_cores_are_one_machine() -> None:
    first, second = counted(10_000.0, 0.0, 6_000.0), counted(10_004.0, 0.0, 6_002.0)
    assert same_machines([((0,), first), ((1,), second)]) == ((0, 1),)


def test_machines_that_started_at_the_same_moment_differ_in_what_they_idled() -> None:
    first, second = counted(10_000.0, 0.0, 6_000.0), counted(10_000.0, 0.0, 5_000.0)
    assert sorted(same_machines([((0,), first), ((1,), second)])) == [(0,), (1,)]


def test_machines_that_idled_equally_long_differ_in_when_they_started() -> None:
    first, second = counted(10_000.0, 0.0, 6_000.0), counted(10_000.0, 500.0, 6_000.0)
    assert sorted(same_machines([((0, 1), first), ((2, 3), second)])) == [(0, 1), (2, 3)]


def test_a_rank_that_another_one_speaks_for_is_on_the_one_machine_that_was_counted() -> None:
    hosts = [((0,), counted(10_000.0, 0.0, 6_000.0)), ((1,), None)]
    assert same_machines(hosts, {1}) == ((0, 1),)
    assert sorted(same_machines(hosts, set())) == [(0,), (1,)]


def test_with_two_counted_machines_an_uncounted_host_stays_apart() -> None:
    two = [((0,), counted(10_000.0, 0.0, 6_000.0)), ((1,), counted(10_000.0, 900.0, 3_000.0))]
    assert sorted(same_machines([*two, ((2,), None)], {2})) == [(0,), (1,), (2,)]
