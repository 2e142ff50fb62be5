"""Roofline and fusion checks on operators whose rates can be worked out by hand."""

from __future__ import annotations

import pytest

from tests.synthetic import A100, H100, RankBuilder, profile_of
from tests.tools.analyzers.computation_runs import ADD, HALF_ALIGNED, check, one_kernel, only, saved_us, with_matmul
from tools.metrics.registry import measure
from tools.run.model import Device


def test_an_operator_at_the_devices_limit_is_compute_bound() -> None:
    """8192 cubed in bf16 is 1.0995e12 operations; at 75 % of 312 TFLOP/s that takes 4,699 us."""
    rank = RankBuilder(device=A100)
    rank.operator("aten::mm", 40, 30, dims=[[8192, 8192], [8192, 8192]], types=["c10::BFloat16", "c10::BFloat16"])
    rank.kernel(HALF_ALIGNED, 100, 4699, call_us=50, blocks=800)
    rank.step(0, 0, 5000)
    profile = profile_of(rank)
    finding = only(check(profile, "computation.roofline"))
    assert finding.cause == "compute_bound"
    assert finding.claim.facts[1].value == pytest.approx(234.0, abs=0.1)
    assert (finding.change, finding.impact_ms) == ((), 0.0)
    assert measure(profile, "roofline_pct", rank=0).value == pytest.approx(75.0, abs=0.05)


def test_half_types_at_the_limit_are_not_advised_to_become_narrower() -> None:
    """75 % of 989.5 TFLOP/s in bf16; the device has fp8, but that is another training recipe."""
    finding = only(check(profile_of(_at_the_limit(H100, "c10::BFloat16", 1481)), "computation.roofline"))
    assert finding.cause == "compute_bound"
    assert (finding.change, finding.impact_ms) == ((), 0.0)


def test_a_rate_that_no_device_reaches_says_nothing_about_the_limit() -> None:
    """1.5 times the peak: the recorded shapes are not what ran."""
    profile = profile_of(_at_the_limit(A100, "c10::BFloat16", 2349))
    assert measure(profile, "kernel_group_pct", group="compute_bound", rank=0).value == 0


def _at_the_limit(device: Device, kind: str, duration_us: float) -> RankBuilder:
    rank = RankBuilder(device=device)
    rank.operator("aten::mm", 40, 30, dims=[[8192, 8192], [8192, 8192]], types=[kind, kind])
    rank.kernel(HALF_ALIGNED, 100, duration_us, call_us=50, blocks=800)
    rank.step(0, 0, duration_us + 200)
    return rank


def test_an_operator_far_below_both_peaks_is_underutilised() -> None:
    rank = with_matmul(HALF_ALIGNED, 500, (64, 1024, 1024), "c10::BFloat16")
    profile = profile_of(rank)
    finding = only(check(profile, "computation.roofline"))
    assert (finding.cause, finding.mechanism) == ("underutilization", None)
    least_us = 2 * (64 * 1024 + 1024 * 1024 + 64 * 1024) / 2039e9 * 1e6
    assert measure(profile, "roofline_pct", rank=0).value == pytest.approx(100 * least_us / 500)


def test_an_operator_between_limit_and_idleness_is_clean() -> None:
    rank = with_matmul(HALF_ALIGNED, 100, (2048, 2048, 2048), "c10::BFloat16")  # 172 of 312 TFLOP/s
    answer = check(profile_of(rank), "computation.roofline")
    assert answer.status == "clean"
    assert answer.support[1].facts[0].value == pytest.approx(2 * 2048**3 / 100e-6 / 1e12)


def test_the_roofline_needs_shapes() -> None:
    answer = check(profile_of(one_kernel(HALF_ALIGNED, 500, A100)), "computation.roofline")
    assert (answer.status, "record_shapes=True" in answer.needs) == ("cannot_answer", True)


def test_a_chain_of_elementwise_kernels_keeps_its_longest_kernel() -> None:
    rank = RankBuilder()
    for place, length in enumerate((40, 50, 30)):
        rank.kernel(ADD, 100 + 60 * place, length, blocks=800, threads=256)
    rank.step(0, 0, 1000)
    finding = only(check(profile_of(rank), "computation.memory_bound"))
    assert finding.cause == "memory_bound"
    assert finding.claim.facts[0].value == pytest.approx(12.0)
    assert saved_us(finding) == pytest.approx(120 - 50)


def test_a_chain_worth_less_than_a_hundredth_of_the_step_is_clean() -> None:
    rank = RankBuilder()
    rank.kernel(ADD, 100, 9, blocks=800, threads=256)
    rank.kernel(ADD, 110, 9, blocks=800, threads=256)
    rank.step(0, 0, 1000)
    assert check(profile_of(rank), "computation.memory_bound").status == "clean"
