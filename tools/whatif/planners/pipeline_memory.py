"""Pipeline stages of a model, and the activations of each to keep, swap or recompute (vPipe)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field, model_validator

from tools.whatif.planners.record import Bandwidth, Bytes, Given, Milliseconds, NoPlanError, Plan, Planned
from tools.whatif.planners.stage_memory import (
    INFINITE,
    Action,
    Budget,
    LayerCost,
    StageChoice,
    StageCost,
    StageLimits,
    best_actions,
    bound_ms,
    least_memory_bytes,
    stage_cost,
)
from tools.whatif.timeline import Bar, one_after_another

MOST_LAYERS = 256
NODES_PER_STAGE = 20_000  # visited for one stage at most; 10 layers have 59,049 plans, most of them pruned
NODES = 400_000  # visited for one plan at most, about 20 s


class Layer(Given):
    """One layer, for one micro-batch."""

    forward_ms: Milliseconds
    backward_ms: Milliseconds
    activation_bytes: Bytes
    weight_bytes: Bytes
    optimizer_bytes: Bytes


class Input(Given):
    """The layers in order, the stages to cut them into, and what one device and its link to the host offer."""

    layers: Annotated[list[Layer], Field(min_length=1, max_length=MOST_LAYERS)]
    stages: Annotated[int, Field(ge=1)]
    device_memory_bytes: Bytes
    host_link_bytes_per_ms: Bandwidth
    current: Annotated[list[int] | None, Field(description="first layer of each stage")] = None
    micro_batches: Annotated[int | None, Field(ge=1, description="per step; fewer than stages hold less memory")] = None

    @model_validator(mode="after")
    def _stages_can_be_filled(self) -> Input:
        if self.stages > len(self.layers):
            raise ValueError(f"stages: {self.stages} stages cannot be filled with {len(self.layers)} layers")
        if self.current is not None:
            rising = all(low < high for low, high in zip(self.current, self.current[1:], strict=False))
            if len(self.current) != self.stages or self.current[0] != 0 or not rising:
                raise ValueError(f"current: {self.stages} first layers are needed, rising from 0")
            if self.current[-1] >= len(self.layers):
                raise ValueError(
                    f"current: layer {self.current[-1]} does not exist, the last is {len(self.layers) - 1}"
                )
        return self


class PipelinePlan(Plan):
    """First layer of each stage, an action per layer, time and memory per stage, and the cost of the move."""

    first_layers: list[int]
    actions: list[Action]
    stage_ms: list[float]
    stage_memory_bytes: list[float]
    migration_bytes: float | None
    migration_ms: float | None


def plan(given: Input) -> Planned:
    """Return the partition and actions with the least time of the slowest stage.

    Worst case: O(S L log L) stages are searched, 400,000 nodes in all (about 20 s); past that the best plan found is
    returned with the gap to the bound of the linear relaxation.
    """
    search = _Partitions(given)
    first_layers = search.best()
    if first_layers is None:
        raise NoPlanError(search.shortfall())
    before_ms = None
    assumptions = [
        "Stage s of S holds S - s micro-batches of what is kept, and one activation of what is not.",
        "Swapping overlaps with compute; sends between stages take no time.",
    ]
    if given.current is not None:
        present_ms = search.time_ms(given.current)
        if present_ms < search.time_ms(first_layers):  # only where the search has stopped at its bound
            first_layers = given.current
        if present_ms < INFINITE:
            before_ms = present_ms
            assumptions.append("Before is the present partition with the best actions per layer.")
        else:
            assumptions.append("The present partition does not fit into device memory, whatever the actions.")
    choices = search.choices(first_layers)
    costs = search.costs(first_layers, choices)
    after_ms = max(each.time_ms for each in costs)
    moved = _moved_bytes(given, first_layers) if given.current is not None else None
    return Planned(
        planner="pipeline-memory",
        plan=PipelinePlan(
            first_layers=first_layers,
            actions=[action for choice in choices for action in choice.actions],
            stage_ms=[each.time_ms for each in costs],
            stage_memory_bytes=[each.memory_bytes for each in costs],
            migration_bytes=None if moved is None else sum(moved),
            migration_ms=None if moved is None else max(moved) / given.host_link_bytes_per_ms,
        ),
        before_ms=before_ms,
        after_ms=after_ms,
        gap_ms=search.gap_ms(after_ms),
        bound=_limit(given, first_layers, choices, costs),
        assumptions=assumptions,
        bars=lambda: _bars(given, first_layers, choices),
    )


class _Partitions:
    """Best time of the first layers on the first stages, built up stage by stage.

    A stage with more layers takes no less time and memory, so the best end of one side rises with the cut where that
    of the other falls, and the crossing is found by halving.
    """

    def __init__(self, given: Input) -> None:
        self.given = given
        self.layers = [
            LayerCost(
                each.forward_ms, each.backward_ms, each.activation_bytes, each.weight_bytes + each.optimizer_bytes
            )
            for each in given.layers
        ]
        self.budget = Budget(NODES, NODES_PER_STAGE)
        self.found: dict[tuple[int, int, int], StageChoice] = {}

    def limits(self, stage: int) -> StageLimits:
        """Limits of a stage: earlier ones have more micro-batches in flight."""
        given = self.given
        in_flight = min(given.stages - stage, given.micro_batches or given.stages)
        return StageLimits(given.device_memory_bytes, given.host_link_bytes_per_ms, in_flight)

    def choice(self, stage: int, first: int, behind: int) -> StageChoice:
        """The best actions of layers ``first`` to ``behind - 1`` as a stage."""
        key = (stage, first, behind)
        if key not in self.found:
            self.found[key] = best_actions(self.layers[first:behind], self.limits(stage), self.budget)
        return self.found[key]

    def best(self) -> list[int] | None:
        """First layer of each stage in the best partition, None where none fits."""
        cuts, best_ms = self._cuts(lambda stage, first, behind: self.choice(stage, first, behind).time_ms)
        return cuts if best_ms < INFINITE else None

    def gap_ms(self, after_ms: float) -> float:
        """Milliseconds that a better plan could save at most: 0 where every stage looked at is exact."""
        if all(each.exact for each in self.found.values()):
            return 0.0
        least_ms = self._cuts(lambda stage, first, behind: bound_ms(self.layers[first:behind], self.limits(stage)))[1]
        return max(0.0, after_ms - least_ms)

    def _cuts(self, time_ms: Callable[[int, int, int], float]) -> tuple[list[int], float]:
        stages, layers = self.given.stages, len(self.layers)
        ends = {(0, behind): (time_ms(0, 0, behind), 0) for behind in range(1, layers - stages + 2)}
        for stage in range(1, stages):
            last = layers - (stages - 1 - stage)
            for behind in range(stage + 1 if stage < stages - 1 else layers, last + 1):
                low, high = stage, behind - 1
                while low < high:
                    middle = (low + high) // 2
                    if ends[stage - 1, middle][0] >= time_ms(stage, middle, behind):
                        high = middle
                    else:
                        low = middle + 1
                ends[stage, behind] = min(
                    (max(ends[stage - 1, cut][0], time_ms(stage, cut, behind)), cut)
                    for cut in range(max(stage, low - 1), low + 1)
                )
        cuts, behind = [0] * stages, layers
        for stage in range(stages - 1, 0, -1):
            cuts[stage] = behind = ends[stage, behind][1]
        return cuts, ends[stages - 1, layers][0]

    def time_ms(self, first_layers: Sequence[int]) -> float:
        """Time of the slowest stage of a partition, infinite where it does not fit."""
        return max(each.time_ms for each in self.choices(first_layers))

    def choices(self, first_layers: Sequence[int]) -> list[StageChoice]:
        """The actions of each stage of a partition."""
        return [self.choice(stage, first, behind) for stage, first, behind in self._spans(first_layers)]

    def costs(self, first_layers: Sequence[int], choices: Sequence[StageChoice]) -> list[StageCost]:
        """Time and memory of each stage."""
        return [
            stage_cost(self.layers[first:behind], choices[stage].actions, self.limits(stage))
            for stage, first, behind in self._spans(first_layers)
        ]

    def _spans(self, first_layers: Sequence[int]) -> list[tuple[int, int, int]]:
        behind = [*first_layers[1:], len(self.layers)]
        return [(stage, first, behind[stage]) for stage, first in enumerate(first_layers)]

    def shortfall(self) -> str:
        """One sentence on what the partition with the least memory lacks."""
        needed = self._cuts(lambda stage, first, behind: least_memory_bytes(self.layers[first:behind]))[1]
        limit = self.given.device_memory_bytes
        return (
            f"no plan fits into device_memory_bytes = {limit:.15g}: with {self.given.stages} stages and no "
            f"activation kept the largest stage needs {needed:.15g} bytes, {needed - limit:.15g} more; use more "
            "stages or smaller micro-batches"
        )


def _bars(given: Input, first_layers: Sequence[int], choices: Sequence[StageChoice]) -> list[Bar]:
    """One micro-batch on every stage in the steady state: its passes, and the swap traffic meanwhile."""
    bars = list[Bar]()
    for stage, (first, choice) in enumerate(zip(first_layers, choices, strict=True)):
        listed = list(enumerate(zip(given.layers[first:], choice.actions, strict=False), first))
        passes = [(f"forward pass of layer {place}", "forward pass", layer.forward_ms) for place, (layer, _) in listed]
        for place, (layer, action) in reversed(listed):
            if action == "recompute":
                passes.append((f"recomputation of layer {place}", "recomputation", layer.forward_ms))
            passes.append((f"backward pass of layer {place}", "backward pass", layer.backward_ms))
        swapped = [(place, layer.activation_bytes) for place, (layer, action) in listed if action == "swap"]
        moves = [
            (f"swap of layer {place}, out and in", "swap", 2 * size / given.host_link_bytes_per_ms)
            for place, size in swapped
        ]
        bars += one_after_another(f"stage {stage}: compute", passes)
        bars += one_after_another(f"stage {stage}: host link", moves)
    return bars


def _moved_bytes(given: Input, first_layers: Sequence[int]) -> list[float]:
    """Weights and optimizer state that each stage receives from another one."""
    received = [0.0] * given.stages
    for place, layer in enumerate(given.layers):
        now = sum(first <= place for first in given.current or ()) - 1
        then = sum(first <= place for first in first_layers) - 1
        if now != then:
            received[then] += layer.weight_bytes + layer.optimizer_bytes
    return received


def _limit(
    given: Input, first_layers: Sequence[int], choices: Sequence[StageChoice], costs: Sequence[StageCost]
) -> str:
    slowest = max(range(given.stages), key=lambda stage: costs[stage].time_ms)
    cost = costs[slowest]
    if cost.traffic_ms > cost.compute_ms:
        return f"stage {slowest}: its swap traffic over the host link"
    again_ms = sum(
        layer.forward_ms
        for layer, action in zip(given.layers[first_layers[slowest] :], choices[slowest].actions, strict=False)
        if action == "recompute"
    )
    more = f", {again_ms:.4g} ms of it recomputed to save device memory" if again_ms else ""
    return f"stage {slowest}: its compute{more}"
