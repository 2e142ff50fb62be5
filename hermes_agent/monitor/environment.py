"""The settings that the process runs under: variables that matter for speed, torch's switches, cores, interfaces.

Only variables of a list are recorded, only their first characters, and neither paths nor addresses in them.
"""

from __future__ import annotations

import gc
import os
import platform
import re
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import time_ns
from typing import Any

from hermes_agent.monitor.procfs import cgroup_sample, read_text, whole_number

# Each of them is known to cost or save time, and none is made to hold a name, an address or a secret.
NAMES = frozenset(
    (
        *("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_SCHEDULE", "OMP_WAIT_POLICY", "OMP_DYNAMIC"),
        *("MKL_NUM_THREADS", "MKL_DYNAMIC", "KMP_AFFINITY", "KMP_BLOCKTIME", "KMP_SETTINGS", "GOMP_CPU_AFFINITY"),
        *("GOMP_SPINCOUNT", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS"),
        *("NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_SOCKET_IFNAME", "NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_NET"),
        *("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL", "NCCL_ALGO", "NCCL_PROTO"),
        *("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_NSOCKS_PERTHREAD"),
        *("NCCL_SOCKET_NTHREADS", "NCCL_CROSS_NIC", "NCCL_NVLS_ENABLE", "NCCL_BLOCKING_WAIT", "NCCL_LAUNCH_MODE"),
        *("RCCL_MSCCL_ENABLE", "GLOO_SOCKET_IFNAME", "HCCL_SOCKET_IFNAME", "HCCL_BUFFSIZE", "HCCL_ALGO"),
        *("HCCL_DETERMINISTIC", "TORCH_DISTRIBUTED_DEBUG", "TORCH_CPP_LOG_LEVEL", "TORCH_SHOW_CPP_STACKTRACES"),
        *("TORCH_LOGS", "TORCH_COMPILE_DEBUG", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_NCCL_BLOCKING_WAIT"),
        *("TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_AVOID_RECORD_STREAMS", "TORCH_NCCL_ENABLE_TIMING"),
        *("TORCH_NCCL_DESYNC_DEBUG", "TORCH_NCCL_USE_COMM_NONBLOCKING", "TORCHDYNAMO_DISABLE"),
        *("TORCHINDUCTOR_CACHE_DIR", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_COMPILE_THREADS"),
        *("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_FORCE_DISABLE_CACHES"),
        *("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_NPU_ALLOC_CONF"),
        *("PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_JIT", "PYTORCH_ENABLE_MPS_FALLBACK"),
        *("CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_MODULE_LOADING", "CUDA_CACHE_DISABLE"),
        *("CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "CUBLAS_WORKSPACE_CONFIG", "CUDNN_LOGINFO_DBG"),
        *("CUDNN_LOGLEVEL_DBG", "NVIDIA_TF32_OVERRIDE", "HIP_VISIBLE_DEVICES", "HIP_LAUNCH_BLOCKING"),
        *("ROCR_VISIBLE_DEVICES", "AMD_SERIALIZE_KERNEL", "AMD_LOG_LEVEL", "ASCEND_LAUNCH_BLOCKING"),
        *("ASCEND_GLOBAL_LOG_LEVEL", "ASCEND_RT_VISIBLE_DEVICES", "ASCEND_SLOG_PRINT_TO_STDOUT"),
        *("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_MEM_FRACTION"),
        *("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_"),
        *("MALLOC_ARENA_MAX", "MALLOC_CHECK_", "MALLOC_PERTURB_", "LD_PRELOAD"),
        *("PYTHONMALLOC", "PYTHONFAULTHANDLER", "PYTHONASYNCIODEBUG", "PYTHONDEVMODE", "PYTHONPROFILEIMPORTTIME"),
        *("PYTHONTRACEMALLOC",),
    )
)
LIBRARY = re.compile(r"lib[A-Za-z0-9_+-]{1,40}\.so(\.[0-9]{1,6}){0,4}")  # of a path only such a name is recorded
# Whatever holds a slash, from the last separator before it to the next one.
PATH = re.compile(r"[^\s:;,=]*/[^\s:;,=]*|~[^\s:;,=]*")
ADDRESS = re.compile(  # of version 4, of version 6 or hardware, a name with a port, a user at a machine
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.])"
    r"|(?<![\w:])(?:(?:[0-9A-Fa-f]{1,4}:){5,7}[0-9A-Fa-f]{1,4}|[0-9A-Fa-f:]*::[0-9A-Fa-f:.]*)(?![\w:])"
    r"|(?<!\w)(?=[0-9.-]*[A-Za-z])[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*:\d{2,5}(?!\w)"
    r"|[^\s@,;=]+@[^\s,;=]+"
)
# Torch knows nothing of their devices.
OTHER_FRAMEWORKS = frozenset(("jax", "mindspore", "paddle", "tensorflow", "torch_xla"))
MOST_LOOKED_AT = 4096
LONGEST_VALUE = 200
MOST_INTERFACES = 64
MOST_EVENTS = 20  # environment events of one process
Event = dict[str, Any]


def identity() -> tuple[int, int | None, int | None]:
    """Rank, world size and local rank as launchers put them into the environment; rank 0 when none did."""
    rank = _number("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    world_size = _number("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    local_rank = _number("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
    return rank or 0, world_size, local_rank


def _number(*names: str) -> int | None:
    return next((int(text) for name in names if (text := os.environ.get(name, "")).isdigit()), None)


def default_folder() -> Path:
    """The run folder when the script names none: HERMES_DX_RUN_FOLDER, else ``hermes-run`` here."""
    return Path(os.environ.get("HERMES_DX_RUN_FOLDER") or "hermes-run")


def host_name() -> str:
    """The name of this machine."""
    return socket.gethostname()


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be recorded, without paths and addresses."""
    names = sorted(NAMES & environment.keys())
    return {name: _masked(environment[name][:MOST_LOOKED_AT])[:LONGEST_VALUE] for name in names}


def _masked(value: str) -> str:
    return ADDRESS.sub("(address)", PATH.sub(_library, value))


def _library(path: re.Match[str]) -> str:
    """The part of a path that may be recorded: not where it is, which may name a user, only which library it is."""
    last = path[0].rpartition("/")[2]
    return last if LIBRARY.fullmatch(last) else "(path)"


def torch_threads() -> dict[str, int]:
    """Threads of one operator and between operators; to be called by the training thread, whose setting it is."""
    torch = sys.modules.get("torch")
    counted: dict[str, int] = {}
    for name, function in (("torch_intra", "get_num_threads"), ("torch_inter", "get_num_interop_threads")):
        value = _call(getattr(torch, function, None))
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
    values = {
        "anomaly_mode": _call(getattr(torch, "is_anomaly_enabled", None)),
        "distributed_debug": getattr(_call(getattr(distributed, "get_debug_level", None)), "name", None),
        "deterministic": _call(getattr(torch, "are_deterministic_algorithms_enabled", None)),
        "default_dtype": str(_call(torch.get_default_dtype)).removeprefix("torch."),
        "float32_matmul_precision": _call(getattr(torch, "get_float32_matmul_precision", None)),
        "mkldnn": getattr(getattr(backends, "mkldnn", None), "enabled", None),
        "cudnn_benchmark": getattr(getattr(backends, "cudnn", None), "benchmark", None),
        "accelerator": _accelerator(torch),
    }
    return {name: value for name, value in values.items() if isinstance(value, bool | str)}


def _accelerator(torch: object) -> str:
    """The accelerator that this process uses so far; ``none``, or ``unknown`` where torch does not know.

    No driver is called, for that might wake a device up: of those that torch was built for one in use is initialized,
    others are registered with it.
    """
    for name in ("cuda", "xpu"):
        if _call(getattr(getattr(torch, name, None), "is_initialized", None)):
            return name
    built = getattr(torch, "version", None)
    current = getattr(getattr(torch, "accelerator", None), "current_accelerator", None)
    if current is None or not OTHER_FRAMEWORKS.isdisjoint(sys.modules):
        return "unknown"
    if any(getattr(built, name, None) for name in ("cuda", "hip", "xpu")):
        return "none"
    try:
        device = current()
    except (RuntimeError, AttributeError):
        return "unknown"
    return "none" if device is None else str(getattr(device, "type", "unknown"))


def interfaces(folder: Path = Path("/sys/class/net")) -> dict[str, dict[str, int | None]]:
    """Speed (None where the driver reports none) and largest packet of each network interface but the loopback."""
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
    """Records the environment at the start, at the end, and whenever torch's switches have changed."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._threads: dict[str, int] = {}
        self._recorded: list[tuple[Event, dict[str, int]]] = []

    def note_threads(self) -> None:
        """To be called by the training thread: at the start and when the first step has ended."""
        self._threads = torch_threads()

    def news(self, last: bool) -> list[Event]:
        """The event when there is one, else nothing; called by the flushing thread."""
        now = (dict(torch_flags()), self._threads)
        if not last and (now in self._recorded or len(self._recorded) >= MOST_EVENTS):
            return []
        # Counted twice only: it holds up all threads, for milliseconds where the heap is large.
        objects = len(gc.get_objects()) if last or not self._recorded else None
        self._recorded.append(now)
        return [self._event(*now) | {"gc_tracked_objects": objects}]

    def _event(self, flags: Event, threads: dict[str, int]) -> Event:
        version = getattr(sys.modules.get("torch"), "__version__", None)
        return {
            "event": "environment",
            "unix_ns": time_ns(),
            "python": platform.python_version(),
            "torch": None if version is None else str(version),
            "variables": variables(self._environment),
            "threads": threads,
            "flags": flags,
            "gc_thresholds": list(gc.get_threshold()),
            "gc_enabled": gc.isenabled(),
            "allowed_cores": sorted(os.sched_getaffinity(0)),
            "cores": os.cpu_count(),
            "quota_cores": cgroup_sample().get("quota_cores"),
            "interfaces": interfaces(),
        }


def _call(function: Callable[[], object] | None) -> object:
    """None where torch lacks the function or cannot answer."""
    if function is None:
        return None
    with suppress(RuntimeError, AttributeError):
        return function()
    return None
