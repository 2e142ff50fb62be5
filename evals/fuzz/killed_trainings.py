"""Monitored trainings that are killed at random moments: their records stay readable, and the next start is right.

``python -m evals.fuzz.killed_trainings --kills 30 --seed 1``. Each training (without torch) records steps and writes
captures that the agent requests; it is killed with SIGKILL between its start and its end. How many steps it had
recorded by then it says in a file of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.capture import CaptureLimits
from hermes_agent.monitor.flush import FlushPlan
from hermes_agent.monitor.session import Monitor, Options
from hermes_agent.watch.agent import AgentOptions, NodeAgent
from hermes_agent.watch.ring_reader import RingReader
from hermes_agent.watch.rings import CaptureRequests, RequestLimits, RunRings, is_abandoned, recover
from tools.errors import InputError
from tools.run.recorded.records import MonitorRecords
from tools.sources.monitor.reader import read_monitor

STEPS = 600
NEXT_STEPS = 25
STEP_S = 0.002
LONGEST_S = 1.3  # from where the monitor starts to the kill: some hundred steps
START_S = 120.0  # what a busy machine may take to start Python
ASK_EVERY_S = 0.15
COUNT = struct.Struct("<q")
TRACE = "steps "


class WordProfiler:
    """Writes the numbers of the steps it saw, slowly, so that a kill may come in the middle."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def start(self, first_step: int, steps: int) -> None:
        """Begin."""
        self.seen.append(first_step)

    def step(self) -> None:
        """Mark a step."""
        self.seen.append(self.seen[-1] + 1)

    def stop(self) -> None:
        """End."""

    def export(self, path: Path) -> None:
        """Write a line for each step, many times over."""
        with path.open("w", encoding="utf-8") as file:
            for _ in range(20_000):
                file.write(TRACE + " ".join(map(str, self.seen)) + "\n")
            file.write("end\n")


def train(folder: Path, count: Path, steps: int) -> None:
    """Record steps, and after each its number in a file."""
    limits = CaptureLimits(captures=1000)
    options = Options(capacity=4096, plan=FlushPlan(flush_s=0.03, sample_s=0.1), limits=limits, profiler=WordProfiler)
    handle = os.open(count, os.O_WRONLY | os.O_CREAT)
    with Monitor(folder, rank=0, options=options) as monitor:
        for step in range(steps):
            time.sleep(STEP_S)
            monitor.step()
            os.pwrite(handle, COUNT.pack(step + 1), 0)


@dataclass(frozen=True)
class Killed:
    """What a kill left, and what is wrong with it."""

    recorded: int
    read: int
    recovered: int
    captures: int
    wrong: tuple[str, ...]


