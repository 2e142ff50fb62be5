"""The items of a rank's step, and how long they take on the devices that synthetic runs pretend to use, in us."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

Dims: TypeAlias = tuple[tuple[int, ...], ...]
Thread = Literal["main", "autograd"]


@dataclass(frozen=True)
class Work:
    """One piece of device work and the call that starts it. A blocking call returns when the work is done."""

    name: str
    us: float
    category: Literal["kernel", "gpu_memcpy", "gpu_memset"] = "kernel"
    call: str = "cudaLaunchKernel"
    bytes: int = -1
    blocks: int = 512
    blocking: bool = False


@dataclass(frozen=True)
class Call:
    """One operator on the host, which starts its work in order."""

    name: str
    host_us: float
    work: tuple[Work, ...] = ()
    dims: Dims = ()
    types: tuple[str, ...] = ()
    thread: Thread = "main"
    around: str = ""  # the autograd node or outer operator around it
    flops: float = 0.0  # of a matrix multiplication or convolution, else 0

    def scaled(self, factor: float) -> Call:
        """The same with its device work so much longer."""
        return replace(self, work=tuple(replace(work, us=work.us * factor) for work in self.work))


@dataclass(frozen=True)
class Pause:
    """Host time: a recorded span, or with an empty name nothing that the profiler sees.

    ``inside`` are spans within it, as (name, category), of equal length.
    """

    name: str
    us: float
    category: Literal["user_annotation", "python_function", "cpu_op"] = "user_annotation"
    inside: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Sync:
    """The host waits until the device's compute stream is done."""

    operator: str = "aten::item"
    call: str = "cudaStreamSynchronize"


@dataclass(frozen=True)
class DeviceMemory:
    """A call that allocates or frees device memory; freeing waits for the device."""

    call: str
    us: float
    waits: bool = False


@dataclass(frozen=True)
class Collective:
    """A collective behind what is on the compute stream; ``us`` is the transfer once all ranks have come."""

    kind: str
    elements: int
    us: float
    group: tuple[int, ...]
    dtype: str = "BFloat16"
    description: str = "default_pg"


@dataclass(frozen=True)
class Join:
    """The compute stream waits for all collectives so far."""


@dataclass(frozen=True)
class Mark:
    """A named span on the training thread around all items up to its ``Unmark``."""

    name: str


@dataclass(frozen=True)
class Unmark:
    """The end of the latest open mark."""


Item: TypeAlias = Call | Pause | Sync | DeviceMemory | Collective | Join | Mark | Unmark


@dataclass(frozen=True)
class Accelerator:
    """A device model by its datasheet. Rates per second; names of its matrix kernels begin with ``prefix``."""

    name: str
    memory_bytes: int
    capability: tuple[int, int]
    multiprocessors: int
    matrix_flops: float  # half types on matrix units
    vector_flops: float  # fp32 on ordinary units
    bandwidth: float
    bus_bandwidth: float  # of an all-reduce inside a node
    prefix: str


_V100 = ("Tesla V100-SXM2-32GB", 34_089_730_048, (7, 0), 80, 125e12, 15.7e12, 0.9e12, 120e9, "volta_fp16_s884gemm_fp16")
_A100_PREFIX = "ampere_bf16_s16816gemm_bf16"
_A100 = ("NVIDIA A100-SXM4-80GB", 85_197_979_648, (8, 0), 108, 312e12, 19.5e12, 2.039e12, 230e9, _A100_PREFIX)
_H100 = ("NVIDIA H100 80GB HBM3", 85_029_158_912, (9, 0), 132, 989e12, 66.9e12, 3.35e12, 360e9, "nvjet_tst")
ACCELERATORS = {"V100": Accelerator(*_V100), "A100": Accelerator(*_A100), "H100": Accelerator(*_H100)}
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
