"""Faults of the exchange between ranks."""

from __future__ import annotations

from dataclasses import replace

from evals.synthetic.devices import all_reduce_us
from evals.synthetic.healthy import healthy_step
from evals.synthetic.items import Collective, Item, Join, Mark
from evals.synthetic.measure import device_us
from evals.synthetic.models import Place

SMALL_US, SMALL_ELEMENTS = 34.0, 4096


def _nominal_us(place: Place) -> float:
    """Device work of the step before noise: the ranks must agree on what they exchange."""
    return device_us(healthy_step(place))


def _without_reductions(items: list[Item]) -> tuple[list[Item], list[Collective]]:
    kept = [item for item in items if not _of_gradients(item)]
    return kept, [item for item in items if isinstance(item, Collective) and _of_gradients(item)]


def _of_gradients(item: Item) -> bool:
    return isinstance(item, Collective) and item.kind == "allreduce" and item.description != "tensor_parallel"


def _before_update(items: list[Item], extra: list[Item]) -> list[Item]:
    at = next(place for place, item in enumerate(items) if isinstance(item, Mark))
    while at and isinstance(items[at - 1], Join):
        at -= 1
    return [*items[:at], *extra, *items[at:]]


def late_reduction(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A communication-heavy model reduces all gradients at the end, when nothing is left to compute beside it."""
    kept, reductions = _without_reductions(items)
    us = strength * _nominal_us(place)
    elements = int(
        us * 1e-6 * place.device.bus_bandwidth / 2 / 2 * len(place.replicas) / max(len(place.replicas) - 1, 1)
    )
    whole = replace(reductions[0], elements=elements, us=all_reduce_us(place.device, elements * 2, len(place.replicas)))
    return _before_update(kept, [whole])


def small_messages(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Every small tensor is reduced by itself after the backward."""
    kept, reductions = _without_reductions(items)
    count = max(4, int(strength * _nominal_us(place) / SMALL_US))
    small = replace(reductions[0], elements=SMALL_ELEMENTS, us=SMALL_US)
    return _before_update(kept, [*reductions, *[small] * count])


def slow_transfer(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Messages take many times longer for all ranks, whatever their size: the link is far below what it can do."""
    total = sum(item.us for item in items if isinstance(item, Collective))
    factor = 1.0 + (0.7 + strength) * device_us(items) / total
    return [replace(item, us=item.us * factor) if isinstance(item, Collective) else item for item in items]


def few_micro_batches(items: list[Item], strength: float, place: Place) -> list[Item]:
    """As few micro-batches as stages."""
    from evals.synthetic.healthy import pipeline_step

    return pipeline_step(place, micro_batches=place.layout.pipeline)
