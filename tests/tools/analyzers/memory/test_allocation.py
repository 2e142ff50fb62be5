"""Allocation in steady steps, and peak use."""

from __future__ import annotations

import pytest

from tests.asked import asking
from tests.synthetic import RankBuilder, profile_of
from tools.run.events import EventKind
from tools.whatif.change import Scale, Unblock

analyze = asking("memory.allocation", "memory.peak", "memory.recomputation")

GIB = 2**30


def allocating(first_step_only: bool, steps: int = 3) -> RankBuilder:
    rank = RankBuilder()
    for step in range(steps):
        at = 50_000 * step
        if step == 0 or not first_step_only:
            rank.runtime("cudaFree", at, 4000)
            rank.runtime("cudaMalloc", at + 4000, 8000)
        rank.kernel("kernel", start_us=at + 12_002, duration_us=37_000, call_us=at + 12_000)
        rank.step(step, at, at + 50_000)
    return rank


def test_allocation_in_every_step_is_memory_pressure() -> None:
    (finding,) = analyze(profile_of(allocating(first_step_only=False)))[0].findings
    assert (finding.cause, finding.mechanism) == ("memory_pressure", "allocator_retry")
    calls, spent = finding.claim.facts
    assert (calls.value, spent.value) == (2, 12)
    assert finding.claim.names == ("cudaMalloc",)
    assert finding.steps == (1, 2)
    shorter, freed = finding.change
    assert isinstance(shorter, Scale)
    assert len(shorter.intervals) == 2
    assert isinstance(freed, Unblock)
    assert len(freed.rows) == 2


def test_allocation_in_the_first_step_is_usual() -> None:
    check = analyze(profile_of(allocating(first_step_only=True)))[0]
    assert check.status == "clean"
    assert [fact.value for fact in check.support[0].facts] == [0, 0]


def test_one_step_cannot_separate_start_up_from_pressure() -> None:
    check = analyze(profile_of(allocating(first_step_only=False, steps=1)))[0]
    assert check.status == "cannot_answer"
    assert "one step" in check.reason


def test_peak_use_is_reported_where_the_allocator_was_recorded() -> None:
    rank = allocating(first_step_only=True)
    for at, used in ((100, 10), (200, 24), (300, 12)):
        mark = rank.event(EventKind.INSTANT, "[memory]", at, 0)
        rank.detail(
            "memory",
            mark,
            bytes=GIB,
            total_allocated=used * GIB,
            total_reserved=30 * GIB,
            device_type=1,
            device=0,
        )
    check = analyze(profile_of(rank))[1]
    allocated, reserved, unused = check.support[0].facts
    assert (allocated.value, reserved.value) == (24 * 1024, 30 * 1024)
    assert unused.value == pytest.approx(20.0)
    assert check.support[1].facts[0].value == pytest.approx(100 * 30 * GIB / 34e9)


def test_without_memory_marks_the_peak_is_unknown() -> None:
    assert analyze(profile_of(allocating(True)))[1].status == "cannot_answer"
