"""The faults the lab can record: how each is put into the world, how it is mended, and what a right answer names.

A fault lives in the data, the model or the environment of the training, never as a mark in what is recorded. To add
one: give ``World`` the field that carries it, let ``training.py`` or ``images.py`` obey that field, and append a
``Fault`` to ``FAULTS``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.errors import UsageError

Loss = Literal["vectorised", "looped"]


@dataclass(frozen=True)
class World:
    """What a recorded training finds when it starts; the default is the healthy world."""

    raw_images_on: tuple[int, ...] = ()  # ranks whose disk holds camera-sized images instead of prepared tensors
    loss: Loss = "vectorised"
    image_side: int = 48  # pixels the network sees; no fault, the size of the workload (a multiple of 16)


@dataclass(frozen=True)
class Symptom:
    """What the fault makes other ranks look like; naming it as the cause is wrong."""

    cause: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Fault:
    """One fault: its label and its two worlds. Causes and mechanisms are ids of the taxonomy."""

    id: str
    cause: str
    mechanism: str
    ranks: tuple[int, ...]  # where the cause sits
    steps: tuple[int, int] | None  # first and last step it hits; None for every step
    slow: World
    fixed: World
    injected: str
    fix: str
    must_name: tuple[str, ...]
    symptoms: tuple[Symptom, ...] = ()


HEALTHY = World()

FAULTS: tuple[Fault, ...] = (
    Fault(
        id="slow_loader_one_rank",
        cause="slow_data_processing",
        mechanism="heavy_transform",
        ranks=(1,),
        steps=None,
        slow=World(raw_images_on=(1,)),
        fixed=HEALTHY,
        injected="Rank 1 reads raw images and denoises, resizes and normalises each one inside its single-process "
        "DataLoader; rank 0 reads the same kind of images already prepared.",
        fix="Prepare rank 1's images once before training and store the finished tensors, as on rank 0. "
        "Worker processes are no fix here: two ranks already fill the two cores.",
        must_name=("rank 1", "DataLoader"),
        symptoms=(Symptom(cause="straggler", ranks=(0,)),),
    ),
    Fault(
        id="small_operators",
        cause="operator_dispatch",
        mechanism="small_operators",
        ranks=(0, 1),
        steps=None,
        slow=World(loss="looped", image_side=32),
        fixed=World(image_side=32),
        injected="Every rank computes the loss in a Python loop over samples and classes: thousands of operators on "
        "single numbers, forward and backward.",
        fix="Compute the same loss with one operator per formula over the whole batch.",
        must_name=("small operators",),
    ),
)


def fault(fault_id: str) -> Fault:
    """The fault of that id."""
    for candidate in FAULTS:
        if candidate.id == fault_id:
            return candidate
    known = ", ".join(candidate.id for candidate in FAULTS)
    raise UsageError(f"the lab has no fault {fault_id!r}; it can record {known}")
