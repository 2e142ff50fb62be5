"""Reads the text that ``python -m torch.utils.collect_env`` prints."""

from __future__ import annotations

import re
from pathlib import Path

from tools.errors import InputError
from tools.run.recorded.environment import HostEnvironment
from tools.run.secrets import without_secrets
from tools.sources.decompress import beginning

LARGEST_BYTES = 1 << 20
LONGEST_VALUE = 200
LOOKED_AT_BYTES = 16_384
MARKS = (b"PyTorch version:", b"Is debug build:")
# The words of torch/utils/collect_env.py, and of lscpu, which it prints.
FACTS = {
    "PyTorch version": "torch",
    "Is debug build": "debug_build",
    "CUDA used to build PyTorch": "cuda_build",
    "ROCM used to build PyTorch": "rocm_build",
    "OS": "os",
    "Python version": "python",
    "Is CUDA available": "cuda_available",
    "CUDA runtime version": "cuda_runtime",
    "Nvidia driver version": "driver",
    "cuDNN version": "cudnn",
    "HIP runtime version": "hip_runtime",
    "CPU(s)": "cores",
    "Model name": "cpu",
    "Socket(s)": "sockets",
    "NUMA node(s)": "numa_nodes",
}
LINE = re.compile(r"(?P<name>[A-Za-z][\w() /.-]{0,60}?)\s*(?:set to)?:\s*(?P<value>.+)\Z")
GPU = re.compile(r"(?:GPU )?(?P<index>\d{1,3}): (?P<model>.+)\Z")
PACKAGE = re.compile(r"\[(?:pip3?|conda)\] (?P<name>[\w.-]{1,60})(?:==|\s+)(?P<version>[\w.+!-]{1,60})")
PACKAGES = (
    *("torchvision", "triton", "deepspeed", "lightning", "pytorch-lightning", "transformers", "accelerate"),
    *("numpy", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12"),
)
MODELS = "GPU models and configuration:"
ABSENT = ("N/A", "Could not collect", "No CUDA")
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*_[A-Z0-9_]+\Z")


def is_collect_env(path: Path) -> bool:
    """Whether a text holds what collect_env prints first; False as well where it cannot be read."""
    try:
        start = bytes(beginning(path, LOOKED_AT_BYTES).data)
    except OSError:
        return False
    return all(mark in start for mark in MARKS)


def read_collect_env(path: Path) -> tuple[HostEnvironment, dict[str, str]]:
    """The facts, and environment variables that the text states; InputError where there are none."""
    try:
        data = bytes(beginning(path, LARGEST_BYTES).data)
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror or error})") from error
    facts: dict[str, str] = {}
    lines: dict[str, int] = {}
    variables: dict[str, str] = {}
    models: dict[int, str] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
        text = line.strip()[: 2 * LONGEST_VALUE]
        text = text.removeprefix(MODELS).lstrip()  # as logs print it, the first one in the line of the title
        if (gpu := GPU.match(text)) and text.startswith("GPU "):
            models.setdefault(int(gpu["index"]), gpu["model"][:LONGEST_VALUE])
            lines.setdefault("gpus", number)
            continue
        if package := PACKAGE.match(text):
            name, value = package["name"].lower(), package["version"]
            name = name if name in PACKAGES else ""
        elif said := LINE.match(text):
            value = said["value"].strip()
            if VARIABLE.match(said["name"]):
                variables.setdefault(said["name"], value[:LONGEST_VALUE])
            name = FACTS.get(said["name"], "")
        else:
            continue
        if name and name not in facts and not value.startswith(ABSENT):
            facts[name], lines[name] = value[:LONGEST_VALUE], number
    if models:
        facts |= {"gpus": str(len(models)), "gpu": models[min(models)]}
    if "torch" not in facts:
        raise InputError(f"{path.name}: holds no version of PyTorch; run `python -m torch.utils.collect_env` again")
    return HostEnvironment(path.name, facts, lines), dict(without_secrets(variables))
