"""Datasheet peaks of the devices that synthetic runs pretend to use, and times that follow from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerator:
    """One device model. Rates per second; ``prefix`` is how its matrix libraries begin kernel names."""

    name: str
    memory_bytes: int
    capability: tuple[int, int]
    multiprocessors: int
    matrix_flops: float  # half types on matrix units
    vector_flops: float  # fp32 on ordinary units
    bandwidth: float
    bus_bandwidth: float  # of an all-reduce inside a node
    prefix: str


ACCELERATORS: dict[str, Accelerator] = {
    "V100": Accelerator(
        "Tesla V100-SXM2-32GB", 34_089_730_048, (7, 0), 80, 125e12, 15.7e12, 0.9e12, 120e9, "volta_fp16_s884gemm_fp16"
    ),
    "A100": Accelerator(
        "NVIDIA A100-SXM4-80GB",
        85_197_979_648,
        (8, 0),
        108,
        312e12,
        19.5e12,
        2.039e12,
        230e9,
        "ampere_bf16_s16816gemm_bf16",
    ),
    "H100": Accelerator(
        "NVIDIA H100 80GB HBM3",
        85_029_158_912,
        (9, 0),
        132,
        989e12,
        66.9e12,
        3.35e12,
        360e9,
        "nvjet_tst",
    ),
}
MATRIX_SHARE = 0.66  # of the peak, what large well-shaped multiplications reach
VECTOR_SHARE = 0.85
STREAM_SHARE = 0.82


def matrix_us(device: Accelerator, flops: float) -> float:
    """Time of a well-shaped matrix multiplication of half types."""
    return 3.0 + flops / (device.matrix_flops * MATRIX_SHARE) * 1e6


def vector_us(device: Accelerator, flops: float) -> float:
    """Time of the same multiplication in fp32 on ordinary units."""
    return 3.0 + flops / (device.vector_flops * VECTOR_SHARE) * 1e6


def stream_us(device: Accelerator, moved_bytes: float) -> float:
    """Time of a kernel that only moves data."""
    return 2.0 + moved_bytes / (device.bandwidth * STREAM_SHARE) * 1e6


def all_reduce_us(device: Accelerator, message_bytes: float, ranks: int) -> float:
    """Time of a ring all-reduce once all ranks have come."""
    return 18.0 + 2 * (ranks - 1) / max(ranks, 1) * message_bytes / device.bus_bandwidth * 1e6
