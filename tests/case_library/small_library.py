"""A library of nine made-up cases, so that tests of search do not depend on which cases are bundled."""

from __future__ import annotations

from pathlib import Path

from tests.case_library.own_cases import public_fields, put

SMALL: dict[str, dict[str, object]] = {
    "item-sync": {
        "title": "loss.item() in every step makes the host wait",
        "symptom": "GPU idles 45 ms of each 120 ms step.",
        "signals": ["cudaStreamSynchronize 40-50 ms every step", "loss.item() after each backward"],
        "cause": "operator_dispatch",
        "mechanism": "host_synchronization",
    },
    "metrics-sync": {
        "title": "Logging metrics copies scalars to the host each step",
        "symptom": "Host blocks on small device to host copies.",
        "signals": ["many cudaMemcpyDtoH of 4 bytes", "cudaStreamSynchronize between launches"],
        "cause": "operator_dispatch",
        "mechanism": "host_synchronization",
    },
    "tiny-kernels": {
        "title": "Optimizer launches thousands of tiny kernels",
        "symptom": "Adam takes longer than the backward pass.",
        "signals": ["cudaLaunchKernel dominates host time", "kernels of 3 microseconds"],
        "cause": "operator_dispatch",
        "mechanism": None,
    },
    "gc-pauses": {
        "title": "Garbage collection pauses ranks at different steps",
        "symptom": "Some steps take 700 ms longer on one rank.",
        "signals": ["gen-2 collection inside the step"],
        "cause": "garbage_collection",
        "mechanism": None,
        "setting": {"framework": "jax", "hardware": "TPU v4", "scale": "64 chips", "model": "unknown"},
    },
    "loader-workers": {
        "title": "DataLoader with num_workers=0 starves the GPU",
        "symptom": "GPU idle between steps while the main process decodes images.",
        "signals": ["num_workers=0", "JPEG decoding in the main process"],
        "family": "io",
        "cause": "slow_data_processing",
        "mechanism": "too_few_workers",
    },
    "loader-transform": {
        "title": "Heavy augmentation saturates the loader's cores",
        "symptom": "All cores at 100% in transforms, GPU at 40%.",
        "signals": ["worker CPU saturated in resize"],
        "family": "io",
        "cause": "slow_data_processing",
        "mechanism": "heavy_transform",
    },
    "nfs-reads": {
        "title": "Dataset on NFS: every read waits for the server",
        "symptom": "Step time follows the read latency of the mount.",
        "signals": ["iowait high", "reads on a remote mount"],
        "family": "io",
        "cause": "slow_data_reading",
        "mechanism": None,
    },
    "socket-fallback": {
        "title": "NCCL falls back to sockets after an image change",
        "symptom": "All-reduce at 1 GB/s instead of 40.",
        "signals": ["NET/Socket in the NCCL log", "GPUDirect RDMA disabled"],
        "family": "communication",
        "cause": "network_configuration",
        "mechanism": "socket_fallback",
    },
    "moe-hot-expert": {
        "title": "One hot expert holds up the all-to-all",
        "symptom": "Tokens per expert differ sixfold.",
        "signals": ["all-to-all waits follow expert load"],
        "family": "communication",
        "cause": "moe_imbalance",
        "mechanism": None,
    },
}


def write_small_library(folder: Path) -> Path:
    """Writes the cases and returns the folder."""
    common = {"diagnosis": "Found in a trace.", "optimization": "Changed.", "effect": "Gone."}
    for name, fields in SMALL.items():
        put(folder, public_fields(name, **{**common, **fields}))
    return folder
