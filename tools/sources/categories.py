"""From the words of a trace to kinds of events: every name the versions of Kineto have used for a category."""

from __future__ import annotations

import re

from tools.run.kinds import EventKind

KIND_OF_CATEGORY: dict[str, EventKind] = {
    "cpu_op": EventKind.OPERATOR,
    "Operator": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME,
    "hip_runtime": EventKind.RUNTIME,
    "xpu_runtime": EventKind.RUNTIME,
    "xpu_driver": EventKind.RUNTIME,
    "mtia_runtime": EventKind.RUNTIME,
    "privateuse1_runtime": EventKind.RUNTIME,
    "privateuse1_driver": EventKind.RUNTIME,
    "Runtime": EventKind.RUNTIME,
    "python_function": EventKind.PYTHON,
    "Python": EventKind.PYTHON,
    "kernel": EventKind.KERNEL,
    "Kernel": EventKind.KERNEL,
    "gpu_memcpy": EventKind.MEMCPY,
    "Memcpy": EventKind.MEMCPY,
    "gpu_memset": EventKind.MEMSET,
    "Memset": EventKind.MEMSET,
    "cuda_sync": EventKind.SYNC,
    "gpu_user_annotation": EventKind.DEVICE_ANNOTATION,
    "cpu_instant_event": EventKind.INSTANT,
}

ON_DEVICE = (
    EventKind.KERNEL,
    EventKind.MEMCPY,
    EventKind.MEMSET,
    EventKind.SYNC,
    EventKind.DEVICE_ANNOTATION,
)

FORWARD_BACKWARD = ("fwdbwd", "forward_backward")

MEMORY_INSTANT = "[memory]"

_ANNOTATION_NAME = re.compile(
    r"ProfilerStep#|enumerate\(|Optimizer\.|(?:nccl|gloo|mpi|ucc|rccl|hccl|xccl):"
    r"|DistributedDataParallel\.forward|\#\# "
)


def is_annotation(name: str) -> bool:
    """Whether an operator of that name is really a mark set around other work.

    The first Kineto versions filed step marks, loader spans and optimizer calls under "Operator".
    """
    return _ANNOTATION_NAME.match(name) is not None
