"""The settings of the process: listed variables without paths and addresses, torch's switches, cores, interfaces."""

from __future__ import annotations

import gc
import os
import platform
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from hermes_agent.monitor.procfs import cgroup_sample, read_text, whole_number

LIBRARY = re.compile(r"lib[A-Za-z0-9_+-]{1,40}\.so(\.[0-9]{1,6}){0,4}")  # of a path only such a name is recorded
# Whatever holds a slash, from the last separator before it to the next one.
PATH = re.compile(r"[^\s:;,=]*/[^\s:;,=]*|~[^\s:;,=]*")
ADDRESS = re.compile(  # of version 4, of version 6 or hardware, a name with a port, a user at a machine
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.])"
    r"|(?<![\w:])(?:(?:[0-9A-Fa-f]{1,4}:){5,7}[0-9A-Fa-f]{1,4}|[0-9A-Fa-f:]*::[0-9A-Fa-f:.]*)(?![\w:])"
    r"|(?<!\w)(?=[0-9.-]*[A-Za-z])[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*:\d{2,5}(?!\w)"
    r"|[^\s@,;=]+@[^\s,;=]+"
)
FLAGS = {
    "anomaly_mode": "is_anomaly_enabled",
    "distributed_debug": "distributed.get_debug_level",
    "deterministic": "are_deterministic_algorithms_enabled",
    "default_dtype": "get_default_dtype",
    "float32_matmul_precision": "get_float32_matmul_precision",
    "mkldnn": "backends.mkldnn.enabled",
    "cudnn_benchmark": "backends.cudnn.benchmark",
}
# Torch knows nothing of their devices.
OTHER_FRAMEWORKS = frozenset(("jax", "mindspore", "paddle", "tensorflow", "torch_xla"))
MOST_LOOKED_AT = 4096
LONGEST_VALUE = 200
MOST_INTERFACES = 64
MOST_EVENTS = 20  # environment events of one process
Event = dict[str, Any]


@cache
def recorded_names() -> frozenset[str]:
    """Variables known to cost or save time; none is made to hold a name, an address or a secret."""
    with suppress(OSError):  # where only the modules were copied, no variable is recorded
        return frozenset(Path(__file__).with_name("variables.txt").read_text(encoding="utf-8").split())
    return frozenset()


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


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that may be recorded, without paths and addresses."""

    def library(path: re.Match[str]) -> str:
        """The part of a path that may be recorded: not the folders, which may name a user, only the library."""
        last = path[0].rpartition("/")[2]
        return last if LIBRARY.fullmatch(last) else "(path)"

    shown = {name: environment[name][:MOST_LOOKED_AT] for name in sorted(recorded_names() & environment.keys())}
    return {name: ADDRESS.sub("(address)", PATH.sub(library, value))[:LONGEST_VALUE] for name, value in shown.items()}


def torch_threads() -> dict[str, int]:
    """Threads of one operator and between operators; to be called by the training thread, whose setting it is."""
    counted = {"torch_intra": _torch("get_num_threads"), "torch_inter": _torch("get_num_interop_threads")}
    return {name: value for name, value in counted.items() if isinstance(value, int)}


def torch_flags() -> dict[str, bool | str]:
    """Torch's switches that cost or save time; none where torch is not loaded, or does not know the switch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):
        return {}  # not loaded, or still being loaded by another thread
    values = {name: _torch(path) for name, path in FLAGS.items()} | {"accelerator": _accelerator(torch)}
    return {name: value for name, value in values.items() if isinstance(value, bool | str)}


def _accelerator(torch: object) -> str:
    """The accelerator in use so far, ``none`` or ``unknown``; no driver is called, which might wake a device up."""
    for name in ("cuda", "xpu"):
        if _torch(f"{name}.is_initialized"):
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
        """Note torch's threads; called by the training thread at the start and after the first step."""
        self._threads = torch_threads()

    def news(self, unix_ns: int, last: bool) -> list[Event]:
        """The event when there is one, else nothing; called by the flushing thread."""
        now = (dict(torch_flags()), self._threads)
        if not last and (now in self._recorded or len(self._recorded) >= MOST_EVENTS):
            return []
        # Counted twice only: it holds up all threads, for milliseconds where the heap is large.
        objects = len(gc.get_objects()) if last or not self._recorded else None
        self._recorded.append(now)
        version = getattr(sys.modules.get("torch"), "__version__", None)
        event = {
            "event": "environment",
            "unix_ns": unix_ns,
            "python": platform.python_version(),
            "torch": None if version is None else str(version),
            "variables": variables(self._environment),
            "threads": now[1],
            "flags": now[0],
            "gc_tracked_objects": objects,
            "gc_thresholds": list(gc.get_threshold()),
            "gc_enabled": gc.isenabled(),
            "allowed_cores": sorted(os.sched_getaffinity(0)),
            "cores": os.cpu_count(),
            "quota_cores": cgroup_sample().get("quota_cores"),
            "interfaces": interfaces(),
        }
        return [event]


def _torch(path: str) -> object:
    """The value at a path below torch, called where it is a function; None where torch lacks it."""
    found: Any = sys.modules.get("torch")
    with suppress(RuntimeError, AttributeError):
        for name in path.split("."):
            found = getattr(found, name)
        found = found() if callable(found) else found
        return getattr(found, "name", None) or (str(found).removeprefix("torch.") if "dtype" in path else found)
    return None
