"""Order of the subnets of a supernet in a pipeline that trains them as in sequence (NASPipe).

On a stage, the forward pass of a subnet may start only when every earlier subnet that shares a layer choice of this
stage has finished its backward pass here. A free stage takes the first ready backward pass, else the first subnet that
it has received and that may start; a predictor applies the same rule ahead and fetches the layers.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, TypeAlias

from pydantic import Field, model_validator

from tools.whatif.planners.record import Given, Milliseconds, Plan, Planned
from tools.whatif.timeline import Bar

MOST_STAGES = 64
MOST_SUBNETS = 20_000
MOST_CHOICES = 1_000_000  # layers times subnets; the replay is linear in it, about 15 s at this limit
NEARLY_ALL = 0.95  # of the time: what takes it without dependencies, limits the pipeline with them

Choices = Annotated[list[int], Field(fail_fast=True)]
Subnets: TypeAlias = list[list[int]]


class Input(Given):
    """The pipeline and the subnets: listed, or drawn uniformly from a seed; times per subnet, one per stage or for all.

    ``fetch_ms`` is what bringing the layers of one subnet and stage to the device takes.
    """

    stages: Annotated[int, Field(ge=1, le=MOST_STAGES)]
    layers: Annotated[int, Field(ge=1, le=MOST_CHOICES)]
    choices: Annotated[int, Field(ge=1, le=1 << 31)]
    subnets: Annotated[int | None, Field(ge=1, le=MOST_SUBNETS)] = None
    seed: int | None = None
    subnet_choices: Annotated[list[Choices] | None, Field(min_length=1, max_length=MOST_SUBNETS)] = None
    forward_ms: Milliseconds | list[Milliseconds] = 1.0
    backward_ms: Milliseconds | list[Milliseconds] = 1.0
    fetch_ms: Milliseconds = 0.0

    @model_validator(mode="after")
    def _complete(self) -> Input:
        if self.layers < self.stages:
            raise ValueError(f"layers: {self.layers} layers do not fill {self.stages} stages")
        for name, times in (("forward_ms", self.forward_ms), ("backward_ms", self.backward_ms)):
            if isinstance(times, list) and len(times) != self.stages:
                raise ValueError(f"{name}: {len(times)} times for {self.stages} stages; give one per stage, or one")
        if self.subnet_choices is None:
            if self.subnets is None or self.seed is None:
                raise ValueError("subnets: give subnets and seed, or subnet_choices")
        elif self.subnets not in (None, len(self.subnet_choices)):
            raise ValueError(f"subnets: {self.subnets} does not agree with {len(self.subnet_choices)} subnet_choices")
        else:
            self._check_choices(self.subnet_choices)
        count = self.subnets or len(self.subnet_choices or ())
        if count * self.layers > MOST_CHOICES:
            raise ValueError(f"subnets: {count} subnets of {self.layers} layers are more than {MOST_CHOICES} choices")
        return self

    def _check_choices(self, chosen: Subnets) -> None:
        for place, subnet in enumerate(chosen):
            if len(subnet) != self.layers or not all(0 <= each < self.choices for each in subnet):
                raise ValueError(
                    f"subnet_choices[{place}]: {self.layers} choices from 0 to {self.choices - 1} are needed"
                )


class SupernetPlan(Plan):
    """Idle share of all stages, broken dependencies (always 0), and the order of each stage, as ``forward.7``.

    ``prefetch_hit_rate`` is the share of tasks whose layers the predictor had brought when they started.
    """

    bubble: float
    violations: int
    prefetch_hit_rate: float
    stall_ms: float
    orders: list[list[str]]


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
    """All tasks in order of start; how many found their layers, and how long the others waited for them."""

    tasks: list[Task]
    hits: int
    stall_ms: float

    @property
    def makespan_ms(self) -> float:
        """From the first start to the last end."""
        return max(each.end_ms for each in self.tasks) - min(each.start_ms for each in self.tasks)


def plan(given: Input) -> Planned:
    """Return the schedule of the rule; nothing is searched, the replay is linear in layers times subnets."""
    subnets = given.subnet_choices or draw(given.subnets or 0, given.layers, given.choices, given.seed or 0)
    cuts = stage_cuts(given.layers, given.stages)
    times = Times(
        _per_stage(given.forward_ms, given.stages), _per_stage(given.backward_ms, given.stages), given.fetch_ms
    )
    made = schedule(subnets, cuts, times)
    busy_ms = sum(each.end_ms - each.start_ms for each in made.tasks)
    makespan_ms = made.makespan_ms
    own_choices = [[place] * given.layers for place in range(len(subnets))]
    free_ms = schedule(own_choices, cuts, times).makespan_ms
    if free_ms >= NEARLY_ALL * makespan_ms:
        slowest = max(range(given.stages), key=lambda stage: times.forward_ms[stage] + times.backward_ms[stage])
        bound = f"the compute of stage {slowest}"
    else:
        bound = f"dependencies between subnets that share a choice: {makespan_ms - free_ms:.4g} ms"
    return Planned(
        planner="supernet",
        plan=SupernetPlan(
            bubble=1.0 - busy_ms / (given.stages * makespan_ms) if makespan_ms else 0.0,
            violations=violations(made.tasks, subnets, cuts),
            prefetch_hit_rate=made.hits / len(made.tasks),
            stall_ms=made.stall_ms,
            orders=[
                [
                    f"{'backward' if each.backward else 'forward'}.{each.subnet}"
                    for each in made.tasks
                    if each.stage == stage
                ]
                for stage in range(given.stages)
            ],
        ),
        before_ms=None,
        after_ms=makespan_ms,
        gap_ms=None,
        bound=bound,
        assumptions=[
            "Every pass takes the time of its stage, whatever the choices; sends between stages take no time.",
            "All subnets are known at the start; a free stage takes a ready backward pass first.",
        ],
        bars=lambda: _bars(made.tasks, given.stages),
    )


def _bars(tasks: Sequence[Task], stages: int) -> list[Bar]:
    """The tasks, stage by stage."""
    kinds = ("forward pass", "backward pass")
    return [
        Bar(f"stage {stage}", f"{kinds[each.backward]} of subnet {each.subnet}", kinds[each.backward], *each.span_ms)
        for stage in range(stages)
        for each in tasks
        if each.stage == stage
    ]


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


def schedule(subnets: Subnets, cuts: Sequence[int], times: Times) -> Schedule:
    """Replay the rule on all stages."""
    return _Pipeline(subnets, cuts, times).run()


def _per_stage(times: float | list[float], stages: int) -> list[float]:
    return times if isinstance(times, list) else [times] * stages


class _Stage:
    """Received work of one stage, and which subnets hold the front place at all their layer choices."""

    def __init__(self, subnets: Subnets, first: int, behind: int) -> None:
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
        return (False, heapq.heappop(self.forwards)) if self.forwards else None

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

    def __init__(self, subnets: Subnets, cuts: Sequence[int], times: Times) -> None:
        self.times = times
        self.stages = [_Stage(subnets, first, behind) for first, behind in pairwise(cuts)]
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
                return Schedule(self.tasks, self.hits, self.stall_ms)
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
            self.stages[place].requested.setdefault(expected, now_ms)

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
