"""The healthy step of each template as items of one rank, and sizes that faults scale themselves by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evals.synthetic.items import (
    ACCELERATORS,
    Accelerator,
    Call,
    Collective,
    Dims,
    Item,
    Join,
    Mark,
    Pause,
    Sync,
    Unmark,
    Work,
    all_reduce_us,
    matrix_us,
    stream_us,
)
from evals.synthetic.spec import USUAL_TOKENS, ParallelLayout, SyntheticSpec, layout_of

HALF = "c10::BFloat16"
HIDDEN, TOKENS = 2048, USUAL_TOKENS
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{}<c10::BFloat16>, at::detail::Array<char*, 3>>"
)
HOST_US = 11.0
LAST_PIECE = 0.25  # of a sum over tensor shards: the pieces before it travel while the multiplication still runs


@dataclass(frozen=True)
class Place:
    """Which step of which rank is built, and with what randomness."""

    spec: SyntheticSpec
    rank: int
    step: int
    rng: np.random.Generator

    @property
    def device(self) -> Accelerator:
        """The device model."""
        return ACCELERATORS[self.spec.device]

    @property
    def layout(self) -> ParallelLayout:
        """The division of the work among the ranks."""
        return layout_of(self.spec)

    @property
    def replicas(self) -> tuple[int, ...]:
        """The ranks that reduce gradients with this one."""
        return self.layout.data_group(self.rank)


def transformer_layers(place: Place) -> list[list[Item]]:
    """Layers of attention and feed-forward; in the ``mixture`` template the latter is behind all-to-alls."""
    return [_transformer_layer(place) for _ in range(place.spec.layers)]


def _transformer_layer(place: Place) -> list[Item]:
    device, tokens, mixture = place.device, place.spec.tokens, place.spec.template == "mixture"
    up, down = linear(device, tokens, HIDDEN, 4 * HIDDEN), linear(device, tokens, 4 * HIDDEN, HIDDEN)
    feed: list[Item] = [up, elementwise(device, "GeluCUDAKernelImpl", "aten::gelu", 4 * HIDDEN, tokens), down]
    if mixture:
        feed = [exchange(place), *feed, exchange(place)]
    return [
        elementwise(device, "", "aten::native_layer_norm", HIDDEN, tokens),
        linear(device, tokens, HIDDEN, 3 * HIDDEN),
        attention(device, tokens),
        linear(device, tokens, HIDDEN, HIDDEN),
        *shared_sum(place),
        elementwise(device, "CUDAFunctor_add", "aten::add", HIDDEN, tokens),
        elementwise(device, "", "aten::native_layer_norm", HIDDEN, tokens),
        *feed,
        *shared_sum(place),
        elementwise(device, "CUDAFunctor_add", "aten::add", HIDDEN, tokens),
    ]


def exchange(place: Place) -> Item:
    """An all-to-all of tokens between experts."""
    elements = place.spec.tokens * HIDDEN
    us = 20.0 + elements * 2 / place.device.bus_bandwidth * 1e6
    return Collective("all_to_all", elements, us, place.layout.expert_group(place.rank), description="expert_parallel")


def shared_sum(place: Place) -> list[Item]:
    """The sum over the ranks that share a layer, which everything after it waits for; nothing where none share it."""
    group = place.layout.tensor_group(place.rank)
    if len(group) == 1:
        return []
    elements = int(place.spec.tokens * HIDDEN * LAST_PIECE)
    us = all_reduce_us(place.device, elements * 2, len(group))
    return [Collective("allreduce", elements, us, group, description="tensor_parallel"), Join()]


def linear(device: Accelerator, rows: int, inner: int, columns: int) -> Call:
    """A well-shaped matrix multiplication."""
    flops = 2.0 * rows * inner * columns
    name = f"{device.prefix}_128x256_ldg8_f2f_stages_64x3_tn"
    dims: Dims = ((rows, inner), (inner, columns))
    return Call(
        "aten::mm", HOST_US, (Work(name, matrix_us(device, flops), blocks=(rows // 128) * (columns // 128)),), dims,
        (HALF, HALF), around="aten::linear", flops=flops,
    )  # fmt: skip


def attention(device: Accelerator, tokens: int = TOKENS) -> Call:
    """Fused attention over sequences of 2,048, or of all tokens where these are fewer."""
    flops = 4.0 * tokens * min(tokens, 2048) * HIDDEN / 2
    traits = "Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>"
    name = f"void pytorch_flash::flash_fwd_kernel<{traits}>"
    dims: Dims = ((max(1, tokens // 2048), 16, min(tokens, 2048), 128),) * 3
    work = Work(name, matrix_us(device, flops), blocks=2048)
    return Call("aten::_flash_attention_forward", 22.0, (work,), dims, (HALF,) * 3, flops=flops)


def elementwise(device: Accelerator, functor: str, operator: str, width: int, tokens: int = TOKENS) -> Call:
    """An operator that streams tokens x width once in and once out."""
    name = (
        ELEMENTWISE.format(functor)
        if functor
        else "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    )
    us = stream_us(device, 2.0 * tokens * width * 2)
    dims: Dims = ((tokens, width), (tokens, width)) if operator == "aten::add" else ((tokens, width),)
    return Call(operator, HOST_US, (Work(name, us, blocks=tokens),), dims, (HALF,) * len(dims))


def convolution_layers(place: Place) -> list[list[Item]]:
    """Blocks of convolution, normalisation and activation in half precision, channels last."""
    return [_convolution_block(place.device) for _ in range(2 * place.spec.layers)]


def _convolution_block(device: Accelerator) -> list[Item]:
    batch, channels, side = 128, 256, 28
    flops = 2.0 * batch * side * side * channels * channels * 9
    kernel = (
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4_"
        "warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn"
    )
    shape, moved = (batch, channels, side, side), 2.0 * batch * channels * side * side * 2
    weights = (channels, channels, 3, 3)
    conv = Work(kernel, matrix_us(device, flops), blocks=784)
    norm = Work("void cudnn::batchnorm_fwtr_nhwc_semiPersist<__half2, 512, 1, 2>", 1.5 * stream_us(device, moved))
    relu = Work(
        ELEMENTWISE.format("launch_clamp_scalar").replace("c10::BFloat16", "c10::Half"), stream_us(device, moved)
    )
    half = "c10::Half"
    return [
        Call("aten::cudnn_convolution", 18.0, (conv,), (shape, weights), (half, half), "main", "aten::conv2d", flops),
        Call("aten::cudnn_batch_norm", 20.0, (norm,), (shape,), (half,), around="aten::batch_norm"),
        Call("aten::clamp_min_", 9.0, (relu,), (shape,), (half,), around="aten::relu_"),
    ]  # fmt: skip


def backward(layer: list[Item], place: Place) -> list[Item]:
    """The backward of a layer's items, last first; matrix operators need two multiplications each."""
    result: list[Item] = []
    for item in reversed(layer):
        if isinstance(item, Collective):
            result.append(item)
            result.append(Join())
        elif isinstance(item, Call):
            node = f"autograd::engine::evaluate_function: {item.name.removeprefix('aten::').title()}Backward0"
            repeats = 2 if item.flops else 1
            result += [replace(item, thread="autograd", around=node, host_us=item.host_us + 6)] * repeats
    return result


