"""Start the processes of one launch in their environment faults and wait for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from evals.lab.environment_faults.placement import Placement, surrounded
from evals.lab.scenarios import Plan, Scenario, write_plan
from tools.errors import HermesError

LAUNCH_LIMIT_S = 90.0
POLL_S = 0.05
REPOSITORY = Path(__file__).resolve().parents[2]

# Memory is kept between steps: otherwise the C library hands it back to the system and the page faults of taking it
# again come and go between launches, and drown what is measured.
KEEP_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1073741824", "MALLOC_MMAP_THRESHOLD_": "1073741824"}
USUAL = {
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCHINDUCTOR_CACHE_DIR": "compiled",  # below the launch's folder; torch's own choice holds the user's name
}


class LaunchError(HermesError):
    """A recorded training did not run to its end."""


@dataclass(frozen=True)
class Launched:
    """The report of a finished launch."""

    steps_ms: tuple[float, ...]  # per step, the mean over ranks
    loss: float  # of the last step, the mean over ranks
    versions: dict[str, str]


Launch = Callable[[Scenario, Plan], Launched]


def launch(scenario: Scenario, plan: Plan) -> Launched:
    """Run one launch in ``plan.folder``, which must be empty; raises LaunchError when a process fails or hangs."""
    plan_path = plan.folder / "plan.json"
    plan.run.mkdir()
    write_plan(plan, plan_path)
    with surrounded(scenario.environment_faults, plan.ranks, plan.folder) as placements:
        _run(plan, plan_path, placements, dict(scenario.environment))
    texts = [plan.step_log(rank).read_text(encoding="utf-8") for rank in range(plan.ranks)]
    walls = [[json.loads(line)["wall_ms"] for line in text.splitlines()] for text in texts]
    summaries = [json.loads(plan.summary(rank).read_text(encoding="utf-8")) for rank in range(plan.ranks)]
    return Launched(
        steps_ms=tuple(fmean(of_step) for of_step in zip(*walls, strict=True)),
        loss=fmean(summary["loss"] for summary in summaries),
        versions=summaries[0]["versions"],
    )


def _run(plan: Plan, plan_path: Path, placements: Sequence[Placement], own: dict[str, str]) -> None:
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank, placement in enumerate(placements):
            processes.append(_start(plan, plan_path, rank, placement, own))
        wait(processes, LAUNCH_LIMIT_S)
        failed = [rank for rank, process in enumerate(processes) if process.poll() not in (None, 0)]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for rank in failed:
        lines = plan.messages(rank).read_text(encoding="utf-8", errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        raise LaunchError(f"rank {rank} of the recorded training failed: {last}")


def _start(
    plan: Plan, plan_path: Path, rank: int, placement: Placement, own: dict[str, str]
) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    threads = {"OMP_NUM_THREADS": str(plan.training.program.threads)}
    identity = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(plan.ranks)}
    usual = {**os.environ, **KEEP_MEMORY, **threads, **identity, "PYTHONPATH": path, **USUAL}
    command = [*placement.prefix, sys.executable, "-W", "ignore", "-m", "evals.lab.training", str(plan_path), str(rank)]
    with plan.messages(rank).open("wb") as messages:
        return subprocess.Popen(
            command, cwd=plan.folder, env={**usual, **own, **placement.environment}, stdout=messages, stderr=messages
        )


def wait(processes: Sequence[subprocess.Popen[bytes]], limit_s: float) -> None:
    """Return when all have ended or one has failed; raises LaunchError after ``limit_s``."""
    deadline = time.monotonic() + limit_s
    while any(process.poll() is None for process in processes):
        if any(process.returncode not in (None, 0) for process in processes):
            return
        if time.monotonic() > deadline:
            raise LaunchError(f"the recorded training did not end within {limit_s:.0f} s; is the machine busy?")
        time.sleep(POLL_S)