def kill_one(folder: Path, count: Path, moment_s: float) -> Killed:
    """Start a training in the folder, watch it, kill it at the moment, and look at what it left."""
    count.unlink(missing_ok=True)
    before = _rows(folder)
    earlier = set(folder.glob("monitor/*.steps"))
    command = [sys.executable, "-m", "evals.fuzz.killed_trainings", "--train", str(folder), "--count", str(count)]
    process = subprocess.Popen(command)
    patience_s = time.monotonic() + START_S
    while not count.exists() and process.poll() is None and time.monotonic() < patience_s:
        time.sleep(0.001)
    deadline_s, next_s = time.monotonic() + moment_s, 0.0
    agent, rings = NodeAgent(folder, AgentOptions(foreign=lambda _: ())), RunRings(folder)
    while (now_s := time.monotonic()) < deadline_s and process.poll() is None:
        agent.poll()
        if now_s >= next_s:
            next_s = now_s + ASK_EVERY_S
            rings.refresh()
            if rings.ranks():
                CaptureRequests(folder, rings, RequestLimits()).by_hand(rings.ranks(), 2, -1)
        time.sleep(min(0.005, max(deadline_s - now_s, 0.0)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    recorded = COUNT.unpack(data)[0] if count.exists() and len(data := count.read_bytes()) == COUNT.size else 0
    new = set(folder.glob("monitor/*.steps")) - earlier
    wrong: list[str] = []
    after = _rows(folder)
    read = after - before
    if not recorded <= read <= recorded + 1:  # the step after the last one counted may be recorded as well
        wrong.append(f"{recorded} steps were recorded, {read} can be read")
    recovered = _recovered(folder, wrong)
    if _rows(folder) != after:
        wrong.append(f"{after} steps before the ring was taken over, {_rows(folder)} afterwards")
    if len(new) > 1:
        wrong.append(f"one start made {len(new)} step files")
    captures = _captures(folder, wrong)
    return Killed(recorded, read, recovered, captures, tuple(wrong))


def _rows(folder: Path) -> int:
    """The number of steps of all starts; each start's must be numbered without a gap, and take some time."""
    try:
        records = read_monitor(folder)
    except InputError:
        return 0  # killed before it wrote anything
    if wrong := _wrong_rows(records):
        raise AssertionError(wrong)
    return len(records.steps)


def _wrong_rows(records: MonitorRecords) -> str:
    for (rank, attempt), own in records.steps.groupby(["rank", "attempt"]):
        if not np.array_equal(own["step"].to_numpy(), np.arange(len(own))):
            return f"the steps of rank {rank}, start {attempt}, are not numbered from 0 without a gap"
        if not (own["wall_ms"] > 0).all() or not (np.diff(own["end_unix_ns"]) > 0).all():
            return f"a step of rank {rank}, start {attempt}, took no time"
    lost = [each for each in records.ranks if each.lost_steps]
    return f"{len(lost)} starts lost steps" if lost else ""


def _recovered(folder: Path, wrong: list[str]) -> int:
    """Take over what the rings hold, as an agent does when the rank has been silent for ten seconds."""
    count = 0
    for place in layout.ring_folders(folder):
        for path in place.glob(f"*{layout.RING}"):
            if not path.stat().st_size:
                path.unlink()  # killed while it was made: nothing was recorded yet
                continue
            ring = RingReader(path)
            if not is_abandoned(ring):
                wrong.append("the ring of a killed process is not taken for abandoned")
            count += recover(ring, folder)
            ring.close()
            if path.exists():
                wrong.append(f"{path.name} was not removed")
    return count


def _captures(folder: Path, wrong: list[str]) -> int:
    traces = list(folder.glob("capture-*/rank*.gz"))
    for trace in traces:
        lines = trace.read_text(encoding="utf-8").splitlines()
        if len(lines) != 20_001 or lines[-1] != "end" or not lines[0].startswith(TRACE):
            wrong.append(f"{trace.relative_to(folder)} is written by half")
    return len(traces)


def next_start(folder: Path, count: Path) -> str:
    """Train to the end in the folder of the killed ones; what is wrong with its records, "" when they are right."""
    before = len(read_monitor(folder).ranks) if list(folder.glob("monitor/*.steps")) and _rows(folder) else 0
    train(folder, count, NEXT_STEPS)
    records = read_monitor(folder)
    last = max(records.ranks, key=lambda each: each.attempt)
    if (last.steps, last.lost_steps, last.ended_in_order) != (NEXT_STEPS, 0, True):
        return f"the next start has {last.steps} steps of {NEXT_STEPS}, ended in order: {last.ended_in_order}"
    return "" if len(records.ranks) >= before + 1 else "an earlier start is not read any more"


def main(argv: Sequence[str] | None = None) -> int:
    """Kill so many trainings; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m evals.fuzz.killed_trainings", description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.train:
        train(args.train, args.count, STEPS)
        return 0
    chance = random.Random(args.seed)
    place = Path(tempfile.mkdtemp(prefix="hermes-dx-kills-"))
    folder, failures, all_killed = place / "run", 0, []
    try:
        for number in range(args.kills):
            moment_s = chance.uniform(0.0, LONGEST_S)
            killed = kill_one(folder, place / "count", moment_s)
            all_killed.append(killed)
            for wrong in killed.wrong:
                failures += 1
                print(f"seed {args.seed}, kill {number + 1} after {moment_s:.3f} s: {wrong}", file=sys.stderr)
        if wrong := next_start(folder, place / "count"):
            failures += 1
            print(wrong, file=sys.stderr)
    finally:
        shutil.rmtree(layout.ring_folders(folder)[0], ignore_errors=True)
        shutil.rmtree(place, ignore_errors=True)
    begun, read = sum(each.recorded > 0 for each in all_killed), sum(each.read for each in all_killed)
    print(
        f"killed_trainings: {len(all_killed)} kills (seed {args.seed}), {failures} failures; {begun} after the first "
        f"step; {read} steps recorded and read, {sum(each.recovered for each in all_killed)} of them from rings; "
        f"{max((each.captures for each in all_killed), default=0)} whole captures"
    )
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