def gradients(place: Place) -> list[Item]:
    """The all-reduce of one layer's gradients, once its backward is done."""
    group = place.replicas
    if len(group) == 1:
        return []
    elements = 12 * HIDDEN * HIDDEN if place.spec.template != "convolution" else 256 * 256 * 9
    us = all_reduce_us(place.device, elements * 2, len(group))
    description = "default_pg" if len(group) == place.spec.ranks else "data_parallel"
    return [Collective("allreduce", elements, us, group, description=description)]


def optimizer(place: Place) -> list[Item]:
    """A fused optimizer: one launch per few dozen tensors."""
    name = (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, "
        "FusedAdamMathFunctor<float, 4, ADAM_MODE::ADAMW, false>>"
    )
    parameters = place.spec.layers * 12 * HIDDEN * HIDDEN
    us = stream_us(place.device, parameters * 16.0 / max(place.spec.layers, 1))
    update = [Call("aten::_fused_adamw_", 30.0, (Work(name, us),)) for _ in range(place.spec.layers)]
    return [Mark("Optimizer.step#AdamW.step"), *update, Unmark()]


MICRO_BATCHES = 16


def pipeline_step(place: Place, micro_batches: int = MICRO_BATCHES) -> list[Item]:
    """The step of one stage: all forwards, then all backwards, with send/receive pairs to the neighbours."""
    factor = MICRO_BATCHES / micro_batches  # the same work of the whole batch in fewer pieces, each so much larger
    layer = [_enlarged(item, factor) if isinstance(item, Call) else item for item in transformer_layers(place)[0]]
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


def _enlarged(item: Call, factor: float) -> Call:
    rows = int(TOKENS * factor)
    dims = tuple(tuple(rows if size == TOKENS else size for size in shape) for shape in item.dims)
    return replace(item.scaled(factor), dims=dims)


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
    copy = Work("Memcpy HtoD (Pinned -> Device)", 9.0, "gpu_memcpy", "cudaMemcpyAsync", bytes=place.spec.tokens * 8)
    items: list[Item] = [Pause(LOADER, 120.0), Call("aten::copy_", 9.0, (copy,), around="aten::to")]
    forward = convolution_layers(place) if place.spec.template == "convolution" else transformer_layers(place)
    items += [item for layer in forward for item in layer]
    loss = "void (anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16>"
    loss_us = stream_us(place.device, 2.0 * place.spec.tokens * HIDDEN)
    items.append(Call("aten::_log_softmax", 15.0, (Work(loss, loss_us),)))
    for layer in reversed(forward):
        items += backward(layer, place)
        items += gradients(place)
    items += [Join(), *optimizer(place)]
    if place.spec.reads_loss:
        items.append(Sync())
    return items


def device_us(items: Sequence[Item]) -> float:
    """Device work of the step, in us."""
    return sum(work.us for item in items if isinstance(item, Call) for work in item.work)


def host_us(items: Sequence[Item]) -> float:
    """Host time of the step without waiting, in us."""
    return sum(item.host_us if isinstance(item, Call) else item.us for item in items if isinstance(item, Call | Pause))


def jitter(place: Place, us: float, spread: float) -> float:
    """A time with a relative spread, never negative."""
    return float(us * max(0.05, 1.0 + spread * place.rng.standard_normal()))


def insert_spread(items: list[Item], extra: Sequence[Item], together: int) -> list[Item]:
    """``extra`` spread evenly behind the first item, ``together`` at a time."""
    groups = [list(extra[at : at + together]) for at in range(0, len(extra), together)]
    result, head = list(items[:1]), items[1:]
    every = max(1.0, len(head) / max(len(groups), 1))
    due = every
    for at, item in enumerate(head, start=1):
        result.append(item)
        while groups and at >= due:
            result += groups.pop(0)
            due += every
    return [*result, *(item for group in groups for item in group)]
