"""A made-up training on two ranks in which every question has an answer that can be worked out by hand.

Every step of rank 0 lasts 10 ms. In it the host waits 1.5 ms for data, forwards two layers, runs their backward on a
thread of its own, exchanges two gradients (the second one under the backward of the first layer) and updates. Layer
``Linear_0`` takes four times as long as ``Linear_1``. Rank 1 is the same with kernels twice as long.
"""

from __future__ import annotations

from functools import cache

from tests.synthetic import V100, RankBuilder, profile_of
from tools.run.events import EventKind
from tools.run.model import Layout, ProcessGroup
from tools.views.profile import Profile

STEPS = 4
STEP_US = 10_000.0
GEMM, SMALL_GEMM, COPY = "volta_sgemm_128x64_nn", "volta_sgemm_32x32_nn", "Memcpy DtoD (Device -> Device)"
REDUCE = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
GROUPS = {"0": "data_parallel", "1": "tensor_parallel"}
LINE = "train.py(42): forward"


@cache
def questions_profile() -> Profile:
    """The run; tests do not change it."""
    groups = tuple(ProcessGroup(name, described, "nccl", (0, 1), 2) for name, described in GROUPS.items())
    return profile_of(_rank(0), _rank(1), layout=Layout(world_size=2, backend="nccl", groups=groups))


def _rank(number: int) -> RankBuilder:
    rank = RankBuilder(number, device=V100)
    autograd = rank.host_thread("pt_autograd_0")
    exchange = rank.device_stream(20)
    for step in range(STEPS):
        _step(rank, step, step * STEP_US, 1.0 + number, autograd, exchange)
    return rank


def _step(rank: RankBuilder, step: int, begin: float, factor: float, autograd: int, exchange: int) -> None:
    rank.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin + 10, 1500)
    rank.event(EventKind.PYTHON, LINE, begin + 1520, 400)
    rank.event(EventKind.PYTHON, "nn.Module: Net_0", begin + 1530, 380)
    matrices = ([[256, 512], [512, 1024]], [[8, 16], [16, 32]])
    forward = []
    for layer, (offset, duration, name) in enumerate(((0, 800, GEMM), (150, 200, SMALL_GEMM))):
        at = begin + 1540 + offset
        rank.event(EventKind.PYTHON, f"nn.Module: Linear_{layer}", at, 120)
        forward.append(
            rank.operator("aten::mm", at + 5, 100, dims=matrices[layer], types=["float", "float"], sequence=layer + 1)
        )
        rank.kernel(name, begin + 1700 + layer * 2000, duration * factor, call_us=at + 10, blocks=8)
    if step == 2:
        rank.operator("aten::copy_", begin + 1850, 40, dims=[[64], [64]], types=["float", "float"])
        rank.copy(COPY, begin + 4200, 50, call_us=begin + 1860, bytes_=256)
    for layer, (at, duration, name) in ((1, (4500.0, 300, SMALL_GEMM)), (0, (5500.0, 1000, GEMM))):
        node = rank.operator(
            "autograd::engine::evaluate_function: MmBackward0",
            begin + at - 400,
            300,
            track=autograd,
            sequence=layer + 1,
        )
        rank.operator("aten::mm", begin + at - 380, 100, track=autograd, dims=matrices[layer], types=["float", "float"])
        rank.kernel(name, begin + at, duration * factor, call_us=begin + at - 370, host_track=autograd)
        rank.detail("forward_backward", node, forward_row=forward[layer], backward_row=node)
        call = begin + at - 200
        late = (2.0 - factor) * 50  # rank 0 waits that long for rank 1
        kernel = rank.kernel(
            REDUCE, begin + at + 900 - late, 400 + late, call_us=call, stream=exchange, host_track=autograd
        )
        rank.detail(
            "collectives", kernel, collective="allreduce", group=str(layer), group_size=2, ranks="[0, 1]",
            dtype="Float", in_elements=4096, out_elements=4096,
        )  # fmt: skip
    rank.annotation("Optimizer.step#SGD.step", begin + 8000, 200)
    rank.kernel("multi_tensor_apply_kernel", begin + 8300, 100, call_us=begin + 8050)
    rank.step(step, begin, begin + STEP_US)
