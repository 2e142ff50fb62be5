"""Faults of the device's own work and of the exchange between ranks, and the table of all faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from evals.synthetic import host_faults as host
from evals.synthetic.items import Call, Collective, Dims, Item, Join, Mark, Work, all_reduce_us, stream_us, vector_us
from evals.synthetic.models import (
    ELEMENTWISE,
    HALF,
    HIDDEN,
    TOKENS,
    Place,
    device_us,
    healthy_step,
    insert_spread,
    pipeline_step,
)
from tools.errors import UsageError

ODD = 1  # taken off every size, so that rows of half types no longer begin at 16 bytes
MISALIGNED_FACTOR = 2.4


def _scaled(items: list[Item], factor: float) -> list[Item]:
    return [item.scaled(factor) if isinstance(item, Call) else item for item in items]


def slow_device(items: list[Item], strength: float, place: Place) -> list[Item]:
    """Everything on this rank's device takes longer."""
    return _scaled(items, 1.0 + strength)


def heavy_stage(items: list[Item], strength: float, place: Place) -> list[Item]:
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

    def in_fp32(item: Call) -> Call:
        work = replace(item.work[0], name=f"{family}_sgemm_128x64_tn", us=vector_us(place.device, item.flops))
        return replace(item, work=(work,), types=("float",) * len(item.types))

    return _share_changed(items, strength, place, in_fp32)


def _share_changed(items: list[Item], share: float, place: Place, change: Callable[[Call], Call]) -> list[Item]:
    """A share of the matrix operators changed, the same on every rank and step: they run one program."""
    rng = np.random.default_rng([place.spec.seed, 7])
    matrix = [at for at, item in enumerate(items) if isinstance(item, Call) and item.name == "aten::mm"]
    chosen = rng.choice(matrix, max(1, round(share * len(matrix))), replace=False)
    return [change(item) if isinstance(item, Call) and at in chosen else item for at, item in enumerate(items)]


def odd_shapes(items: list[Item], strength: float, place: Place) -> list[Item]:
    """A share of the matrix operators has sizes that are no multiple of 8."""
    return _share_changed(items, strength, place, _misaligned)


def _misaligned(item: Call) -> Call:
    (rows, inner), (_, columns) = item.dims
    dims: Dims = ((rows, inner - ODD), (inner - ODD, columns - ODD))
    name = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x4_nn_align1"
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
    return replace(item.scaled(factor), dims=dims)


SMALL_US, SMALL_ELEMENTS = 34.0, 4096


def _nominal_us(place: Place) -> float:
    """Device work of the step before noise: the ranks must agree on what they exchange."""
    return device_us(healthy_step(place))


def _without_reductions(items: list[Item]) -> tuple[list[Item], list[Collective]]:
    collectives = [item for item in items if isinstance(item, Collective) and item.kind == "allreduce"]
    reductions = [item for item in collectives if item.description != "tensor_parallel"]
    gone = {id(item) for item in reductions}
    return [item for item in items if id(item) not in gone], reductions


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
    return pipeline_step(place, micro_batches=place.layout.pipeline)


# A fault changes the work of the host or the device; nothing in the trace names it. To add one: write a function from
# items to items whose name is its kind, and list it in ``FAULTS``.


Inject: TypeAlias = Callable[[list[Item], float, Place], list[Item]]
_ALL: tuple[Inject, ...] = (
    host.loader_single_process,
    host.loader_transform,
    host.loader_workers,
    host.loader_reading,
    host.pageable_copy,
    host.no_prefetch,
    host.small_operators,
    host.item_calls,
    host.launch_blocking,
    host.garbage_collection,
    host.host_contention,
    host.recompilation,
    host.checkpoint,
    host.unrecorded_stall,
    host.allocator_thrash,
    host.profiler_stacks,
    slow_device,
    single_precision,
    odd_shapes,
    double_precision,
    layout_conversion,
    elementwise_chain,
    sequence_skew,
    hot_expert,
    heavy_stage,
    late_reduction,
    small_messages,
    slow_transfer,
    few_micro_batches,
)
FAULTS: Mapping[str, Inject] = MappingProxyType({each.__name__: each for each in _ALL})
BYSTANDERS: Mapping[str, Inject] = MappingProxyType(  # what changes on the ranks not hit
    {
        "loader_transform": host.loader_short_single,
        "loader_reading": host.loader_short_single,
        "slow_transfer": slow_transfer,
        "few_micro_batches": few_micro_batches,
    }
)
# What is left of a fault once it is fixed; the run without any other is as if it had never been.
REMAINS: Mapping[str, Inject] = MappingProxyType({"double_precision": without_double_precision})


def inject_all(items: list[Item], place: Place) -> list[Item]:
    """The items with every fault of the spec put in where it belongs; raises UsageError for an unknown kind."""
    for each in place.spec.faults:
        if each.kind not in FAULTS:
            raise UsageError(f"the generator has no fault {each.kind!r}; it has {', '.join(sorted(FAULTS))}")
        if each.steps is not None and place.step not in each.steps:
            continue
        hit = each.ranks is None or place.rank in each.ranks
        kinds = (REMAINS if each.fixed else FAULTS) if hit else {} if each.fixed else BYSTANDERS
        if inject := kinds.get(each.kind):
            items = inject(items, each.strength, place)
    return items
