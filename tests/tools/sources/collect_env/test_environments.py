"""Versions and limits of hosts by collect_env and env.json: what is read, what it answers, odd files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_agent.cli.commands.env import environment
from tests.tools.sources.kineto_text import rank_info, span, write_trace
from tools.analyzers.registry import check_of
from tools.errors import InputError
from tools.findings import Check
from tools.sources.collect_env.reader import read_collect_env
from tools.sources.load import load_run
from tools.views.profile import Profile

TEXT = """Collecting environment information...
PyTorch version: 2.3.0+cu121
Is debug build: False
CUDA used to build PyTorch: 12.1
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.4 LTS (x86_64)
Python version: 3.11.9 (main, Apr 6 2024, 17:59:24) [GCC 11.4.0] (64-bit runtime)
Is CUDA available: True
CUDA runtime version: Could not collect
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration:
GPU 0: NVIDIA A100-SXM4-80GB
GPU 1: NVIDIA A100-SXM4-80GB

Nvidia driver version: 535.104.05

CPU:
CPU(s):                          128
On-line CPU(s) list:             0-127
Model name:                      AMD EPYC 7763 64-Core Processor

Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] triton==2.3.0
"""


def answer(profile: Profile) -> Check:
    found = check_of(profile, "cpu.host_environment")
    assert found is not None
    return found


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_facts_have_the_lines_that_state_them(tmp_path: Path) -> None:
    own, variables = read_collect_env(written(tmp_path / "a.txt", TEXT))
    assert own.facts == {
        **{"torch": "2.3.0+cu121", "debug_build": "False", "cuda_build": "12.1", "cuda_available": "True"},
        **{"os": "Ubuntu 22.04.4 LTS (x86_64)", "driver": "535.104.05", "cores": "128", "gpus": "2"},
        **{"python": "3.11.9 (main, Apr 6 2024, 17:59:24) [GCC 11.4.0] (64-bit runtime)"},
        **{"cpu": "AMD EPYC 7763 64-Core Processor", "gpu": "NVIDIA A100-SXM4-80GB"},
        **{"numpy": "1.26.4", "triton": "2.3.0"},
    }
    lines = TEXT.split("\n")
    assert lines[own.lines["driver"] - 1].startswith("Nvidia driver")
    assert lines[own.lines["gpus"] - 1].startswith("GPU 0")
    assert variables == {"CUDA_MODULE_LOADING": "LAZY"}


def test_a_build_without_cuda_on_a_machine_with_devices_is_found_with_its_line(tmp_path: Path) -> None:
    text = TEXT.replace("Is CUDA available: True", "Is CUDA available: False")
    profile = Profile(load_run([written(tmp_path / "env.txt", text)]))
    (finding,) = answer(profile).findings
    assert (finding.cause, finding.mechanism) == ("environment_configuration", "version_mismatch")
    assert finding.details[0].names == ("env.txt, line 9",)
    sound = Profile(load_run([written(tmp_path / "sound.txt", TEXT)]))
    assert answer(sound).findings == ()
    assert answer(sound).support[0].names[0] == "2.3.0+cu121"


def test_hosts_of_different_versions(tmp_path: Path) -> None:
    written(tmp_path / "a.txt", TEXT)
    written(tmp_path / "b.txt", TEXT.replace("535.104.05", "550.54.15"))
    (finding,) = answer(Profile(load_run([tmp_path]))).findings
    assert finding.claim.names == ("driver", "535.104.05", "a.txt", "550.54.15", "b.txt")


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ({"cores": 64, "allowed": 1, "governor": "performance", "cgroup_quota": "max 100000"}, ["affinity"]),
        ({"cores": 64, "allowed": 64, "cgroup_quota": "150000 100000"}, ["cgroup_throttling"]),
        ({"cores": 64, "allowed": 64, "governor": "powersave"}, ["power_governor"]),
        ({"cores": 64, "allowed": 16, "governor": "performance"}, []),
        ({"cores": 1, "allowed": 1}, []),
        ({"cores": [1], "allowed": {"a": 1}, "governor": None}, []),
    ],
)
def test_limits_and_modes_of_env_json_are_hypotheses(
    tmp_path: Path, section: dict[str, object], found: list[str]
) -> None:
    write_trace(
        tmp_path / "rank0.json", [span("ProfilerStep#1", 0, 50), span("op", 1, 20)], distributedInfo=rank_info(0)
    )
    (tmp_path / "env.json").write_text(json.dumps({**environment({}), "cpu": section}))
    findings = answer(Profile(load_run([tmp_path]))).findings
    assert [each.mechanism for each in findings] == found
    assert all(each.confidence < 0.5 for each in findings)


def test_what_env_writes_names_no_folder_and_is_read_whole(tmp_path: Path) -> None:
    said = environment({"NCCL_DEBUG": "INFO"})
    assert str(Path.cwd()) not in json.dumps(said)
    write_trace(
        tmp_path / "rank0.json", [span("ProfilerStep#1", 0, 50), span("op", 1, 20)], distributedInfo=rank_info(0)
    )
    (tmp_path / "env.json").write_text(json.dumps(said))
    (own,) = load_run([tmp_path]).environments
    assert own.facts["cores"] == str(said["cpu"]["cores"])  # type: ignore[index]
    assert "python" in own.facts


def test_a_cut_or_empty_text_is_one_sentence(tmp_path: Path) -> None:
    path = written(tmp_path / "cut.txt", "PyTorch version: \nIs debug build: \n")
    with pytest.raises(InputError, match=r"cut\.txt"):
        load_run([path])
