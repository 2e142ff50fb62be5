"""Order of the subnets of a supernet in a pipeline that trains them as in sequence (NASPipe).

On a stage, the forward pass of a subnet may start only when every earlier subnet that shares a layer choice of this
stage has finished its backward pass here. A free stage takes the first ready backward pass, else the first subnet that
it has received and that may start; a predictor applies the same rule ahead and fetches the layers.

With a memory limit a stage starts no forward pass for which it has no place. Its last place is kept for the earliest
subnet that it has not trained yet: that one waits for no other, so the pipeline always goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

from pydantic import Field, model_validator

from tools.whatif.planners.record import Given, Milliseconds, Plan, Planned
from tools.whatif.planners.supernet_limits import (
    NO_LIMIT,
    Memory,
    Room,
    held_bytes,
    least_makespan_ms,
    room,
)
from tools.whatif.planners.supernet_schedule import Subnets, Task, Times, draw, schedule, stage_cuts, violations
from tools.whatif.timeline import Bar

MOST_STAGES = 64
MOST_SUBNETS = 20_000
MOST_CHOICES = 1_000_000  # layers times subnets; the replay is linear in it, about 15 s at this limit
NEARLY_ALL = 0.95  # of the time: what takes it without dependencies, limits the pipeline with them

Choices = Annotated[list[int], Field(fail_fast=True)]


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
    memory: Memory | None = None

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

    ``prefetch_hit_rate`` is the share of tasks whose layers the predictor had brought when they started. With a memory
    limit: the most that each stage holds, and the subnets between their passes that it has room for (null: any number).
    """

    bubble: float
    violations: int
    prefetch_hit_rate: float
    stall_ms: float
    stage_memory_bytes: list[float] | None
    places: list[int | None] | None
    orders: list[list[str]]


def plan(given: Input) -> Planned:
    """Return the schedule of the rule, and how much a better order could save at most.

    Nothing is searched; the replay is linear in layers times subnets.
    """
    subnets = given.subnet_choices or draw(given.subnets or 0, given.layers, given.choices, given.seed or 0)
    cuts = stage_cuts(given.layers, given.stages)
    times = Times(
        _per_stage(given.forward_ms, given.stages), _per_stage(given.backward_ms, given.stages), given.fetch_ms
    )
    sizes = [behind - first for first, behind in pairwise(cuts)]
    rooms = None if given.memory is None else [room(given.memory, *each) for each in enumerate(sizes)]
    made = schedule(subnets, cuts, times, rooms)
    busy_ms = sum(each.end_ms - each.start_ms for each in made.tasks)
    makespan_ms = made.makespan_ms
    own_choices = [[place] * given.layers for place in range(len(subnets))]
    free_ms = schedule(own_choices, cuts, times, rooms).makespan_ms
    if rooms is not None and schedule(subnets, cuts, times).makespan_ms < NEARLY_ALL * makespan_ms:
        bound = f"device memory: stages have room for {', '.join(str(each.places) for each in rooms)} subnets"
    elif free_ms >= NEARLY_ALL * makespan_ms:
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
            stage_memory_bytes=_held(given.memory, rooms, sizes, made.in_flight),
            places=None if rooms is None else [None if each.places == NO_LIMIT else each.places for each in rooms],
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
        gap_ms=max(0.0, makespan_ms - least_makespan_ms(subnets, cuts, times.forward_ms, times.backward_ms)),
        bound=bound,
        assumptions=[
            "Every pass takes the time of its stage, whatever the choices; sends between stages take no time.",
            "All subnets are known at the start; a free stage takes a ready backward pass first.",
            "What a better order could save at most counts fetches and memory as free.",
        ],
        bars=lambda: _bars(made.tasks, given.stages),
    )


def _held(
    memory: Memory | None, rooms: Sequence[Room] | None, sizes: Sequence[int], in_flight: Sequence[int]
) -> list[float] | None:
    """The most that each stage holds."""
    if memory is None or rooms is None:
        return None
    return [held_bytes(memory, *each) for each in zip(rooms, sizes, in_flight, strict=True)]


def _bars(tasks: Sequence[Task], stages: int) -> list[Bar]:
    """The tasks, stage by stage."""
    kinds = ("forward pass", "backward pass")
    return [
        Bar(f"stage {stage}", f"{kinds[each.backward]} of subnet {each.subnet}", kinds[each.backward], *each.span_ms)
        for stage in range(stages)
        for each in tasks
        if each.stage == stage
    ]


def _per_stage(times: float | list[float], stages: int) -> list[float]:
    return times if isinstance(times, list) else [times] * stages
