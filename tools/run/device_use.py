"""Whether a trace without device work is of a program that uses a device all the same, or of one on the CPU."""

from __future__ import annotations

import re

import numpy as np

from tools.run.events import EventKind, name_mask
from tools.run.model import Rank

DEVICE_BACKENDS = ("nccl", "rccl", "hccl", "xccl")  # collectives of these run on devices only
# Spans that only a program with devices has: collectives of these libraries, and the optimizers of Apex and DeepSpeed
# that are kernels of a device.
DEVICE_SPAN = re.compile(
    r"(?:nccl|rccl|hccl|xccl):|Optimizer\.\w+#Fused(?:Adam|LAMB|MixedPrecisionLamb|NovoGrad|SGD|Lion)\b"
)


def uses_device(rank: Rank, backend: str | None) -> bool:
    """Whether the rank's program uses a device, by work, a named device, its collectives' backend or its spans."""
    if rank.has_device:
        return True
    if ran_on_cpu(rank, backend):
        return False
    return bool(rank.devices) or backend in DEVICE_BACKENDS or _spans_of_devices(rank)


def ran_on_cpu(rank: Rank, backend: str | None = None) -> bool:
    """Whether a trace that names a device shows that it was not used: nothing is launched, every allocation is the
    host's, and nothing in it runs on devices only. False where allocations were not recorded."""
    memory = rank.events.details.memory
    if rank.has_device or not len(memory) or backend in DEVICE_BACKENDS:
        return False
    launched = (rank.events.frame["kind"].to_numpy() == EventKind.RUNTIME).any()
    on_host = (memory["device_type"].to_numpy() == 0).all()
    return bool(on_host and not launched and not _spans_of_devices(rank))


def _spans_of_devices(rank: Rank) -> bool:
    frame = rank.events.frame
    found = name_mask(frame["name"], DEVICE_SPAN.match)
    return bool(np.any(found & np.isin(frame["kind"].to_numpy(), (EventKind.ANNOTATION, EventKind.OPERATOR))))
