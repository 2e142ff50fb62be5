"""Print this machine's environment as JSON, to be stored as env.json with a trace."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hermes_agent.cli.terminal import print_json
from tools.errors import ExitCode

# Variables that change how training runs; no others are written, so that no secret is.
TRAINING = re.compile(
    r"(ASCEND|CUDA|CUDNN|FI|GLOO|GOMP|HCCL|HIP|HSA|KMP|MKL|NCCL|OMP|OPENBLAS|PYTORCH|RCCL|ROCR|TORCH|TORCHINDUCTOR|UCX)_"
)
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL")
PACKAGES = (
    *("torch", "torchvision", "torch-npu", "triton", "deepspeed", "lightning"),
    *("transformers", "accelerate", "numpy"),
)
NODES = Path("/sys/devices/system/node")
ADAPTERS = Path("/sys/class/infiniband")
DRIVER = "/proc/driver/nvidia/version"
CARDS = Path("/proc/driver/nvidia/gpus")
MEMORY_LIMIT = "/sys/fs/cgroup/memory.max"
MOUNTS = "/proc/self/mounts"
SHARED_MEMORY = "/dev/shm"
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
QUOTA = "/sys/fs/cgroup/cpu.max"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``env`` takes none."""


def run(args: argparse.Namespace) -> int:
    """Print the environment."""
    print_json(environment(os.environ))
    return ExitCode.OK


def environment(variables: Mapping[str, str]) -> dict[str, object]:
    """Return settings, versions and limits that affect speed; no host name, user or path list."""
    import platform

    names = sorted(name for name in variables if TRAINING.match(name) and not SECRET.search(name))
    return {
        "schema": "hermes-dx/env/1",
        "variables": {name: variables[name] for name in names},
        "versions": {"python": platform.python_version(), **_versions()},
        "cpu": {
            "cores": os.cpu_count(),
            "allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "governor": _first_line(GOVERNOR),
            "cgroup_quota": _first_line(QUOTA),
            "numa_nodes": len(_entries(NODES, r"node\d+")) or None,
        },
        "memory": {"cgroup_memory_bytes": _first_line(MEMORY_LIMIT), "shared_memory_bytes": _size(SHARED_MEMORY)},
        "filesystems": {
            "working_filesystem": _filesystem(Path.cwd()),
            "temporary_filesystem": _filesystem(Path(tempfile.gettempdir())),
        },
        "devices": {**_gpus(), "network_adapters": ", ".join(_adapters()) or None},
        "system": platform.system(),
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _entries(folder: Path, name: str) -> list[Path]:
    """What lies in a folder of the system under such names; nothing where there is no such folder."""
    with suppress(OSError):
        return sorted(each for each in folder.iterdir() if re.fullmatch(name, each.name))
    return []


def _gpus() -> dict[str, str | None]:
    """NVIDIA's cards and driver, as the kernel module describes them."""
    cards = _entries(CARDS, r".+")
    driver = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", _first_line(DRIVER) or "")
    model = re.search(r"Model:\s*(.+)", _text(str(cards[0] / "information"))) if cards else None
    return {
        "gpus": str(len(cards)) if cards else None,
        "gpu": model[1].strip() if model else None,
        "driver": driver[1] if driver else None,
    }


def _adapters() -> list[str]:
    """InfiniBand and RoCE adapters with the rate of their first port."""
    found = ((each.name, _first_line(str(each / "ports/1/rate"))) for each in _entries(ADAPTERS, r"\w+"))
    return [f"{name} {rate or ''}".strip() for name, rate in found]


def _filesystem(folder: Path) -> str | None:
    """The kind of file system that a folder lies on, without its path."""
    mounts = (line.split() for line in _text(MOUNTS).splitlines())
    kinds = {each[1]: each[2] for each in mounts if len(each) > 2}
    holding = [place for place in map(str, [folder, *folder.parents]) if place in kinds]
    return kinds[holding[0]] if holding else None


def _size(folder: str) -> int | None:
    with suppress(OSError):
        return shutil.disk_usage(folder).total
    return None


def _text(path: str) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return Path(path).read_text(encoding="utf-8")
    return ""


def _first_line(path: str) -> str | None:
    return _text(path).partition("\n")[0].strip() or None
