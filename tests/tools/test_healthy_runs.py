"""Runs with nothing wrong: no cause may claim a noticeable share of their step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.collective_runs import RING
from tests.synthetic import A100, H100, V100, RankBuilder, profile_of
from tools.judgement.ranking import Ranking, ranking
from tools.judgement.verdict import UNSEEN_HOST
from tools.run.model import UNREADABLE, Device, Layout, Source
from tools.views.profile import Profile

A100_GEMM = "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_tn"
H100_GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_segment_k_off_kernel__5x_cublas"
V100_GEMM = "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)"
ADAM = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdam>"
LAYERS, STEPS = 60, 6


def computing(device: Device, gemm: str, gemm_us: float, overlapped: bool = False) -> Profile:
    """The host launches a whole step within its first tenth and reads the loss when the device is done."""
    rank = RankBuilder(device=device)
    side = rank.device_stream(20)
    start = 0.0
    for number in range(STEPS):
        rank.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start + 2, 20)
        at = start + 50
        for layer in range(LAYERS):
            call = start + 30 + 20 * layer
            shape = [[16384, 4096], [4096, 4096]]
            rank.operator("aten::mm", call, 9, dims=shape, types=["c10::BFloat16"] * 2)
            rank.kernel(gemm, at, gemm_us, call_us=call + 2, blocks=800, threads=256)
            rank.kernel(ADD, at + gemm_us + 1, 60, call_us=call + 12, blocks=800, threads=256)
            at += gemm_us + 62
            if overlapped and layer % 15 == 14 and layer < LAYERS - 1:
                _gradients(rank, side, at, call + 15)
        rank.kernel(ADAM, at, 500, call_us=start + 30 + 20 * LAYERS, blocks=800, threads=512)
        read = start + 60 + 20 * LAYERS
        rank.copy("Memcpy DtoH (Device -> Pageable)", at + 501, 3, call_us=read, call_duration_us=at + 506 - read)
        rank.step(number, start, at + 520)
        start = at + 520
    return profile_of(rank, layout=Layout(world_size=8 if overlapped else 1))


def _gradients(rank: RankBuilder, stream: int, at: float, call: float, duration: float = 900.0) -> None:
    handle = rank.kernel(RING, at, duration, call_us=call, call_duration_us=1, stream=stream)
    sizes = {"in_elements": 25_000_000, "out_elements": 25_000_000}
    rank.detail(
        "collectives",
        handle,
        collective="allreduce",
        group="0",
        group_size=-1,
        ranks="",
        dtype="BFloat16",
        **sizes,
    )


def jittery(seed: int, steps: int, ranks: int = 8, kernels: int = 50) -> Profile:
    """Ranks whose computation of 40 ms differs by chance by 2 %, meeting in one all-reduce of 1.5 ms per step."""
    random = np.random.default_rng(seed)
    builders = [RankBuilder(number, device=A100) for number in range(ranks)]
    start = 0.0
    for number in range(steps):
        compute = 40_000 * (1 + 0.02 * random.standard_normal(ranks))
        end = start + 40 + float(compute.max()) + 1500
        for rank, own in zip(builders, compute, strict=True):
            each = own / kernels
            for place in range(kernels):
                begin = start + 40 + place * each
                rank.kernel(A100_GEMM, begin, each - 1, call_us=start + 10 + 12 * place, blocks=800, threads=256)
            begin = start + 40 + own
            _gradients(rank, rank.stream, begin, start + 10 + 12 * kernels, end - begin)
            rank.kernel(ADAM, end + 1, 500, call_us=start + 20 + 12 * kernels, blocks=800, threads=512)
            rank.step(number, start, end + 520)
        start = end + 520
    return profile_of(*builders)


def on_cpu(ranks: int, steps: int = STEPS) -> Profile:
    """Long operators, a loader that is ahead, and a short all-reduce where there are several ranks."""
    random = np.random.default_rng(ranks)
    builders = [RankBuilder(number, device=None) for number in range(ranks)]
    threads = [rank.host_thread() for rank in builders]
    start = 0.0
    for number in range(steps):
        ends = [_long_operators(rank, start, random) for rank in builders]
        end = max(ends) + (800 if ranks > 1 else 0)
        for rank, thread, own in zip(builders, threads, ends, strict=True):
            if ranks > 1:
                rank.annotation("gloo:all_reduce", own - 4000, end - own + 4000, track=thread)
            rank.step(number, start, end + 100)
        start = end + 100
    return profile_of(*builders)


def _long_operators(rank: RankBuilder, start: float, random: np.random.Generator) -> float:
    rank.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", start + 5, 60)
    at = start + 70
    for place in range(30):
        duration = 1500 * (1 + 0.02 * float(random.standard_normal()))
        rank.operator(f"aten::{('add', 'mkldnn_convolution')[place % 2]}", at, duration)
        at += duration + 15
    return at


def large(known: Ranking) -> list[tuple[str, float]]:
    return [(each.finding.cause, each.impact_pct) for each in known.causes if each.impact_pct >= 5.0]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: computing(A100, A100_GEMM, 2200), id="A100 at 80 % of its bf16 peak"),
        pytest.param(lambda: computing(H100, H100_GEMM, 720), id="H100 at 77 % of its bf16 peak"),
        pytest.param(lambda: computing(V100, V100_GEMM, 6000), id="V100 at 73 % of its fp16 peak"),
        pytest.param(
            lambda: computing(A100, A100_GEMM, 2200, overlapped=True), id="communication hidden by computation"
        ),
        pytest.param(lambda: jittery(0, 3), id="jitter over three steps"),
        pytest.param(lambda: jittery(1, 12), id="jitter over twelve steps"),
        pytest.param(lambda: jittery(2, 1), id="jitter in one step"),
    ],
)
def test_a_healthy_run_is_called_healthy(make: Callable[[], Profile]) -> None:
    known = ranking(make())
    assert large(known) == []
    assert known.verdict == "healthy"


@pytest.mark.parametrize(("ranks", "steps"), [(1, STEPS), (8, STEPS), (8, 1)])
def test_a_run_on_processors_is_not_called_healthy_where_nobody_saw_who_had_the_cores(ranks: int, steps: int) -> None:
    known = ranking(on_cpu(ranks, steps))
    assert large(known) == []
    assert (known.verdict, known.why) == ("inconclusive", UNSEEN_HOST)
    assert [lead.place.part for lead in known.leads] == ["compute"]
    assert "record_shapes=True" in known.leads[0].decide_by
    assert "Not observed" in known.leads[0].claim.template


@pytest.mark.parametrize("seed", range(4))
def test_chance_over_many_steps_is_no_well_supported_cause(seed: int) -> None:
    known = ranking(jittery(seed, 12))
    assert all(each.finding.confidence < 0.5 for each in (*known.causes, *known.below))


@pytest.mark.parametrize(("named", "verdict"), [((), "healthy"), ((0,), "healthy"), ((3,), "inconclusive")])
def test_healthy_is_not_said_of_a_run_with_a_rank_that_could_not_be_read(named: tuple[int, ...], verdict: str) -> None:
    run = computing(A100, A100_GEMM, 1500).run
    unread = Source(Path("rank3.pt.trace.json"), UNREADABLE, named, "excluded", "it is empty")
    assert ranking(Profile(replace(run, sources=(*run.sources, unread)))).verdict == verdict
