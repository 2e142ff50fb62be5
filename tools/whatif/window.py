"""Which steps the dependency graph covers: neighbouring steps, the same on every rank, within a budget of nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.threads import main_track

NODE_BUDGET = 60_000
NODES_PER_LAUNCH = 2  # the stretch of host time before it, and the device operation
NODES_PER_STEP = 64  # waits, hand-overs and collectives of a rank that launches nothing


@dataclass(frozen=True, eq=False)
class Window:
    """Neighbouring steps; start_ns and end_ns per rank. A drained last step ends where its thread left it."""

    ranks: tuple[int, ...]
    steps: tuple[int, ...]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    step_ms: tuple[float, ...]  # of the slowest rank

    @property
    def recorded_step_ms(self) -> float:
        """Mean step time."""
        return float(np.mean(self.step_ms))

    @property
    def noise_ms(self) -> float:
        """Standard error of the mean step time; 0 when there is only one step."""
        count = len(self.step_ms)
        return float(np.std(self.step_ms, ddof=1) / np.sqrt(count)) if count > 1 else 0.0

    @property
    def origin_ns(self) -> int:
        """The moment from which the replay starts."""
        return int(self.start_ns.min())


def choose_window(profile: Profile, budget: int = NODE_BUDGET) -> Window:
    """All shared steps within the budget, else the neighbouring ones whose mean is nearest to the median of all."""
    steps = _shared_steps(profile)
    walls = steps.wall_ms
    nodes = np.sum([_nodes(rank, steps.numbers) for rank in steps.ranks], axis=0)
    count = max(1, min(len(walls), int(budget // max(float(np.median(nodes)), 1.0))))
    sums = np.convolve(walls, np.ones(count), mode="valid")
    return steps.window(int(np.argmin(np.abs(sums / count - np.median(walls)))), count)


def single_steps(profile: Profile) -> list[Window]:
    """A window for each step that all ranks share, in order."""
    steps = _shared_steps(profile)
    return [steps.window(first, 1) for first in range(len(steps.numbers))]


@dataclass(frozen=True, eq=False)
class _SharedSteps:
    """Numbers of the steps that the ranks share, and their bounds, shape (ranks, steps)."""

    ranks: list[RankProfile]
    numbers: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]

    @property
    def wall_ms(self) -> NDArray[np.float64]:
        """Time of each step on its slowest rank."""
        return np.asarray((self.end_ns - self.start_ns).max(axis=0) / 1e6)

    def window(self, first: int, count: int) -> Window:
        """Neighbouring steps from the one at this position on."""
        last = first + count
        return Window(
            ranks=tuple(rank.rank.rank for rank in self.ranks),
            steps=tuple(self.numbers[first:last].tolist()),
            start_ns=self.start_ns[:, first],
            end_ns=self.end_ns[:, last - 1],
            step_ms=tuple(self.wall_ms[first:last].tolist()),
        )


def _shared_steps(profile: Profile) -> _SharedSteps:
    ranks = _ranks_in_step(profile)
    shared = set.intersection(*({step.number for step in rank.rank.steps} for rank in ranks))
    if not shared:
        ranks = ranks[:1]
        shared = {step.number for step in ranks[0].rank.steps}
    numbers = np.array(sorted(shared), dtype=np.int64)
    starts, ends = (np.stack(side) for side in zip(*(_bounds(rank, numbers) for rank in ranks), strict=True))
    return _SharedSteps(ranks, numbers, starts, ends)


def _bounds(rank: RankProfile, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of the rank's steps, the last one's end as its thread left it; where no steps are marked, those of
    the recording, of which the device's work behind the host is a part."""
    table = rank.steps.set_index("number")
    start_ns, end_ns = (int(table[side].iloc[-1]) for side in ("start_ns", "end_ns"))
    main = rank.track == main_track(rank)
    marks = np.flatnonzero(main & rank.named("profiler_step") & (rank.start == start_ns) & (rank.end > start_ns))
    rows = marks if len(marks) else np.flatnonzero(main & (rank.start < end_ns))
    left_ns = int(rank.end[rows].max(initial=start_ns))
    if rank.rank.step_origin != "window":
        table.loc[table.index[-1], "end_ns"] = min(end_ns, left_ns) if left_ns > start_ns else end_ns
    chosen = table.reindex(numbers)
    return chosen["start_ns"].to_numpy(dtype=np.int64), chosen["end_ns"].to_numpy(dtype=np.int64)


def _ranks_in_step(profile: Profile) -> list[RankProfile]:
    """The ranks that share at least one step number with the first rank that has steps."""
    having = [rank for rank in profile.ranks if rank.rank.steps]
    if not having:
        raise UsageError("the run has no steps, so there is nothing to replay; mark steps with the profiler's step()")
    reference = {step.number for step in having[0].rank.steps}
    return [rank for rank in having if reference & {step.number for step in rank.rank.steps}]


def _nodes(rank: RankProfile, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    calls = rank.launches["launch_row"].to_numpy()
    steps = rank.step_of(calls)
    counts = np.searchsorted(np.sort(steps), numbers, side="right") - np.searchsorted(np.sort(steps), numbers)
    return np.asarray(counts * NODES_PER_LAUNCH + NODES_PER_STEP, dtype=np.int64)
