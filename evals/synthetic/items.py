"""What a rank's host does in a step, item by item. Times in microseconds."""

from __future__ import annotations

from dataclasses import dataclass
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
