"""Whole made-up runs that several tests use."""

from __future__ import annotations

from tests.synthetic import RankBuilder, profile_of
from tools.views.profile import Profile

STEPS = 5


def host_bound(step_ms: float) -> Profile:
    """Steps of that length in which the host works all the time and ends each with one short kernel it waits for."""
    builder = RankBuilder()
    step_us = step_ms * 1000.0
    for number in range(STEPS):
        start = number * step_us
        builder.operator("aten::work", start + 5, step_us - 60)
        builder.kernel("sgemm", start + step_us - 40, 20, call_us=start + step_us - 50)
        builder.runtime("cudaDeviceSynchronize", start + step_us - 45, 30)
        builder.annotation(f"ProfilerStep#{number}", start, step_us)
        builder.step(number, start, start + step_us)
    return profile_of(builder)


def taking_turns() -> list[RankBuilder]:
    """Two ranks of four steps of 0.9 or 0.3 ms: the slowest of each takes 0.9 ms, each rank 0.6 ms on average."""
    ranks = []
    for number in range(2):
        rank, at = RankBuilder(number, device=None), 0.0
        for step in range(4):
            length = 900.0 if step % 2 == number else 300.0
            rank.operator("work", at, length)
            rank.step(step, at, at + length)
            at += length
        ranks.append(rank)
    return ranks
