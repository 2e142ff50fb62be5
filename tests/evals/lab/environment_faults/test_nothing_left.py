"""After an error, Ctrl+C or a kill, nothing of what surrounded a training remains."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from evals.lab.environment_faults.network import LinkedHosts
from evals.lab.environment_faults.placement import (
    REPOSITORY,
    EnvironmentFault,
    EnvironmentFaultError,
    all_missing,
    is_abandoned,
    run,
    surrounded,
)
from evals.lab.environment_faults.placement import mark as mark_of
from evals.lab.environment_faults.processor import ROOT, CpuQuota, ForeignLoad, PausedRank, remove
from evals.lab.environment_faults.store import SlowStore

EVERYTHING: tuple[EnvironmentFault, ...] = (
    CpuQuota(ranks=(0,), cores=0.5),
    ForeignLoad(processes=1),
    PausedRank(rank=1, share=0.5),
    SlowStore(mbyte_per_s=10),
    LinkedHosts(100, slow_rate_mbit=10, use="slow", loss_pct=1, other_traffic_mbit=10),
)
HOLDING = """
import signal, subprocess, sys, time
from pathlib import Path
from evals.lab.environment_faults.placement import surrounded
from tests.evals.lab.environment_faults.test_nothing_left import EVERYTHING
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell starts with it ignored
with surrounded(EVERYTHING, 2, Path(sys.argv[1])) as placements:
    ranks = [subprocess.Popen([*each.prefix, "sleep", "300"]) for each in placements]
    time.sleep(0.3)
    print("holding", flush=True)
    time.sleep(300)
"""
GONE_LIMIT_S = 8.0


@pytest.fixture
def everything() -> tuple[EnvironmentFault, ...]:
    reason = all_missing(EVERYTHING)
    if reason:
        pytest.skip(f"not permitted here: {reason}")
    return EVERYTHING


def holding(folder: Path) -> subprocess.Popen[str]:
    """A process that has set up everything and started two ranks in it."""
    command = [sys.executable, "-c", HOLDING, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
    assert process.stdout is not None
    assert process.stdout.readline() == "holding\n"
    return process


def remains(pid: int) -> list[str]:
    """Namespaces and control groups that carry ``pid`` in their name."""
    mark = mark_of(pid).rsplit("-", 2)[0] + "-"  # the start of one that is gone is not known
    namespaces = [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line.startswith(mark)]
    groups = [str(path) for base in (ROOT, ROOT / "cpu") for path in base.glob(f"{mark}*")]
    return namespaces + groups + [str(path) for path in Path(tempfile.gettempdir()).glob(f"{mark}*")]


def end_of(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run after a while."""
    return psutil.wait_procs(processes, timeout=GONE_LIMIT_S)[1]


def test_ctrl_c_leaves_no_process_namespace_group_or_socket(
    everything: tuple[EnvironmentFault, ...], tmp_path: Path
) -> None:
    process = holding(tmp_path)
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) == 7  # 2 ranks, 1 load, 1 pauser, 1 store, 2 ends of the other job
    assert len(remains(process.pid)) == 5  # 2 hosts, 1 group, 2 folders
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in complaint
    assert remains(process.pid) == []
    assert [each for each in end_of(started) if each.status() != psutil.STATUS_ZOMBIE] == []


def test_an_error_inside_leaves_nothing(everything: tuple[EnvironmentFault, ...], tmp_path: Path) -> None:
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    with pytest.raises(ZeroDivisionError), surrounded(everything, 2, tmp_path):
        raise ZeroDivisionError
    assert {each.pid for each in psutil.Process().children(recursive=True)} <= before
    assert remains(psutil.Process().pid) == []


def test_what_a_killed_process_leaves_is_removed_by_the_next(
    everything: tuple[EnvironmentFault, ...], tmp_path: Path
) -> None:
    process = holding(tmp_path)
    children = psutil.Process(process.pid).children()
    process.kill()
    process.wait(10)
    assert [each for each in end_of(children) if each.name() != "sleep"] == []  # the ranks, by now, are sleeping
    assert remains(process.pid) != []
    with surrounded(everything, 2, tmp_path):
        pass
    assert remains(process.pid) == []


def test_only_names_with_the_id_of_a_process_that_is_gone_are_abandoned() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert is_abandoned(f"{mark_of(gone.pid)}0")
    own = psutil.Process().pid
    assert not is_abandoned(f"{mark_of(own)}0-host1")
    _, _, namespace, number, start, _ = mark_of(own).split("-")
    assert is_abandoned(f"hermes-lab-{namespace}-{number}-{int(start, 16) - 1:x}-0")  # its number was given again
    assert not is_abandoned(f"hermes-lab-1{namespace}-{gone.pid}-0-0")  # of another container
    assert not is_abandoned("hermes-lab-other")
    assert not is_abandoned(f"hermes-lab-{gone.pid}-0")


@pytest.mark.parametrize("members", ["0\n", "1\n"])
def test_a_control_group_with_what_is_not_of_the_lab_is_refused_and_nothing_killed(
    tmp_path: Path, members: str
) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "cgroup.procs").write_text(f"{bystander.pid}\n{members}", encoding="ascii")
        with pytest.raises(EnvironmentFaultError, match="not the lab's"):
            remove(tmp_path)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
