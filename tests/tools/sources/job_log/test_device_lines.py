"""Lines that say on which device the training runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read

STEPS = "".join(f"step {step} time 100 ms\n" for step in range(20))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Training on cpu, 5 epochs", "trains_on_cpu"),
        ("Running training on the CPU", "trains_on_cpu"),
        ("INFO device=cpu dtype=float32", "trains_on_cpu"),
        ("Device: cpu", "trains_on_cpu"),
        ("device = torch.device('cpu')", "trains_on_cpu"),
        ("Using device: cpu", "trains_on_cpu"),
        ("W Fallback.cpp:9: Running the training on the CPU", "trains_on_cpu"),
        (
            "Warning: The operator 'aten::bin.out' is not currently supported on the NPU backend and will fall back to"
            " run on the CPU.",
            "operator_on_cpu",
        ),
        ("GPU available: True (cuda), used: False", "accelerator_unused"),
        ("slurmstepd-n1: error: *** JOB 12 ON n1 CANCELLED AT 2024-01-02T03:04:05 DUE TO TIME LIMIT ***", "time_limit"),
        ("[rank: 2] Received SIGTERM: 15", "terminated"),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Terminated. ", "terminated"),
        (
            "a/b.py:9: UserWarning: Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider",
            "slow_tensors",
        ),
        (
            "WARNING: constraints for invoking optimized fused softmax kernel are not met. We default back to unfused"
            " kernel invocations.",
            "unfused_softmax",
        ),
        (
            "You are using a CUDA device ('GPU 1') that has Tensor Cores. To properly utilize them, you should set"
            " `torch.set_float32_matmul_precision('medium' | 'high')` which will trade-off precision for performance.",
            "float32_precision",
        ),
        ("`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.", "cache_off"),
    ],
)
def test_a_line_that_names_the_cpu_as_the_device_is_kept_with_its_number(tmp_path: Path, line: str, kind: str) -> None:
    (found,) = read(tmp_path, f"start\n{line}\n{STEPS}").warnings
    assert (found.kind, found.count, found.first_line) == (kind, 1, 2)


@pytest.mark.parametrize(
    "line",
    [
        "Using CPU offload for the optimizer",
        "device=cuda:0",
        "Device: NVIDIA A100, host cpu cores 64",
        "GPU available: True (cuda), used: True",
        "Loading checkpoint on cpu",
        "Training on 8 GPUs, data on cpu",
        '    self.rate = torch.tensor(0.0, dtype=torch.float32, device="cpu")',
        'def load(path, device="cpu"):',
        "offload_optimizer ............ OffloadOptimizerConfig(device='cpu', ratio=1.0)",
        '        "device": "cpu",',
        "state = torch.load(path, map_location=device).to(device='cpu')",
        "# device = 'cpu'  # run on cpu only",
        "compile = False  # on laptops use device='cpu'",
    ],
)
def test_other_lines_that_name_a_cpu_are_not(tmp_path: Path, line: str) -> None:
    assert not read(tmp_path, f"start\n{line}\n{STEPS}").warnings


def test_what_a_printed_configuration_has_commented_out_is_no_setting(tmp_path: Path) -> None:
    log = read(tmp_path, f"# world_size = 4\nworld_size = 8\n{STEPS}")
    assert log.settings["world_size"].value == "8"
