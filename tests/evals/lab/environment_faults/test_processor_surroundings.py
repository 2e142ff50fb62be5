"""Each surrounding takes the processor time it says, from the ranks it says, children included."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from evals.lab.environment_faults import placement
from evals.lab.environment_faults.placement import EnvironmentFaultError, background
from evals.lab.environment_faults.processor import BoundCores, CpuQuota, ForeignLoad, PausedRank
from tests.evals.lab.environment_faults.burning import burnt, python, skip_where_missing, started

WALL_S = 1.2


def test_a_quota_holds_for_the_rank_and_its_children_together(tmp_path: Path) -> None:
    quota = CpuQuota(ranks=(1,), cores=0.4)
    skip_where_missing(quota)
    with quota.around(2, tmp_path) as (free, held):
        assert free.prefix == ()
        got = burnt(held, WALL_S, with_child=True)
    assert 0.15 < got.own + got.children < 0.55


def test_a_quota_is_written_for_version_2_as_one_line(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    with CpuQuota(ranks=(0,), cores=1.5, root=tmp_path).around(1, tmp_path):
        (made,) = tmp_path.glob(f"hermes-lab-*-{os.getpid()}-*")
        assert (made / "cpu.max").read_text() == "150000 100000"
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
        (made / "cpu.max").unlink()  # a real control group vanishes with its files
    assert not made.exists()


def test_without_control_groups_a_quota_says_what_is_missing(tmp_path: Path) -> None:
    quota = CpuQuota(ranks=(0,), cores=1, root=tmp_path)
    assert quota.missing() == "no control group hierarchy with the cpu controller is mounted"
    with pytest.raises(EnvironmentFaultError), quota.around(1, tmp_path):
        pass


def test_bound_ranks_and_their_children_share_the_named_core(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    program = (
        "import os, subprocess, sys; print(os.sched_getaffinity(0)); sys.stdout.flush();"
        "subprocess.run([sys.executable, '-c', 'import os; print(os.sched_getaffinity(0))'])"
    )
    with BoundCores(ranks=(0,), cores=(core,)).around(2, tmp_path) as (bound, free):
        assert python(bound, program).splitlines() == [f"{{{core}}}"] * 2
        assert free.prefix == ()


def test_a_core_that_the_machine_lacks_is_named() -> None:
    assert BoundCores(ranks=(0,), cores=(4095,)).missing() == "core 4095 may not be used here"


def test_foreign_processes_burn_a_core_each_and_are_no_children_of_the_training(tmp_path: Path) -> None:
    core = max(os.sched_getaffinity(0))
    with ForeignLoad(processes=2, cores=(core,)).around(1, tmp_path) as (place,):
        rank = started(place, sys.executable, "-c", "import time; time.sleep(0.8)")
        load = [each for each in psutil.Process().children() if each.name() == "encoder"]
        before = sum(sum(each.cpu_times()[:2]) for each in load)
        start = time.monotonic()
        assert psutil.Process(rank.pid).children() == []
        rank.communicate()
        used = (sum(sum(each.cpu_times()[:2]) for each in load) - before) / (time.monotonic() - start)
        assert [each.cpu_affinity() for each in load] == [[core], [core]]
    assert 0.3 < used < 1.15  # two on one core
    assert not any(each.is_running() for each in load)


def test_a_paused_rank_and_its_children_get_what_the_share_leaves(tmp_path: Path) -> None:
    with PausedRank(rank=0, share=0.6, period_ms=20).around(2, tmp_path) as (paused, free):
        assert free.prefix == ()
        got = burnt(paused, WALL_S, with_child=True)
    for share in (got.own, got.children):
        assert 0.08 < share < 0.6


def test_what_stands_still_when_the_pacer_is_killed_is_ended_with_the_pauses(tmp_path: Path) -> None:
    program = "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    with PausedRank(rank=0, share=0.5, period_ms=50).around(1, tmp_path) as (paused,):
        (pacer,) = (
            each for each in psutil.Process().children() if "evals.lab.environment_faults.programs" in each.cmdline()
        )
        rank = started(paused, sys.executable, "-c", program)
        assert rank.stdout is not None
        worker = psutil.Process(int(rank.stdout.readline()))
        pacer.kill()
        pacer.wait(5)
        rank.kill()
        rank.wait(5)
        rank.stdout.close()
        os.killpg(rank.pid, signal.SIGSTOP)
        assert _becomes(worker, psutil.STATUS_STOPPED)
    assert _becomes(worker, psutil.STATUS_ZOMBIE)


def test_a_program_that_never_gets_ready_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "READY_LIMIT_S", 0.3)
    begun = time.monotonic()
    with (
        pytest.raises(EnvironmentFaultError, match="did not start"),
        background("busy", "", prefix=(sys.executable, "-c", "import time; time.sleep(60)")),
    ):
        pass
    assert time.monotonic() - begun < 10


def _becomes(process: psutil.Process, status: str) -> bool:
    """Whether it soon is so, or gone where it is to end."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not process.is_running():
            return status == psutil.STATUS_ZOMBIE
        if process.status() == status:
            return True
        time.sleep(0.01)
    return False
