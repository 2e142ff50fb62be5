"""The device table: names as recorded by profilers, and figures that must hang together."""

from __future__ import annotations

import pytest

from tools.knowledge.devices import PRECISIONS, device_specs, spec_of
from tools.run.model import Device


@pytest.mark.parametrize(
    ("recorded", "memory_gb", "model", "bandwidth_gb_s"),
    [
        ("Tesla V100-SXM2-32GB", 34, "V100 SXM2", 900),
        ("Tesla V100-DGXS-32GB", 34, "V100 SXM2", 900),
        ("Tesla V100-PCIE-16GB", 17, "V100 PCIe", 900),
        ("Tesla V100S-PCIE-32GB", 34, "V100S PCIe", 1134),
        ("NVIDIA A100-PG509-200", 42, "A100 40 GB", 1555),
        ("NVIDIA A100-SXM4-40GB", 42, "A100 40 GB", 1555),
        ("NVIDIA A100-SXM4-80GB", 85, "A100 SXM 80 GB", 2039),
        ("NVIDIA A100-SXM4-80GB", None, "A100 SXM 80 GB", 2039),
        ("NVIDIA A100 80GB PCIe", 85, "A100 PCIe 80 GB", 1935),
        ("NVIDIA H100 80GB HBM3", 85, "H100 SXM", 3350),
        ("NVIDIA H100 PCIe", 85, "H100 PCIe", 2000),
        ("NVIDIA H200", 150, "H200", 4800),
        ("NVIDIA L40S", 48, "L40S", 864),
        ("NVIDIA L4", 24, "L4", 300),
        ("Tesla T4", 16, "T4", 320),
        ("NVIDIA A10G", 24, "A10G", 600),
        ("NVIDIA GeForce RTX 4090", 25, "RTX 4090", 1008),
        ("AMD Instinct MI300X", 206, "MI300X", 5300),
        ("AMD Instinct MI250X", 68, "MI250X (one of two)", 1638),
    ],
)
def test_a_recorded_name_finds_its_model(
    recorded: str, memory_gb: int | None, model: str, bandwidth_gb_s: float
) -> None:
    memory = None if memory_gb is None else memory_gb * 1_000_000_000
    spec = spec_of(Device(0, recorded, memory))
    assert spec is not None
    assert (spec.name, spec.memory_gb_s) == (model, bandwidth_gb_s)


@pytest.mark.parametrize("recorded", ["AMD Radeon Graphics", "Ascend910B", "", "NVIDIA A1000", "Quadro T400"])
def test_an_unknown_device_has_no_figures(recorded: str) -> None:
    assert spec_of(Device(0, recorded)) is None


def test_every_entry_names_its_source_and_known_types() -> None:
    for spec in device_specs():
        assert "datasheet" in spec.source or "whitepaper" in spec.source
        assert set(spec.vector_tflops) | set(spec.matrix_tflops) <= set(PRECISIONS)
        assert spec.memory_gb_s > 100


def test_no_type_is_slower_on_matrix_units_than_a_wider_one() -> None:
    order = ("fp64", "tf32", "bf16", "fp8")
    for spec in device_specs():
        figures = [spec.matrix_tflops[name] for name in order if name in spec.matrix_tflops]
        assert figures == sorted(figures), spec.name


def test_types_that_a_unit_lacks_have_no_peak() -> None:
    spec = spec_of(Device(0, "Tesla V100-SXM2-32GB"))
    assert spec is not None
    assert spec.peak_flops_per_s("fp16", matrix=True) == 125e12
    assert spec.peak_flops_per_s("tf32", matrix=True) is None
    assert spec.peak_flops_per_s("fp32", matrix=False) == 15.7e12
