"""Runs the items of all ranks against a host clock, device streams and each other, and records what a profiler sees.

Launches queue on their stream; a collective begins on a rank when what it depends on is done, and ends on all of its
ranks together once the last has come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field

from evals.synthetic.items import Call, Collective, DeviceMemory, Item, Join, Mark, Pause, Sync, Unmark, Work
from tools.errors import UsageError

QUEUE = 1000  # launches that may wait for the device before a further one has to wait
LAUNCH_US = 4.5
GAP_US = 1.2  # between two kernels of one stream
NCCL_HOST_US = 24.0


@dataclass(frozen=True)
class Row:
    """One event as the profiler would write it."""

    category: str
    name: str
    start_us: float
    us: float
    track: str  # "main", "autograd", "compute", "group:0,1"
    correlation: int = 0
    external: int = 0
    item: Call | Work | Collective | None = None


@dataclass
class _Posted:
    """A collective that a rank has launched and that has not ended yet."""

    item: Collective
    ready_us: float
    correlation: int
    external: int


@dataclass
class RankClock:
    """One rank's clocks and what it recorded."""

    rank: int
    host_us: float = 0.0
    compute_us: float = 0.0
    rows: list[Row] = field(default_factory=list)
    streams_us: dict[tuple[int, ...], float] = field(default_factory=dict)
    posted: dict[tuple[int, ...], deque[_Posted]] = field(default_factory=dict)
    correlation: int = 0
    external: int = 0
    _queue: deque[float] = field(default_factory=deque)
    _marks: list[tuple[str, float]] = field(default_factory=list)

    def run(self, items: Sequence[Item]) -> Generator[None]:
        """Carry the items out; yield whenever collectives have to end before it can go on."""
        for item in items:
            if isinstance(item, Join | Sync | DeviceMemory):
                while any(self.posted.values()):
                    yield
            self._carry_out(item)

    def _carry_out(self, item: Item) -> None:
        match item:
            case Call():
                self._call(item)
            case Pause():
                self._pause(item)
            case Sync():
                self._sync(item)
            case DeviceMemory():
                self._memory(item)
            case Collective():
                self._collective(item)
            case Join():
                self._join()
            case Mark(name):
                self._marks.append((name, self.host_us))
            case Unmark():
                name, begun = self._marks.pop()
                self.rows.append(Row("user_annotation", name, begun, self.host_us - begun, "main"))

    def _call(self, item: Call) -> None:
        self.external += 1
        begun, external = self.host_us, self.external
        for work in item.work:
            self.host_us += max(item.host_us / max(len(item.work), 1) - LAUNCH_US, 1.0) * 0.7
            self._launch(work, external, item.thread)
        self.host_us = max(self.host_us + 1.0, begun + item.host_us)
        self.rows.append(
            Row("cpu_op", item.name, begun, self.host_us - begun, item.thread, external=external, item=item)
        )
        if item.around:
            outer = self.host_us - begun + 1.0  # apart from the next one, as calls of one thread are
            self.rows.append(Row("cpu_op", item.around, begun, outer, item.thread, external=external))
            self.host_us += 1.5

    def _launch(self, work: Work, external: int, thread: str) -> None:
        self.correlation += 1
        begun = self.host_us
        if len(self._queue) >= QUEUE:
            self.host_us = max(self.host_us, self._queue.popleft())
        start = max(self.host_us + LAUNCH_US, self.compute_us + GAP_US)
        self.compute_us = start + work.us
        self._queue.append(self.compute_us)
        self.host_us = self.compute_us + 3.0 if work.blocking else self.host_us + LAUNCH_US
        call = Row("cuda_runtime", work.call, begun, self.host_us - begun, thread, self.correlation, external)
        self.rows.append(call)
        self.rows.append(Row(work.category, work.name, start, work.us, "compute", self.correlation, external, work))

    def _pause(self, item: Pause) -> None:
        if item.name:
            self.rows.append(Row(item.category, item.name, self.host_us, item.us, "main"))
            each = item.us / max(len(item.inside), 1)
            for place, (name, category) in enumerate(item.inside):
                start = self.host_us + place * each + 0.02 * each
                self.rows.append(Row(category, name, start, 0.96 * each, "main"))
        self.host_us += item.us

    def _sync(self, item: Sync) -> None:
        self.external += 1
        begun = self.host_us
        copy = Work("Memcpy DtoH (Device -> Pageable)", 1.6, "gpu_memcpy", "cudaMemcpyAsync", bytes=4)
        self.host_us += 6.0
        self._launch(copy, self.external, "main")
        self.correlation += 1
        waiting = self.host_us
        self.host_us = max(self.host_us, self.compute_us) + 4.0
        self.rows.append(Row("cuda_runtime", item.call, waiting, self.host_us - waiting, "main", self.correlation))
        span = self.host_us - begun
        self.rows.append(
            Row("cpu_op", "aten::_local_scalar_dense", begun + 1.0, span - 0.5, "main", external=self.external)
        )
        self.rows.append(Row("cpu_op", item.operator, begun, span + 1.0, "main", external=self.external))
        self.host_us += 2.0

    def _memory(self, item: DeviceMemory) -> None:
        self.correlation += 1
        begun = self.host_us
        if item.waits:
            self.host_us = max(self.host_us, self.compute_us)
        self.host_us += item.us
        self.rows.append(Row("cuda_runtime", item.call, begun, self.host_us - begun, "main", self.correlation))

    def _collective(self, item: Collective) -> None:
        self.external += 1
        self.correlation += 1
        begun, external = self.host_us, self.external
        self.host_us += NCCL_HOST_US
        launch = Row("cuda_runtime", "cudaLaunchKernelExC", self.host_us - 6.0, 5.0, "main", self.correlation, external)
        self.rows.append(
            Row("cpu_op", "record_param_comms", begun + 2, NCCL_HOST_US - 3, "main", external=external, item=item)
        )
        self.rows.append(Row("cpu_op", f"c10d::{item.kind}_", begun, NCCL_HOST_US, "main", external=external - 1))
        self.rows.append(launch)
        waiting = self.posted.setdefault(item.group, deque())
        waiting.append(_Posted(item, max(self.host_us, self.compute_us), self.correlation, external))

    def _join(self) -> None:
        self.compute_us = max([self.compute_us, *self.streams_us.values()])
        self.correlation += 1
        self.rows.append(Row("cuda_runtime", "cudaStreamWaitEvent", self.host_us, 1.5, "main", self.correlation))
        self.host_us += 2.0


