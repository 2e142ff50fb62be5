"""Replay of the order in which a pipeline trains the subnets of a supernet, and a check that it is sequential."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from tools.whatif.planners.supernet_limits import Room

Subnets: TypeAlias = list[list[int]]


@dataclass(frozen=True)
class Task:
    """One pass of one subnet on one stage."""

    stage: int
    subnet: int
    backward: bool
    start_ms: float
    end_ms: float

    @property
    def span_ms(self) -> tuple[float, float]:
        """Start and end."""
        return self.start_ms, self.end_ms


@dataclass(frozen=True)
class Times:
    """Times of a pass on each stage, and of fetching its layers."""

    forward_ms: Sequence[float]
    backward_ms: Sequence[float]
    fetch_ms: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """All tasks in order of start; how many found their layers, and how long the others waited for them.

    ``in_flight``: the most subnets between their passes that each stage held.
    """

    tasks: list[Task]
    hits: int
    stall_ms: float
    in_flight: list[int]

    @property
    def makespan_ms(self) -> float:
        """From the first start to the last end."""
        return max(each.end_ms for each in self.tasks) - min(each.start_ms for each in self.tasks)


def draw(subnets: int, layers: int, choices: int, seed: int) -> Subnets:
    """Return subnets with one uniform choice per layer."""
    source = random.Random(seed)
    return [[source.randrange(choices) for _ in range(layers)] for _ in range(subnets)]


def stage_cuts(layers: int, stages: int) -> list[int]:
    """Return the first layer of each stage and the end of the last: equal runs, the first ones longer by the rest."""
    size, rest = divmod(layers, stages)
    return [stage * size + min(stage, rest) for stage in range(stages + 1)]


def violations(tasks: Sequence[Task], subnets: Subnets, cuts: Sequence[int]) -> int:
    """Count the pairs of subnets whose order on a shared layer choice differs from the sequential one."""
    spans: dict[tuple[int, int], list[float]] = {}
    for each in tasks:
        spans.setdefault((each.stage, each.subnet), [0.0, 0.0])[each.backward] = (
            each.end_ms if each.backward else each.start_ms
        )
    broken = 0
    for stage, (first, behind) in enumerate(pairwise(cuts)):
        users: dict[tuple[int, int], int] = {}
        for subnet, chosen in enumerate(subnets):
            for layer in range(first, behind):
                earlier = users.get((layer, chosen[layer]))
                if earlier is not None and spans[stage, earlier][1] > spans[stage, subnet][0]:
                    broken += 1
                users[layer, chosen[layer]] = subnet
    return broken


def schedule(subnets: Subnets, cuts: Sequence[int], times: Times, rooms: Sequence[Room] | None = None) -> Schedule:
    """Replay the rule on all stages, each with its room, else without a limit."""
    return _Pipeline(subnets, cuts, times, rooms).run()


class _Stage:
    """Received work of one stage, and which subnets hold the front place at all their layer choices."""

    def __init__(self, subnets: Subnets, first: int, behind: int, given: Room | None) -> None:
        self.room = given
        self.in_flight = set[int]()  # forward pass begun, backward pass not done
        self.most_in_flight = 0
        self.trained = [False] * len(subnets)
        self.earliest = 0  # not trained here yet
        self.size = behind - first
        self.chosen = [[(layer, subnet[layer]) for layer in range(first, behind)] for subnet in subnets]
        self.users: dict[tuple[int, int], list[int]] = defaultdict(list)  # the next one last: hardly larger than empty
        for subnet in reversed(range(len(subnets))):
            for key in self.chosen[subnet]:
                self.users[key].append(subnet)
        self.fronts = [0] * len(subnets)
        for users in self.users.values():
            self.fronts[users[-1]] += 1
        self.received = [False] * len(subnets)
        self.forwards: list[int] = []
        self.backwards: list[int] = []
        self.busy = False
        self.requested: dict[tuple[bool, int], float] = {}

    def receive(self, subnet: int) -> None:
        """Take in a subnet from the stage before."""
        self.received[subnet] = True
        if self.fronts[subnet] == self.size:
            heapq.heappush(self.forwards, subnet)

    def release(self, subnet: int) -> None:
        """Let the next users of its choices move to the front, as its backward pass is done."""
        self.in_flight.discard(subnet)
        self.trained[subnet] = True
        while self.earliest < len(self.trained) and self.trained[self.earliest]:
            self.earliest += 1
        for key in self.chosen[subnet]:
            users = self.users[key]
            users.pop()
            if users:
                self.fronts[users[-1]] += 1
                if self.fronts[users[-1]] == self.size and self.received[users[-1]]:
                    heapq.heappush(self.forwards, users[-1])

    def next_task(self) -> tuple[bool, int] | None:
        """Take the next task by the rule: whether it is a backward pass, and its subnet."""
        if self.backwards:
            return True, heapq.heappop(self.backwards)
        if not self.forwards or not self._has_place(self.forwards[0]):
            return None
        self.in_flight.add(self.forwards[0])
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        return False, heapq.heappop(self.forwards)

    def _has_place(self, subnet: int) -> bool:
        """Whether the stage can hold the subnet and still the earliest one."""
        if self.room is None:
            return True
        kept = 0 if self.earliest == subnet or self.earliest in self.in_flight else 1
        return len(self.in_flight) + kept < self.room.places

    def request(self, task: tuple[bool, int], now_ms: float) -> None:
        """Fetch the layers of a task ahead; with a memory limit there is room for one."""
        if self.room is None:
            self.requested.setdefault(task, now_ms)
        elif self.room.prefetches:
            self.requested = {task: self.requested.get(task, now_ms)}

    def predicted(
        self, running: tuple[bool, int] | None, coming: Sequence[tuple[bool, int]]
    ) -> tuple[bool, int] | None:
        """The task that the rule takes next if the running one were done and what neighbours compute had come."""
        backwards = [*self.backwards[:1], *(subnet for backward, subnet in coming if backward)]
        if backwards:
            return True, min(backwards)
        gained: dict[int, int] = defaultdict(int)
        if running is not None and running[0]:
            for key in self.chosen[running[1]]:
                if len(self.users[key]) > 1:
                    gained[self.users[key][-2]] += 1
        arriving = {subnet for backward, subnet in coming if not backward}
        forwards = self.forwards[:1]
        for subnet in {*gained, *arriving}:
            here = self.received[subnet] or subnet in arriving
            if here and self.fronts[subnet] + gained.get(subnet, 0) == self.size:
                forwards.append(subnet)
        return (False, min(forwards)) if forwards else None


class _Pipeline:
    """Event simulation of all stages."""

    def __init__(self, subnets: Subnets, cuts: Sequence[int], times: Times, rooms: Sequence[Room] | None) -> None:
        self.times = times
        own: Sequence[Room | None] = rooms or [None] * (len(cuts) - 1)
        self.stages = [_Stage(subnets, *span, each) for span, each in zip(pairwise(cuts), own, strict=True)]
        for subnet in range(len(subnets)):
            self.stages[0].receive(subnet)
        self.running: list[tuple[bool, int] | None] = [None] * len(self.stages)
        self.ends: list[tuple[float, int]] = []
        self.tasks: list[Task] = []
        self.hits, self.stall_ms = 0, 0.0

    def run(self) -> Schedule:
        """Advance from end to end; all ends of one moment count before a stage decides."""
        now_ms = 0.0
        while True:
            started = [
                place for place, stage in enumerate(self.stages) if not stage.busy and self._start(place, now_ms)
            ]
            for place in sorted({near for each in started for near in (each - 1, each, each + 1)}):
                if 0 <= place < len(self.stages):
                    self._predict(place, now_ms)
            if not self.ends:
                return Schedule(self.tasks, self.hits, self.stall_ms, [each.most_in_flight for each in self.stages])
            now_ms = self.ends[0][0]
            while self.ends and self.ends[0][0] == now_ms:
                self._finish(heapq.heappop(self.ends)[1])

    def _start(self, place: int, now_ms: float) -> bool:
        stage = self.stages[place]
        task = stage.next_task()
        if task is None:
            return False
        requested_ms = stage.requested.pop(task, None)
        arrival_ms = (now_ms if requested_ms is None else requested_ms) + self.times.fetch_ms
        start_ms = max(now_ms, arrival_ms)
        self.hits += requested_ms is not None and arrival_ms <= now_ms
        self.stall_ms += start_ms - now_ms
        backward, subnet = task
        end_ms = start_ms + (self.times.backward_ms if backward else self.times.forward_ms)[place]
        self.tasks.append(Task(place, subnet, backward, start_ms, end_ms))
        heapq.heappush(self.ends, (end_ms, place))
        stage.busy, self.running[place] = True, task
        return True

    def _predict(self, place: int, now_ms: float) -> None:
        coming = []
        if place > 0 and (before := self.running[place - 1]) is not None and not before[0]:
            coming.append(before)
        if place + 1 < len(self.stages) and (behind := self.running[place + 1]) is not None and behind[0]:
            coming.append(behind)
        own = self.running[place]
        if place + 1 == len(self.stages) and own is not None and not own[0]:
            coming.append((True, own[1]))
        expected = self.stages[place].predicted(own, coming)
        if expected is not None:
            self.stages[place].request(expected, now_ms)

    def _finish(self, place: int) -> None:
        task = self.running[place]
        assert task is not None
        backward, subnet = task
        stage, self.running[place] = self.stages[place], None
        stage.busy = False
        if backward:
            stage.release(subnet)
            if place > 0:
                heapq.heappush(self.stages[place - 1].backwards, subnet)
        elif place + 1 < len(self.stages):
            self.stages[place + 1].receive(subnet)
        else:
            heapq.heappush(stage.backwards, subnet)
