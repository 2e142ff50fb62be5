"""Faults of the exchange between ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from evals.synthetic import device_faults as device
from evals.synthetic import host_faults as host
from evals.synthetic.devices import all_reduce_us
from evals.synthetic.healthy import healthy_step
from evals.synthetic.items import Collective, Item, Join, Mark
from evals.synthetic.measure import device_us
from evals.synthetic.models import Place
from tools.errors import UsageError

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
    """A communication-heavy model reduces all gradients at the end, when nothing is left to compute next to it."""
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


# A fault changes what the host or the device does; nothing in the trace names it. To add one: write a function from
# items to items and list it in ``FAULTS``.


Inject: TypeAlias = Callable[[list[Item], float, Place], list[Item]]


@dataclass(frozen=True)
class Fault:
    """One kind of fault. Cause and mechanism are ids of the taxonomy; ``bystanders`` changes the ranks not hit.

    ``fixed`` is what is left of it once it is fixed; without, the run is then as if it had never been.
    """

    cause: str
    mechanism: str | None
    inject: Inject
    bystanders: Inject | None = None
    fixed: Inject | None = None


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "loader_single_process": Fault("slow_data_processing", "too_few_workers", host.loader_single_process),
        "loader_transform": Fault(
            "slow_data_processing", "heavy_transform", host.loader_transform, host.loader_short_single
        ),
        "loader_workers": Fault("slow_data_processing", None, host.loader_workers),
        "loader_reading": Fault("slow_data_reading", None, host.loader_reading, host.loader_short_single),
        "pageable_copy": Fault("slow_data_fetching", "pageable_copy", host.pageable_copy),
        "no_prefetch": Fault("slow_data_fetching", "no_prefetch", host.no_prefetch),
        "small_operators": Fault("operator_dispatch", "small_operators", host.small_operators),
        "item_calls": Fault("operator_dispatch", "host_synchronization", host.item_calls),
        "launch_blocking": Fault("operator_dispatch", "launch_blocking", host.launch_blocking),
        "garbage_collection": Fault("garbage_collection", None, host.garbage_collection),
        "host_contention": Fault("cpu_contention", "foreign_process", host.host_contention),
        "recompilation": Fault("operator_compilation", "dynamic_shape", host.recompilation),
        "checkpoint": Fault("checkpoint_stall", "synchronous_save", host.checkpoint),
        "unrecorded_stall": Fault("cpu_contention", None, host.unrecorded_stall),
        "allocator_thrash": Fault("memory_pressure", "allocator_retry", host.allocator_thrash),
        "profiler_stacks": Fault("profiling_overhead", None, host.profiler_stacks),
        "slow_device": Fault("slow_device", None, device.slow_device),
        "single_precision": Fault("underutilization", "no_tensor_core", device.single_precision),
        "odd_shapes": Fault("underutilization", "shape_alignment", device.odd_shapes),
        "double_precision": Fault(
            "underutilization", None, device.double_precision, fixed=device.without_double_precision
        ),
        "layout_conversion": Fault("underutilization", "layout_conversion", device.layout_conversion),
        "elementwise_chain": Fault("memory_bound", None, device.elementwise_chain),
        "sequence_skew": Fault("data_skew", None, device.sequence_skew),
        "hot_expert": Fault("moe_imbalance", None, device.hot_expert),
        "heavy_stage": Fault("pipeline_imbalance", None, device.slow_stage),
        "late_reduction": Fault("poor_overlap", None, late_reduction),
        "small_messages": Fault("small_packet", None, small_messages),
        "slow_transfer": Fault("network_configuration", None, slow_transfer, slow_transfer),
        "few_micro_batches": Fault("pipeline_bubble", None, few_micro_batches, few_micro_batches),
    }
)


def fault(kind: str) -> Fault:
    """The fault of that kind."""
    if kind not in FAULTS:
        raise UsageError(f"the generator has no fault {kind!r}; it has {', '.join(sorted(FAULTS))}")
    return FAULTS[kind]


def inject_all(items: list[Item], place: Place) -> list[Item]:
    """The items with every fault of the spec put in where it belongs."""
    for each in place.spec.faults:
        known = fault(each.kind)
        in_step = each.steps is None or place.step in each.steps
        if in_step and (each.ranks is None or place.rank in each.ranks):
            inject = known.fixed if each.fixed else known.inject
            items = items if inject is None else inject(items, each.strength, place)
        elif in_step and known.bystanders is not None and not each.fixed:
            items = known.bystanders(items, each.strength, place)
    return items
