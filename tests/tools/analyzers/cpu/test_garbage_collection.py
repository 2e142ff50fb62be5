"""Pauses of Python's garbage collector."""

from __future__ import annotations

import pytest

from tests.asked import asking
from tests.synthetic import RankBuilder, profile_of
from tools.whatif.change import Scale

analyze = asking("cpu.garbage_collection")


def collecting(pause_us: float, hidden: bool = False) -> RankBuilder:
    rank = RankBuilder()
    for step in range(4):
        at = 10_000 * step
        if step == 2 and pause_us:
            rank.annotation("Python GC", at, pause_us)
        start = 2.0 if hidden or step != 2 else pause_us + 2
        rank.kernel("kernel", start_us=at + start, duration_us=9998 - start, call_us=at + start - 2)
        rank.step(step, at, at + 10_000)
    return rank


def test_a_pause_that_starves_the_device_is_found_in_its_step() -> None:
    (check,) = analyze(profile_of(collecting(4000)))
    (finding,) = check.findings
    count, exposed, longest = finding.claim.facts
    assert (count.value, longest.value) == (1, 4.0)
    assert exposed.value == pytest.approx(1.0, rel=0.01)
    assert finding.steps == (2,)
    (change,) = finding.change
    assert isinstance(change, Scale)
    assert (change.factor, change.cautious_factor) == (0.1, 0.5)


def test_a_pause_that_the_device_does_not_notice_is_clean() -> None:
    (check,) = analyze(profile_of(collecting(4000, hidden=True)))
    assert check.status == "clean"


def test_without_recorded_collections_there_is_no_answer() -> None:
    (check,) = analyze(profile_of(collecting(0)))
    assert check.status == "cannot_answer"
    assert "gc" in check.needs
