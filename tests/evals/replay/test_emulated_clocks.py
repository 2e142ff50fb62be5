"""Clocks of emulated hosts: what the alignment finds, and what the replay is without it."""

from __future__ import annotations

from evals.replay.clocks import alignment, clock_text

GOAL_US, GOAL_PCT = 50.0, 2.0


def test_clocks_of_several_hosts_are_found_and_the_replay_needs_them() -> None:
    found = alignment(hosts_known=True, slow=1.5)
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


def test_the_table_has_a_row_with_and_one_without_names_of_hosts() -> None:
    *_, known, unknown = clock_text({"slow rank": {"slow": 1.5}}).splitlines()
    found = alignment(hosts_known=True, slow=1.5)
    assert known == (
        f"| slow rank | known | collective_ends_by_host | {found.offset_us:.0f} | {found.uncertainty_us:.0f} |"
        f" {found.replay_pct:+.2f} | {found.not_aligned_pct:+.2f} |"
    )
    assert unknown.startswith("| slow rank | unknown | collective_ends | ")
