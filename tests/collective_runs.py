"""Runs of several ranks that meet in collectives, with known lateness and known transfer times. Times in us."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.synthetic import V100, RankBuilder, run_of
from tools.run.model import Layout
from tools.views.profile import Profile

COMPUTE_US = 4000.0
TRANSFER_US = 500.0
TAIL_US = 100.0
RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def late_run(
    lateness: Callable[[int, int], float],
    ranks: int = 4,
    steps: int = 5,
    how: str = "compute",
    elements: int = 1 << 20,
    transfer_us: float = TRANSFER_US,
) -> Profile:
    """Every step computes, meets in one all-reduce and waits for it; ``lateness(rank, step)``: how much longer.

    ``how`` says where it takes it: "compute" (a longer kernel), "host" (a later launch) or "data" (a loader span).
    """
    builders = [RankBuilder(rank) for rank in range(ranks)]
    start = 0.0
    for step in range(steps):
        late = [lateness(rank, step) for rank in range(ranks)]
        end = start + 20 + COMPUTE_US + max(late) + transfer_us
        for rank, builder in enumerate(builders):
            _step(builder, step, start, end, late[rank], how, elements)
        start = end + TAIL_US
    return Profile(run_of(*builders))


def _step(rank: RankBuilder, step: int, start: float, end: float, late: float, how: str, elements: int) -> None:
    delay = 0.0 if how == "compute" else late
    longer = late if how == "compute" else 0.0
    if how == "data" and late:
        rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start + 5, late)
    launch = start + 10 + delay
    rank.kernel("sgemm_128x64", launch + 10, COMPUTE_US + longer, call_us=launch)
    begin = launch + 10 + COMPUTE_US + longer
    all_reduce(rank, begin, end - begin, call_us=launch + 5, elements=elements)
    rank.runtime("cudaDeviceSynchronize", launch + 7, end + 5 - launch - 7)
    rank.step(step, start, end + TAIL_US)


def all_reduce(
    rank: RankBuilder, start: float, duration: float, call_us: float | None = None, elements: int = 1 << 20
) -> int:
    """One recorded all-reduce of floats in the default group."""
    handle = rank.kernel(RING, start, duration, call_us=call_us, call_duration_us=1.0)
    rank.detail(
        "collectives",
        handle,
        collective="allreduce",
        group="0",
        group_size=-1,
        ranks="",
        dtype="Float",
        in_elements=elements,
        out_elements=elements,
    )
    return handle


def lone_run(durations: Sequence[Sequence[tuple[int, float]]], compute_us: float = 1000.0) -> Profile:
    """One rank; in every step a kernel and then all-reduces of (elements, duration) one after the other."""
    rank = RankBuilder(0)
    start = 0.0
    for step, messages in enumerate(durations):
        rank.kernel("sgemm_128x64", start + 20, compute_us, call_us=start + 10)
        at = start + 20 + compute_us
        for elements, duration in messages:
            all_reduce(rank, at, duration, call_us=start + 15, elements=elements)
            at += duration + 1
        rank.step(step, start, at)
        start = at
    return Profile(run_of(rank, layout=Layout(world_size=2)))


def in_one_machine(profile: Profile, devices: int) -> Profile:
    """The same run, every rank naming that many devices of its machine."""
    every = tuple(replace(V100, index=index) for index in range(devices))
    ranks = tuple(replace(rank, devices=every) for rank in profile.run.ranks)
    return Profile(replace(profile.run, ranks=ranks), profile.thresholds)
