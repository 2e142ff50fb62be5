"""Start a script as its user would, in its surroundings, and read the times of its steps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evals.lab.environment_faults.placement import REPOSITORY, surrounded
from evals.lab.environment_faults.store import ADDRESS
from evals.lab.habits.quiet_machine import alone
from evals.lab.habits.table import SCRIPTS, Entry, Start
from evals.lab.launch import LaunchError, wait

LIMIT_S = 120.0
PORT = 29517
TORCHRUN = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
NEVER_ONLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "TORCHINDUCTOR_CACHE_DIR": "compiled"}
FEWEST_STEPS = 12
BEFORE_PROFILER = 2  # steps before an active one in which the profiler prepares itself


@dataclass(frozen=True)
class Folders:
    """The folders of one launch: where the script works, its run, and the times of its steps."""

    work: Path
    run: Path
    times: Path

    @classmethod
    def below(cls, folder: Path) -> Folders:
        """Made below an empty folder."""
        made = cls(folder / "work", folder / "run", folder / "times")
        for each in (made.work, made.run, made.times):
            each.mkdir()
        return made


Launch = Callable[[Entry, Start, Folders], None]


def variables(entry: Entry, start: Start) -> dict[str, str]:
    """What the launch adds to the environment of every rank."""
    several = TORCHRUN if entry.processes > 1 else {}
    return {**NEVER_ONLINE, **several, **{k: str(v) for k, v in {**entry.environment, **start.environment}.items()}}


def launch(entry: Entry, start: Start, folders: Folders) -> None:
    """Run it once to its end; raises LaunchError when a process fails or hangs, or other programs took the cores."""
    with alone():
        _run(entry, start, folders)


def _run(entry: Entry, start: Start, folders: Folders) -> None:
    for name in (entry.script, "clock.py"):
        shutil.copy(SCRIPTS / name, folders.work)
    command = [sys.executable, "-W", "ignore", entry.script, *map(str, (*entry.arguments, *start.arguments))]
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    places = {"PYTHONPATH": path, "RUN_DIR": str(folders.run), "STEP_TIMES": str(folders.times)}
    processes: list[subprocess.Popen[bytes]] = []
    log = folders.run / "train.log"
    with log.open("ab") as output, surrounded(start.surroundings(), entry.processes, folders.work) as placements:
        try:
            for rank, placement in enumerate(placements):
                identity = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(entry.processes)}
                own = {**os.environ, **places, **(identity if entry.processes > 1 else {}), **variables(entry, start)}
                own |= placement.environment
                if ADDRESS in own:
                    own["SHARD_STORE"] = own.pop(ADDRESS)
                words = [*placement.prefix, *command]
                processes.append(
                    subprocess.Popen(words, cwd=folders.work, env=own, stdout=output, stderr=subprocess.STDOUT)
                )
            wait(processes, LIMIT_S)
            failed = [rank for rank, process in enumerate(processes) if process.poll() not in (None, 0)]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    if failed:
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        raise LaunchError(f"{entry.id}: rank {failed[0]} failed: {' | '.join(lines[-3:]) or 'it said nothing'}")


def steps_ms(entry: Entry, folders: Folders) -> list[float]:
    """Times of the measured steps in ms, the mean over ranks; raises LaunchError where too few were measured."""
    by_rank = [_measured(entry, folders.times / f"rank{rank}.txt") for rank in range(entry.processes)]
    common = sorted(set.intersection(*(set(times) for times in by_rank)))
    if len(common) < FEWEST_STEPS:
        raise LaunchError(f"{entry.id}: {len(common)} steps were measured; {FEWEST_STEPS} are needed")
    return [sum(times[step] for times in by_rank) / len(by_rank) for step in common]


def _measured(entry: Entry, file: Path) -> dict[int, float]:
    """Step times of one rank by number of the step."""
    try:
        lines = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
    except OSError as error:
        raise LaunchError(f"{entry.id}: the script wrote no step times; call clock.tick() after each step") from error
    active = {step for step, (_, flag) in enumerate(lines) if flag == "1" and not entry.profiled_steps_count}
    near = {step + by for step in active for by in range(-BEFORE_PROFILER, 2)}  # and the one that writes the trace
    return {
        step: (float(lines[step][0]) - float(lines[step - 1][0])) * 1e3
        for step in range(max(1, entry.skip), len(lines))
        if step not in near
    }
