"""The settings that the process runs under: variables that matter for speed, torch's switches, cores, interfaces.

Only variables with a known prefix are looked at, none whose name speaks of a secret, and only their first characters.
"""

from __future__ import annotations

import gc
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

from hermes_agent.monitor.cgroups import cgroup_sample
from hermes_agent.monitor.kernel import read_text, whole_number

PREFIXES = (
    *("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "NUMEXPR_", "NCCL_", "RCCL_", "GLOO_", "TORCH_", "TORCHINDUCTOR_"),
    *("PYTORCH_", "CUDA_", "CUBLAS_", "CUDNN_", "HIP_", "ROCR_", "HCCL_", "ASCEND_", "HCOM_", "NVIDIA_TF32", "MALLOC_"),
    *("XLA_", "JAX_", "RAY_"),
)
NAMES = frozenset(
    (
        *("PYTHONMALLOC", "PYTHONFAULTHANDLER", "PYTHONASYNCIODEBUG", "PYTHONDEVMODE", "PYTHONPROFILEIMPORTTIME"),
        *("PYTHONTRACEMALLOC", "LD_PRELOAD"),
    )
)
SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "ADDRESS", "_ADDR", "URL")
FOLDERS = re.compile(r"/[^\s:;,=]*/")  # of a path only its last name is told
MOST_LOOKED_AT = 4096
LONGEST_VALUE = 200
MOST_VARIABLES = 256
MOST_INTERFACES = 64
MOST_TOLD = 20  # environment events of one process
Said = dict[str, Any]


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be told."""
    names = sorted(name for name in environment if _told(name))
    return {
        name: FOLDERS.sub(".../", environment[name][:MOST_LOOKED_AT])[:LONGEST_VALUE] for name in names[:MOST_VARIABLES]
    }


def _told(name: str) -> bool:
    known = name.startswith(PREFIXES) or name in NAMES
    return known and not any(word in name.upper() for word in SECRET)


def torch_threads() -> dict[str, int]:
    """Threads of one operator and between operators; to be asked by the training thread, whose setting it is."""
    torch = sys.modules.get("torch")
    counted: dict[str, int] = {}
    for name, function in (("torch_intra", "get_num_threads"), ("torch_inter", "get_num_interop_threads")):
        value = _asked(getattr(torch, function, None))
        if isinstance(value, int):
            counted[name] = value
    return counted


def torch_flags() -> dict[str, bool | str]:
    """Torch's switches that cost or save time; none where torch is not loaded, or does not know the switch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):
        return {}  # not loaded, or still being loaded by another thread
    distributed = sys.modules.get("torch.distributed")
    backends = getattr(torch, "backends", None)
    asked = {
        "anomaly_mode": _asked(getattr(torch, "is_anomaly_enabled", None)),
        "distributed_debug": getattr(_asked(getattr(distributed, "get_debug_level", None)), "name", None),
        "deterministic": _asked(getattr(torch, "are_deterministic_algorithms_enabled", None)),
        "default_dtype": str(_asked(torch.get_default_dtype)).removeprefix("torch."),
        "float32_matmul_precision": _asked(getattr(torch, "get_float32_matmul_precision", None)),
        "mkldnn": getattr(getattr(backends, "mkldnn", None), "enabled", None),
        "cudnn_benchmark": getattr(getattr(backends, "cudnn", None), "benchmark", None),
    }
    return {name: value for name, value in asked.items() if isinstance(value, bool | str)}


def interfaces(folder: Path = Path("/sys/class/net")) -> dict[str, dict[str, int | None]]:
    """Speed (None where the driver tells none) and largest packet of each network interface but the loopback."""
    try:
        names = sorted(path.name for path in folder.iterdir())[:MOST_INTERFACES]
    except OSError:
        return {}
    found: dict[str, dict[str, int | None]] = {}
    for name in names:
        speed = whole_number(read_text(folder / name / "speed").strip())
        mtu = whole_number(read_text(folder / name / "mtu").strip())
        if name != "lo" and mtu is not None:
            found[name] = {"speed_mbit": speed if speed and speed > 0 else None, "mtu": mtu}
    return found


class EnvironmentWatch:
    """Tells the environment at the start, at the end, and in between whenever torch's switches are new ones."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._threads: dict[str, int] = {}
        self._told: list[tuple[Said, dict[str, int]]] = []

    def note_threads(self) -> None:
        """To be called by the training thread: at the start and when the first step has ended."""
        self._threads = torch_threads()

    def news(self, last: bool) -> list[Said]:
        """The event when there is one, else nothing; called by the flushing thread."""
        now = (dict(torch_flags()), self._threads)
        if not last and (now in self._told or len(self._told) >= MOST_TOLD):
            return []
        # Counted twice only: it holds up all threads, for milliseconds where the heap is large.
        objects = len(gc.get_objects()) if last or not self._told else None
        self._told.append(now)
        return [self._event(*now) | {"gc_tracked_objects": objects}]

    def _event(self, flags: Said, threads: dict[str, int]) -> Said:
        allowed = sorted(os.sched_getaffinity(0))
        return {
            "event": "environment",
            "unix_ns": time_ns(),
            "python": platform.python_version(),
            "torch": _torch_version(),
            "variables": variables(self._environment),
            "threads": threads,
            "flags": flags,
            "gc_thresholds": list(gc.get_threshold()),
            "gc_enabled": gc.isenabled(),
            "allowed_cores": allowed,
            "cores": os.cpu_count(),
            "quota_cores": cgroup_sample().get("quota_cores"),
            "interfaces": interfaces(),
        }


def _torch_version() -> str | None:
    torch = sys.modules.get("torch")
    version = getattr(torch, "__version__", None)
    return None if version is None else str(version)


def _asked(function: Callable[[], object] | None) -> object:
    """None where torch lacks the function or cannot answer."""
    if function is None:
        return None
    with suppress(RuntimeError, AttributeError):
        return function()
    return None
