"""Activations of one pipeline stage to keep, swap or recompute so that it fits and is fastest.

The cost is that of vPipe as fixed for ``pipeline-memory``: compute = forward + backward + the forward again of what is
recomputed, traffic = twice the swapped bytes over the link, time = the larger; memory = weights + optimizer state +
``in_flight`` times what is kept + the largest activation that is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, TypeAlias

Action: TypeAlias = Literal["keep", "swap", "recompute"]
INFINITE = float("inf")
ROUNDING = 1e-12
NEGLIGIBLE_MS = 1e-12  # a femtosecond: a shorter pass counts as none in bounds, so that bytes per ms stay finite


@dataclass(frozen=True)
class LayerCost:
    """Times and sizes of one layer; ``state_bytes`` are its weights and optimizer state."""

    forward_ms: float
    backward_ms: float
    activation_bytes: float
    state_bytes: float


@dataclass(frozen=True)
class StageLimits:
    """Device memory, the link to the host and how many micro-batches are in flight on this stage."""

    memory_bytes: float
    link_bytes_per_ms: float
    in_flight: int


@dataclass(frozen=True)
class StageCost:
    """Time of a stage and its parts, and the memory it takes."""

    compute_ms: float
    traffic_ms: float
    memory_bytes: float

    @property
    def time_ms(self) -> float:
        """The larger of compute and swap traffic."""
        return max(self.compute_ms, self.traffic_ms)


@dataclass(frozen=True)
class StageChoice:
    """The actions found for a stage, and whether all others were ruled out. Infinite time where nothing fits."""

    time_ms: float
    actions: tuple[Action, ...]
    exact: bool = True


NOTHING_FITS = StageChoice(INFINITE, ())


def stage_cost(layers: Sequence[LayerCost], actions: Sequence[Action], limits: StageLimits) -> StageCost:
    """Return time and memory of a stage with these actions."""
    compute_ms = sum(each.forward_ms + each.backward_ms for each in layers)
    chosen = list(zip(layers, actions, strict=True))
    compute_ms += sum(each.forward_ms for each, action in chosen if action == "recompute")
    swapped = sum(each.activation_bytes for each, action in chosen if action == "swap")
    kept = sum(each.activation_bytes for each, action in chosen if action == "keep")
    largest = max((each.activation_bytes for each, action in chosen if action != "keep"), default=0.0)
    memory = sum(each.state_bytes for each in layers) + limits.in_flight * kept + largest
    return StageCost(compute_ms, 2 * swapped / limits.link_bytes_per_ms, memory)


def least_memory_bytes(layers: Sequence[LayerCost]) -> float:
    """Return what a stage needs when no activation is kept; keeping one takes at least as much."""
    return sum(each.state_bytes for each in layers) + max(each.activation_bytes for each in layers)


class Budget:
    """Nodes that all searches of one plan may visit together, and how many one of them may."""

    def __init__(self, nodes: int, per_stage: int) -> None:
        self.nodes, self.per_stage = nodes, per_stage
        self.left = 0

    def start(self, layers: int) -> None:
        """Begin the search of a stage; a first descent is always possible."""
        self.left = max(min(self.per_stage, self.nodes), layers)

    def take(self) -> bool:
        """Count one node; False when none is left."""
        self.nodes -= 1
        self.left -= 1
        return self.left >= 0


def best_actions(layers: Sequence[LayerCost], limits: StageLimits, budget: Budget) -> StageChoice:
    """Return the fastest actions that fit, exact while the budget lasts.

    Branch and bound over the layers, for every activation size that the largest one not kept may have; the bound is
    the linear relaxation, in which a part of a layer may be swapped or recomputed.
    """
    if least_memory_bytes(layers) > limits.memory_bytes:
        return NOTHING_FITS
    simple = [_same_action(layers, action, limits) for action in ("keep", "swap", "recompute")]
    if simple[0].time_ms < INFINITE:
        return simple[0]
    best, exact = min(simple, key=lambda each: each.time_ms), True
    budget.start(len(layers))
    for search in sorted(_searches(layers, limits), key=lambda each: each.bound_ms):
        if search.bound_ms >= best.time_ms or (not exact and budget.nodes <= 0):
            break
        best, complete = search.run(best, budget)
        exact = exact and complete
    return StageChoice(best.time_ms, best.actions, exact)


def bound_ms(layers: Sequence[LayerCost], limits: StageLimits) -> float:
    """Return a time that no actions that fit can beat: the linear relaxation. More layers never lower it."""
    if least_memory_bytes(layers) > limits.memory_bytes:
        return INFINITE
    return min(search.bound_ms for search in _searches(layers, limits))


def _searches(layers: Sequence[LayerCost], limits: StageLimits) -> list[_Search]:
    """One search for every size that the largest activation that is not kept may have."""
    totals = _Totals(
        sorted(range(len(layers)), key=lambda place: _freed_per_ms(layers[place]), reverse=True),
        sum(each.forward_ms + each.backward_ms for each in layers),
        sum(each.state_bytes for each in layers),
        sum(each.activation_bytes for each in layers),
    )
    return [_Search(layers, limits, totals, size) for size in {each.activation_bytes for each in layers}]


def _same_action(layers: Sequence[LayerCost], action: Action, limits: StageLimits) -> StageChoice:
    actions = (action,) * len(layers)
    cost = stage_cost(layers, actions, limits)
    fits = cost.memory_bytes <= limits.memory_bytes
    return StageChoice(cost.time_ms, actions) if fits else NOTHING_FITS


@dataclass(frozen=True)
class _Totals:
    """The layers by freed bytes per ms of recomputation, most first, and the sums over them."""

    order: list[int]
    compute_ms: float
    state_bytes: float
    activation_bytes: float


class _Search:
    """Branch and bound with one size as the largest activation that is not kept."""

    def __init__(self, layers: Sequence[LayerCost], limits: StageLimits, totals: _Totals, largest_bytes: float) -> None:
        self.layers, self.limits = layers, limits
        self.order = [place for place in totals.order if layers[place].activation_bytes <= largest_bytes]
        self.forward_ms = [_counted_ms(layers[place]) for place in self.order]
        self.bytes = [layers[place].activation_bytes for place in self.order]
        self.behind = [*accumulate(reversed(self.bytes), initial=0.0)][::-1]
        self.base_ms = totals.compute_ms
        room = limits.memory_bytes - totals.state_bytes - largest_bytes
        lost_bytes = (
            ROUNDING * limits.memory_bytes
        )  # what rounding may take from the room; a plan is checked when found
        self.demand_bytes = totals.activation_bytes - room / limits.in_flight if room >= -lost_bytes else INFINITE
        self.demand_bytes -= ROUNDING * totals.activation_bytes + lost_bytes
        self.bound_ms = self.relaxed_ms(0, 0.0, 0.0, self.demand_bytes)

    def relaxed_ms(self, place: int, again_ms: float, swapped: float, demand: float) -> float:
        """Least time when parts of the layers from ``place`` on may be swapped or recomputed to free ``demand``."""
        per_ms = self.limits.link_bytes_per_ms / 2
        time_ms = max(self.base_ms + again_ms, swapped / per_ms)
        if demand <= 0:
            return time_ms
        if demand > self.behind[place]:
            return INFINITE
        demand -= per_ms * time_ms - swapped  # what the link carries in the time that is spent anyhow
        spare_ms = max(0.0, time_ms - self.base_ms - again_ms)  # rounding may leave less than none
        for forward_ms, size in zip(self.forward_ms[place:], self.bytes[place:], strict=True):
            if demand <= 0:
                break
            if forward_ms <= spare_ms:
                spare_ms -= forward_ms
                demand -= size
                continue
            density = size / forward_ms
            demand -= density * spare_ms
            remaining_ms, spare_ms = forward_ms - spare_ms, 0.0
            needed_ms = max(0.0, min(remaining_ms, demand / (density + per_ms)))
            time_ms += needed_ms
            demand -= needed_ms * (density + per_ms)
        return time_ms

    def run(self, best: StageChoice, budget: Budget) -> tuple[StageChoice, bool]:
        """The best actions, ``best`` where none are better, and whether all were searched."""
        self.best, self.budget, self.complete = best, budget, True
        self._visit(0, 0.0, 0.0, self.demand_bytes, [])
        return self.best, self.complete

    def _visit(self, place: int, again_ms: float, swapped: float, demand: float, chosen: list[Action]) -> None:
        if self.relaxed_ms(place, again_ms, swapped, demand) >= self.best.time_ms:
            return
        if demand <= 0 and (self._note(chosen) or place == len(self.order)):
            return
        if not self.budget.take():
            self.complete = False
            return
        forward_ms, size = self.forward_ms[place], self.bytes[place]
        for action in self._allowed(place, chosen):
            chosen.append(action)
            match action:
                case "recompute":
                    self._visit(place + 1, again_ms + forward_ms, swapped, demand - size, chosen)
                case "swap":
                    self._visit(place + 1, again_ms, swapped + size, demand - size, chosen)
                case _:
                    self._visit(place + 1, again_ms, swapped, demand, chosen)
            chosen.pop()

    def _allowed(self, place: int, chosen: Sequence[Action]) -> Sequence[Action]:
        """Actions worth a look: layers that are alike take theirs in one order."""
        actions: tuple[Action, ...] = ("recompute", "swap", "keep")
        alike = place > 0 and (self.forward_ms[place], self.bytes[place]) == (
            self.forward_ms[place - 1],
            self.bytes[place - 1],
        )
        return actions[actions.index(chosen[-1]) :] if alike else actions

    def _note(self, chosen: Sequence[Action]) -> bool:
        """Take the actions if they fit and are faster; False where rounding hid that they do not fit."""
        actions: list[Action] = ["keep"] * len(self.layers)
        for place, action in zip(self.order, chosen, strict=False):
            actions[place] = action
        cost = stage_cost(self.layers, actions, self.limits)
        if cost.memory_bytes > self.limits.memory_bytes:
            return False
        if cost.time_ms < self.best.time_ms:
            self.best = StageChoice(cost.time_ms, tuple(actions))
        return True


def _freed_per_ms(layer: LayerCost) -> tuple[float, float]:
    forward_ms = _counted_ms(layer)
    return (layer.activation_bytes / forward_ms if forward_ms else INFINITE, layer.activation_bytes)


def _counted_ms(layer: LayerCost) -> float:
    return layer.forward_ms if layer.forward_ms > NEGLIGIBLE_MS else 0.0
