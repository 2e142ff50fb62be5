from __future__ import annotations

import gc
import os
import platform
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermes_agent.monitor import Monitor
from hermes_agent.monitor.environment import EnvironmentWatch, interfaces, torch_flags, variables
from tests.hermes_agent.monitor.monitored import options
from tools.knowledge.tables import table
from tools.run.recorded.records import last_environment
from tools.sources.monitor.reader import read_monitor


def test_only_variables_that_matter_are_told_and_no_secrets() -> None:
    reported = variables(
        {
            "OMP_NUM_THREADS": "1",
            "NCCL_DEBUG": "INFO",
            "PYTHONMALLOC": "debug",
            "RAY_JOB_CONFIG_JSON_ENV_VAR": '{"env_vars": {"WANDB_API_KEY": "k"}}',
            "NCCL_COMM_ID": "10.0.0.1:29500",
            "HCCL_IF_IP": "10.0.0.1",
            "TORCH_HOME": "/home/alice",
            "TORCHINDUCTOR_CACHE_DIR": "/tmp/torchinductor_alice",
            "TORCH_LOGS": "x" * 1000,
            "HOME": "/home/someone",
            "LD_PRELOAD": "/opt/someone/x/libjemalloc.so.2:/usr/lib/libnuma.so",
            "RAY_API_KEY": "k",
            "RAY_ADDRESS": "10.0.0.1",
            "CUDA_TOKEN": "t",
            "NCCL_CREDENTIALS": "c",
            "RAY_PASSWORD": "p",
            "JAX_secret": "s",
        }
    )
    assert reported.pop("LD_PRELOAD") == "libjemalloc.so.2:libnuma.so"
    assert reported.pop("TORCHINDUCTOR_CACHE_DIR") == "(path)"
    assert reported == {"OMP_NUM_THREADS": "1", "NCCL_DEBUG": "INFO", "PYTHONMALLOC": "debug", "TORCH_LOGS": "x" * 200}


@pytest.mark.parametrize(
    ("value", "reported"),
    [
        ("eth0", "eth0"),
        ("=eth0:1,bond0", "=eth0:1,bond0"),
        ("10.0.0.7", "(address)"),
        ("10.0.0.7:29500", "(address)"),
        ("node1.example.com:29500", "(address)"),
        ("2001:db8::1", "(address)"),
        ("fe80:0:0:0:1:2:3:4", "(address)"),
        ("someone@node1", "(address)"),
        (":4096:8", ":4096:8"),
        (
            "max_split_size_mb:128,garbage_collection_threshold:0.6",
            "max_split_size_mb:128,garbage_collection_threshold:0.6",
        ),
        ("/home/alice", "(path)"),
        ("data/alice,x", "(path),x"),
        ("~alice", "(path)"),
        ("/home/alice/libalice", "(path)"),
    ],
)
def test_paths_and_addresses_in_values_are_not_recorded(value: str, reported: str) -> None:
    assert variables({"TORCH_LOGS": value}) == {"TORCH_LOGS": reported}


def test_every_variable_that_a_setting_is_judged_by_is_told() -> None:
    for name in table("slow_settings"):
        assert variables({name: "1"}) == {name: "1"}


def test_the_records_can_be_read_by_their_owner_only(run_folder: Path) -> None:
    with Monitor(run_folder, options=options()) as monitor:
        monitor.step()
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (run_folder / "monitor").iterdir()}
    assert modes == {0o600}


def test_the_environment_is_recorded_and_read(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    with Monitor(run_folder, rank=2, options=options()) as monitor:
        monitor.step()
    reported = last_environment(read_monitor(run_folder).environments, 2)
    assert reported is not None
    assert reported.python == platform.python_version()
    assert reported.variables["OMP_NUM_THREADS"] == "3"
    assert reported.gc_thresholds == gc.get_threshold()
    assert reported.gc_tracked_objects is not None
    assert reported.gc_tracked_objects > 100
    assert reported.allowed_cores == tuple(sorted(os.sched_getaffinity(0)))
    assert last_environment(read_monitor(run_folder).environments, 0) is None


def test_it_is_told_once_more_at_the_end_and_not_in_between() -> None:
    watch = EnvironmentWatch({})
    assert len(watch.news(1, last=False)) == 1
    assert watch.news(1, last=False) == []
    assert len(watch.news(1, last=True)) == 1


class Part(SimpleNamespace):
    """A part of torch: what is given to it, and nothing else."""


def torch_of(current: Callable[[], object], cuda: str | None = None, initialized: bool = False) -> Part:
    return Part(
        get_default_dtype=lambda: "torch.float32",
        cuda=Part(is_initialized=lambda: initialized),
        version=Part(cuda=cuda),
        accelerator=Part(current_accelerator=current),
    )


def a_driver_is_asked() -> object:
    raise AssertionError("a build for a device asks its driver")


@pytest.mark.parametrize(
    ("torch", "accelerator"),
    [
        pytest.param(torch_of(lambda: None), "none", id="built for the CPU"),
        pytest.param(torch_of(lambda: Part(type="npu")), "npu", id="another one is registered"),
        pytest.param(torch_of(a_driver_is_asked, "13.0"), "none", id="built for a device that is not in use"),
        pytest.param(torch_of(a_driver_is_asked, "13.0", True), "cuda", id="and that is"),
        pytest.param(Part(get_default_dtype=lambda: "torch.float32"), "unknown", id="an older torch"),
    ],
)
def test_the_accelerator_in_use_is_told(torch: Part, accelerator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert torch_flags()["accelerator"] == accelerator


def test_beside_a_framework_with_devices_of_its_own_torch_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch_of(lambda: None))
    monkeypatch.setitem(sys.modules, "jax", Part())
    assert torch_flags()["accelerator"] == "unknown"


def test_interfaces_are_read_without_the_loopback_and_an_unknown_speed_is_none(tmp_path: Path) -> None:
    for name, speed in (("eth0", "25000"), ("veth1", "-1"), ("lo", "1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "speed").write_text(f"{speed}\n", encoding="utf-8")
        (tmp_path / name / "mtu").write_text("1500\n", encoding="utf-8")
    assert interfaces(tmp_path) == {
        "eth0": {"speed_mbit": 25000, "mtu": 1500},
        "veth1": {"speed_mbit": None, "mtu": 1500},
    }


def test_a_run_can_hide_its_machines_name_and_its_records_hold_no_path(run_folder: Path) -> None:
    with Monitor(run_folder, options=replace(options(), host="lab")) as monitor:
        monitor.step()
    records = read_monitor(run_folder)
    assert records.ranks[0].host == "lab"
    for path in (run_folder / "monitor").iterdir():
        assert str(run_folder).encode() not in path.read_bytes()
        assert b"/dev/shm" not in path.read_bytes()