def simulate(
    steps: Sequence[Sequence[Sequence[Item]]], first_step: int = 10, ranks: Sequence[int] | None = None
) -> list[RankClock]:
    """Records of every simulated rank; ``steps[step]`` holds the items of each of ``ranks`` (by default from 0 on).

    Members of a group that are not simulated are taken to come in time.
    """
    clocks = [RankClock(rank) for rank in (range(len(steps[0])) if ranks is None else ranks)]
    by_rank = {clock.rank: clock for clock in clocks}
    for number, of_step in enumerate(steps):
        begun = [clock.host_us for clock in clocks]
        running = [clock.run(items) for clock, items in zip(clocks, of_step, strict=True)]
        while running:
            running = [each for each in running if next(each, running) is not running]
            met = _meet(by_rank)
            if running and not met:
                raise UsageError(
                    f"in step {number} the ranks of the synthetic run wait for collectives that never meet"
                )
        for clock, start in zip(clocks, begun, strict=True):
            name = f"ProfilerStep#{first_step + number}"
            clock.rows.append(Row("user_annotation", name, start, clock.host_us - start, "main"))
            clock.host_us += 3.0
    return clocks


def _meet(clocks: Mapping[int, RankClock]) -> int:
    """Ends every collective that all of its simulated ranks have launched; gives how many."""
    met = 0
    groups = {group for clock in clocks.values() for group, posted in clock.posted.items() if posted}
    for group in sorted(groups):
        members = [clocks[rank] for rank in group if rank in clocks]
        while all(member.posted.get(group) for member in members):
            _end_together(members, group)
            met += 1
    return met


def _end_together(members: Sequence[RankClock], group: tuple[int, ...]) -> None:
    posted = [clock.posted[group].popleft() for clock in members]
    starts = [
        max(each.ready_us, clock.streams_us.get(group, 0.0)) + GAP_US
        for each, clock in zip(posted, members, strict=True)
    ]
    end = max(starts) + max(each.item.us for each in posted)
    track = "group:" + ",".join(str(rank) for rank in group)
    for clock, each, start in zip(members, posted, starts, strict=True):
        clock.streams_us[group] = end
        name = KERNELS[each.item.kind]
        clock.rows.append(Row("kernel", name, start, end - start, track, each.correlation, each.external, each.item))


KERNELS = {
    "allreduce": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "all_to_all": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    "send_recv": "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
}
