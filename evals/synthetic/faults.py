"""The registry of injectable faults: the cause each stands for and what it does to the items of a step.

A fault changes what the host or the device does; nothing in the trace names it. To add one: write a function from
items to items and list it in ``FAULTS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from evals.synthetic import device_faults as device
from evals.synthetic import host_faults as host
from evals.synthetic import network_faults as network
from evals.synthetic.items import Item
from evals.synthetic.models import Place
from tools.errors import UsageError

Inject: TypeAlias = Callable[[list[Item], float, Place], list[Item]]


@dataclass(frozen=True)
class Fault:
    """One kind of fault. Cause and mechanism are ids of the taxonomy; ``bystanders`` changes the ranks not hit.

    ``mended`` is what is left of it once it is mended; without, the run is then as if it had never been.
    """

    cause: str
    mechanism: str | None
    inject: Inject
    bystanders: Inject | None = None
    mended: Inject | None = None


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
            "underutilization", None, device.double_precision, mended=device.without_double_precision
        ),
        "layout_conversion": Fault("underutilization", "layout_conversion", device.layout_conversion),
        "elementwise_chain": Fault("memory_bound", None, device.elementwise_chain),
        "sequence_skew": Fault("data_skew", None, device.sequence_skew),
        "hot_expert": Fault("moe_imbalance", None, device.hot_expert),
        "heavy_stage": Fault("pipeline_imbalance", None, device.slow_stage),
        "late_reduction": Fault("poor_overlap", None, network.late_reduction),
        "small_messages": Fault("small_packet", None, network.small_messages),
        "slow_transfer": Fault("network_configuration", None, network.slow_transfer, network.slow_transfer),
        "few_micro_batches": Fault("pipeline_bubble", None, network.few_micro_batches, network.few_micro_batches),
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
            inject = known.mended if each.mended else known.inject
            items = items if inject is None else inject(items, each.strength, place)
        elif in_step and known.bystanders is not None and not each.mended:
            items = known.bystanders(items, each.strength, place)
    return items
