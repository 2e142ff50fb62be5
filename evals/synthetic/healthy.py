"""A pipeline-parallel step: every rank is one stage, micro-batches go through all forwards, then all backwards."""

from __future__ import annotations

from dataclasses import replace

from evals.synthetic.items import Call, Collective, Item, Join, Pause, Sync
from evals.synthetic.models import (
    HIDDEN,
    LOADER,
    TOKENS,
    Place,
    backward,
    convolution_layers,
    gradients,
    loss,
    optimizer,
    transformer_layers,
    upload,
)

MICRO_BATCHES = 16


def pipeline_step(place: Place, micro_batches: int = MICRO_BATCHES) -> list[Item]:
    """The step of one stage; activations and their gradients go to the neighbours as send/receive pairs."""
    layer = _larger(transformer_layers(place)[0], MICRO_BATCHES / micro_batches)
    stage, last = place.layout.stage(place.rank), place.layout.pipeline - 1
    items: list[Item] = []
    for _ in range(micro_batches):
        items += [transfer(place, stage - 1), Join()] if stage else []
        items += layer
        items += [transfer(place, stage)] if stage < last else []
    for _ in range(micro_batches):
        items += [transfer(place, stage, "backward"), Join()] if stage < last else []
        items += backward(layer, place)
        items += [transfer(place, stage - 1, "backward")] if stage else []
    items += [*gradients(place), Join(), *optimizer(place)]
    return [*items, Sync()] if place.spec.reads_loss else items


def _larger(layer: list[Item], factor: float) -> list[Item]:
    """The same work of the whole batch in fewer pieces, each so much larger."""
    return [_enlarged(item, factor) if isinstance(item, Call) else item for item in layer]


def _enlarged(item: Call, factor: float) -> Call:
    rows = int(TOKENS * factor)
    dims = tuple(tuple(rows if size == TOKENS else size for size in shape) for shape in item.dims)
    return replace(item, dims=dims, work=tuple(replace(work, us=work.us * factor) for work in item.work))


def transfer(place: Place, lower: int, direction: str = "forward") -> Item:
    """One micro-batch's activations between stage ``lower`` and the next."""
    elements = TOKENS * HIDDEN
    us = 15.0 + elements * 2 / place.device.bus_bandwidth * 1e6
    group = (place.layout.at_stage(place.rank, lower), place.layout.at_stage(place.rank, lower + 1))
    return Collective("send_recv", elements, us, group, description=f"pipeline_{direction}")


def healthy_step(place: Place) -> list[Item]:
    """Batch, forward, backward with collectives, optimizer and the loss, before noise."""
    if place.spec.template == "pipeline":
        return pipeline_step(place)
    items: list[Item] = [Pause(LOADER, 120.0), upload(place.spec.tokens)]
    forward = convolution_layers(place) if place.spec.template == "convolution" else transformer_layers(place)
    items += [item for layer in forward for item in layer]
    items += [loss(place)]
    for layer in reversed(forward):
        items += backward(layer, place)
        items += gradients(place)
    items += [Join(), *optimizer(place)]
    if place.spec.reads_loss:
        items.append(Sync())
    return items
