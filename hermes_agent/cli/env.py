"""``hermes-dx env``: the environment of this machine, to be kept beside a trace."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping

NAME = "env"
HELP = "print this machine's environment as JSON, to be kept as env.json beside a trace"

# Variables that change how training runs; no others are written, so that no secret is.
PREFIXES = (
    "ASCEND_",
    "CUDA_",
    "CUDNN_",
    "FI_",
    "GLOO_",
    "GOMP_",
    "HCCL_",
    "HIP_",
    "HSA_",
    "KMP_",
    "MKL_",
    "NCCL_",
    "OMP_",
    "OPENBLAS_",
    "PYTORCH_",
    "RCCL_",
    "ROCR_",
    "TORCH_",
    "TORCHINDUCTOR_",
    "UCX_",
)
SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL")
PACKAGES = (
    "torch",
    "torchvision",
    "torch-npu",
    "triton",
    "deepspeed",
    "lightning",
    "transformers",
    "accelerate",
    "numpy",
)
GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
QUOTA = "/sys/fs/cgroup/cpu.max"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``env`` takes none."""


def run(args: argparse.Namespace) -> int:
    """Prints the environment."""
    import json

    print(json.dumps(environment(os.environ), indent=2))
    return 0


def environment(variables: Mapping[str, str]) -> dict[str, object]:
    """Settings, versions and limits that bear on speed; no host name, user or path list."""
    import platform

    return {
        "schema": "hermes-dx/env/1",
        "variables": {name: value for name, value in sorted(variables.items()) if _telling(name)},
        "versions": {"python": platform.python_version(), **_versions()},
        "cpu": {
            "cores": os.cpu_count(),
            "allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            "governor": _first_line(GOVERNOR),
            "cgroup_quota": _first_line(QUOTA),
        },
        "system": platform.system(),
    }


def _telling(name: str) -> bool:
    return name.startswith(PREFIXES) and not any(word in name for word in SECRET)


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _first_line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a system file, not a path of the user's
            return file.readline().strip()
    except OSError:
        return None
