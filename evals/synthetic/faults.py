"""Faults of the device's own work and of the exchange between ranks, and the table of all faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from evals.synthetic import host_faults as host
from evals.synthetic.devices import all_reduce_us, stream_us, vector_us
from evals.synthetic.healthy import healthy_step
from evals.synthetic.items import Call, Collective, Dims, Item, Join, Mark, Work
from evals.synthetic.measure import device_us, insert_spread
from evals.synthetic.models import ELEMENTWISE, HALF, HIDDEN, TOKENS, Place
from tools.errors import UsageError

ODD = 1  # taken off every size, so that rows of half types no longer begin at 16 bytes
MISALIGNED_FACTOR = 2.4


def _scaled(items: list[Item], factor: float) -> list[Item]:
    return [
        replace(item, work=tuple(replace(work, us=work.us * factor) for work in item.work))
        if isinstance(item, Call)
        else item
        for item in items
    ]


def slow_device(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Everything on this rank's device takes longer."""
    return _scaled(items, 1.0 + strength)


def slow_stage(items: list[Item], strength: float, place: Place) -> list[Item]:
    """This pipeline stage holds more layers than the others: more calls, not slower ones."""
    rng = np.random.default_rng([place.spec.seed, 11])  # the same layers in every step
    result: list[Item] = []
    for item in items:
        result.append(item)
        if isinstance(item, Call) and item.flops and rng.random() < strength:
            result.append(item)
    return result


def single_precision(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A share of the matrix operators computes in fp32 on the ordinary units."""
    family = {"V100": "volta", "A100": "ampere", "H100": "sm80_xmma_gemm_f32f32_f32f32_f32_simt"}[place.spec.device]
    name = f"{family}_sgemm_128x64_tn"
    chosen = _chosen(items, strength, place)
    return [
        _in_fp32(item, name, place) if isinstance(item, Call) and at in chosen else item
        for at, item in enumerate(items)
    ]


def _chosen(items: list[Item], strength: float, place: Place) -> set[int]:
    """Positions of a share of the matrix operators, the same on every rank and step: they run one program."""
    rng = np.random.default_rng([place.spec.seed, 7])
    matrix = [at for at, item in enumerate(items) if isinstance(item, Call) and item.name == "aten::mm"]
    count = max(1, round(strength * len(matrix)))
    return {int(at) for at in rng.choice(matrix, count, replace=False)}


def _in_fp32(item: Call, name: str, place: Place) -> Call:
    work = replace(item.work[0], name=name, us=vector_us(place.device, item.flops))
    return replace(item, work=(work,), types=("float",) * len(item.types))


def odd_shapes(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A share of the matrix operators has sizes that are no multiple of 8."""
    name = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align1"
    chosen = _chosen(items, strength, place)
    return [
        _misaligned(item, name) if isinstance(item, Call) and at in chosen else item for at, item in enumerate(items)
    ]


def _misaligned(item: Call, name: str) -> Call:
    (rows, inner), (_, columns) = item.dims
    dims: Dims = ((rows, inner - ODD), (inner - ODD, columns - ODD))
    kernel = f"void cutlass::Kernel<{name}>({name}::Params)"
    work = replace(item.work[0], name=kernel, us=item.work[0].us * MISALIGNED_FACTOR)
    return replace(item, dims=dims, work=(work,))


def double_precision(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A constant of the wrong type turns some operators into double."""
    kernel = (
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<double, double, double, "
        "at::native::binary_internal::MulFunctor<double>>>"
    )
    return _scaled_by_constant(items, strength, place, kernel, "double", 8)


def without_double_precision(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The same operators in the type of the model: fixing the constant does not take them away."""
    return _scaled_by_constant(items, strength, place, ELEMENTWISE.format("MulFunctor"), HALF, 2)


def _scaled_by_constant(
    items: list[Item], strength: float, place: Place, kernel: str, kind: str, width: int
) -> list[Item]:
    """Multiplications with a constant of that type, as many as would add ``strength`` in double precision."""
    count = max(1, int(strength * device_us(items) / stream_us(place.device, 3.0 * TOKENS * HIDDEN * 8)))
    work = Work(kernel, stream_us(place.device, 3.0 * TOKENS * HIDDEN * width), blocks=TOKENS)
    return insert_spread(items, [Call("aten::mul", 11.0, (work,), ((TOKENS, HIDDEN),) * 2, (kind, kind))] * count, 1)


def layout_conversion(items: list[Item], strength: float, place: Place) -> list[Item]:
    """The library converts layouts before and after each convolution."""
    kernel = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float, false, true, (cudnnKernelDataType_t)0>"
    share = strength * device_us(items)
    heavy = [item for item in items if isinstance(item, Call) and item.flops]
    each = Work(kernel, share / max(len(heavy), 1), blocks=2048)
    return [replace(i, work=(each, *i.work)) if isinstance(i, Call) and i.flops else i for i in items]


def elementwise_chain(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A hand-written activation: many operators that each read and write everything once."""
    us = stream_us(place.device, 3.0 * TOKENS * HIDDEN * 2)
    names = ("aten::mul", "aten::add", "aten::tanh", "aten::mul", "aten::pow", "aten::add")
    count = max(6, int(strength * device_us(items) / us))
    chain = [
        Call(
            names[at % 6], 10.0, (Work(ELEMENTWISE.format("MulFunctor"), us, blocks=TOKENS),), ((TOKENS, HIDDEN),) * 2,
            (HALF, HALF),
        )
        for at in range(count)
    ]  # fmt: skip
    return insert_spread(items, chain, 12)


def sequence_skew(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Batches hold more or fewer tokens, differently on every rank and step; together as many as without."""
    drawn = 1.0 + strength * np.random.default_rng([place.spec.seed, 13, place.step]).uniform(-1, 1, place.spec.ranks)
    scale = float(drawn[place.rank] / drawn.mean())
    tokens = int(TOKENS * scale) // 8 * 8
    result: list[Item] = []
    for item in _scaled(items, scale):
        if isinstance(item, Call) and item.dims:
            dims = tuple(tuple(tokens if size == TOKENS else size for size in shape) for shape in item.dims)
            item = replace(item, dims=dims)
        result.append(item)
    return result


def hot_expert(items: list[Item], strength: float, place: Place) -> list[Item]:
    """This rank's expert gets more tokens: its feed-forward multiplications are larger."""
    rows = int(TOKENS * (1 + strength)) // 8 * 8
    return [_grown(item, rows, 1 + strength) if isinstance(item, Call) else item for item in items]


def _grown(item: Call, rows: int, factor: float) -> Call:
    expert = item.name == "aten::mm" and 4 * HIDDEN in (item.dims[0][1], item.dims[1][1])
    if not expert:
        return item
    dims: Dims = ((rows, item.dims[0][1]), item.dims[1])
    return replace(item, dims=dims, work=tuple(replace(work, us=work.us * factor) for work in item.work))


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
        "slow_device": Fault("slow_device", None, slow_device),
        "single_precision": Fault("underutilization", "no_tensor_core", single_precision),
        "odd_shapes": Fault("underutilization", "shape_alignment", odd_shapes),
        "double_precision": Fault("underutilization", None, double_precision, fixed=without_double_precision),
        "layout_conversion": Fault("underutilization", "layout_conversion", layout_conversion),
        "elementwise_chain": Fault("memory_bound", None, elementwise_chain),
        "sequence_skew": Fault("data_skew", None, sequence_skew),
        "hot_expert": Fault("moe_imbalance", None, hot_expert),
        "heavy_stage": Fault("pipeline_imbalance", None, slow_stage),
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
