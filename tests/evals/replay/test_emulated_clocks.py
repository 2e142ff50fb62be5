"""Clocks of emulated hosts: what the alignment finds, and what the replay is without it."""

from __future__ import annotations

from evals.replay.clocks import alignment

GOAL_US, GOAL_PCT = 50.0, 2.0


def test_clocks_of_several_hosts_are_found_and_the_replay_needs_them() -> None:
    found = alignment(slow=1.5)
    assert found.method == "collective_ends_by_host"
    assert found.offset_us < min(GOAL_US, 2 * found.uncertainty_us)
    assert abs(found.replay_pct) < GOAL_PCT
    assert found.not_aligned_pct > 4 * GOAL_PCT


def test_without_names_of_hosts_every_rank_has_a_clock_of_its_own() -> None:
    found = alignment(hosts_known=False)
    assert found.method == "collective_ends"
    assert found.offset_us < GOAL_US


def test_ranks_that_leave_one_after_another_make_the_clocks_uncertain() -> None:
    found = alignment(cross=3.0)
    assert found.offset_us > GOAL_US
    assert found.uncertainty_us > found.offset_us
