"""Start the processes of one launch and wait for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from evals.lab.plan import RANKS, Plan, write_plan
from tools.errors import HermesError

LAUNCH_LIMIT_S = 180.0
POLL_S = 0.05
REPOSITORY = Path(__file__).resolve().parents[2]

# Memory is kept between steps: otherwise the C library hands it back to the system and the page faults of taking it
# again come and go between launches, and drown what is measured.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "1073741824"}


class LaunchError(HermesError):
    """A recorded training did not run to its end."""


@dataclass(frozen=True)
class Launched:
    """What a finished launch reported."""

    steps_ms: tuple[float, ...]  # per step, the mean over ranks
    loss: float  # of the last step, the mean over ranks
    versions: dict[str, str]


def launch(plan: Plan) -> Launched:
    """Run one launch in ``plan.folder``, which must be empty; raises LaunchError when a process fails or hangs."""
    plan_path = plan.folder / "plan.json"
    write_plan(plan, plan_path)
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, **KEEP_MEMORY, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [_start(plan_path, rank, environment) for rank in range(RANKS)]
    try:
        _wait(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for rank, process in enumerate(processes):
        if process.returncode != 0:
            raise LaunchError(f"rank {rank} of the recorded training failed: {_last_line(plan_path, rank)}")
    return _read(plan)


def _start(plan_path: Path, rank: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", "evals.lab.training", str(plan_path), str(rank)]
    with _messages(plan_path, rank).open("wb") as messages:
        return subprocess.Popen(command, env=environment, stdout=messages, stderr=messages)


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    """Return when all have ended or one has failed."""
    deadline = time.monotonic() + LAUNCH_LIMIT_S
    while any(process.poll() is None for process in processes):
        if any(process.returncode not in (None, 0) for process in processes):
            return
        if time.monotonic() > deadline:
            raise LaunchError(f"the recorded training did not end within {LAUNCH_LIMIT_S:.0f} s; is the machine busy?")
        time.sleep(POLL_S)


def _messages(plan_path: Path, rank: int) -> Path:
    return plan_path.parent / f"messages_rank{rank}.txt"


def _last_line(plan_path: Path, rank: int) -> str:
    lines = _messages(plan_path, rank).read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "it was stopped after another rank failed")


def _read(plan: Plan) -> Launched:
    walls = [[json.loads(line)["wall_ms"] for line in _lines(plan.step_log(rank))] for rank in range(RANKS)]
    summaries = [json.loads(plan.summary(rank).read_text(encoding="utf-8")) for rank in range(RANKS)]
    return Launched(
        steps_ms=tuple(sum(of_step) / RANKS for of_step in zip(*walls, strict=True)),
        loss=sum(summary["loss"] for summary in summaries) / RANKS,
        versions=summaries[0]["versions"],
    )


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
