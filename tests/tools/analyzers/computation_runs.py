"""Small runs for the tests of the computation analyzer, and what is read off its answers."""

from __future__ import annotations

from tests.asked import COMPUTATION, ask, asking
from tests.synthetic import A100, V100, RankBuilder
from tools.findings import Check, Finding
from tools.run.model import Device
from tools.views.profile import Profile
from tools.whatif.change import Scale

analyze = asking(*COMPUTATION)

SGEMM = "volta_sgemm_128x64_nn"
HALF_ALIGNED = "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_tn"
TF32_NARROW = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(Params)"
TF32_FULL = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align4>(Params)"
ADD = "void at::native::vectorized_elementwise_kernel<4, AddFunctor<float>>(int)"


def check(profile: Profile, name: str) -> Check:
    """The answer to one question."""
    return ask(profile, name)


def only(found: Check) -> Finding:
    """The single finding of an answer."""
    assert found.status == "found"
    assert len(found.findings) == 1
    return found.findings[0]


def saved_us(finding: Finding) -> float:
    """Time that the change takes away, over all tracks."""
    scales = [change for change in finding.change if isinstance(change, Scale)]
    lengths = [(scale.factor, (scale.intervals[:, 1] - scale.intervals[:, 0]).sum()) for scale in scales]
    return float(sum((1 - factor) * length for factor, length in lengths)) / 1000


def one_kernel(name: str, duration_us: float, device: Device = V100, blocks: int = 800) -> RankBuilder:
    """A step of 1000 us with one kernel."""
    rank = RankBuilder(device=device)
    rank.kernel(name, 100, duration_us, call_us=50, blocks=blocks, threads=256)
    rank.step(0, 0, 1000)
    return rank


def with_matmul(
    name: str, duration_us: float, shape: tuple[int, int, int], kind: str, device: Device = A100
) -> RankBuilder:
    """A step of 1000 us with one matrix multiplication of recorded shape and type."""
    rows, inner, columns = shape
    rank = RankBuilder(device=device)
    rank.operator("aten::mm", 40, 30, dims=[[rows, inner], [inner, columns]], types=[kind, kind])
    rank.kernel(name, 100, duration_us, call_us=50, blocks=800, threads=256)
    rank.step(0, 0, 1000)
    return rank
