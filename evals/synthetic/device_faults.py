"""Faults of the device's own work: speed, types, shapes, layout, and work spread unevenly over ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evals.synthetic.devices import stream_us, vector_us
from evals.synthetic.items import Call, Dims, Item, Work
from evals.synthetic.measure import device_us, insert_spread
from evals.synthetic.models import ELEMENTWISE, HALF, HIDDEN, TOKENS, Place

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
