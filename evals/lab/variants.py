"""Variants of a fault from one function and one amount for each workload and strength."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar, cast, get_args

from evals.lab.fault import Split, Strength, Variant
from evals.lab.scenarios import Training, WorkloadName, World

# Thresholds and rules are made with the development split only.
SPLITS: dict[str, Split] = {
    "images": "dev",
    "tokens": "dev",
    "sounds": "test",
    "experts": "dev",
    "experts_wide": "dev",
    "experts_narrow": "test",
    "stages": "dev",
    "stages_wide": "dev",
    "stages_narrow": "test",
}
SHAPES = ("", "wide", "narrow")  # what follows the name of a workload, in the order of its shapes

Amount = TypeVar("Amount")


def healthy(workload: str) -> Training:
    """The workload of that name without any fault; what follows an underscore is another shape of the same model."""
    kind, _, shape = workload.partition("_")
    if kind not in get_args(WorkloadName) or shape not in SHAPES:
        raise ValueError(f"{workload!r} is no workload of the lab")
    return Training(workload=cast("WorkloadName", kind), shape=SHAPES.index(shape))


def variants(
    make: Callable[[Training, Amount], tuple[World, World]], amounts: Mapping[str, Amount]
) -> tuple[Variant, ...]:
    """One variant per entry, named ``workload-strength``: ``make`` gives the slow and the fixed world of an amount."""
    made = []
    for name, amount in amounts.items():
        workload, _, strength = name.partition("-")
        slow, fixed = make(healthy(workload), amount)
        made.append(Variant(workload, cast("Strength", strength), SPLITS[workload], slow, fixed))
    return tuple(made)


def told(training: Training, **knobs: object) -> World:
    """The usual world whose training has other knobs: ``told(training, data=Data(workers=2))``."""
    return World(replace(training, **knobs))  # type: ignore[arg-type]
