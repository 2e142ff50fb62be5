"""The healthy step of each template, as items of one rank."""

from __future__ import annotations

from evals.synthetic.items import Item, Join, Pause, Sync
from evals.synthetic.models import (
    LOADER,
    Place,
    backward,
    convolution_layers,
    gradients,
    loss,
    optimizer,
    transformer_layers,
    upload,
)
from evals.synthetic.pipeline import pipeline_step


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
