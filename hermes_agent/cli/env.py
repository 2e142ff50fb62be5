"""Print this machine's environment as JSON, to be stored as env.json with a trace."""

from __future__ import annotations

import argparse
import os
import re
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
        },
        "system": platform.system(),
    }


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _first_line(path: str) -> str | None:
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8").partition("\n")[0].strip()
    return None
