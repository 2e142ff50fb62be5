"""Kills a cold diagnosis and the building of the case index at random moments, and looks at what the next one finds.

``python -m evals.fuzz.interruptions [--kills N] [--seed S] [RUN]``. After every kill: no process of it is left a moment
later, the next diagnosis is the same JSON as an undisturbed one, and nothing half-written lies in the cache or in the
temporary folder. Exits with 1 and names each kill after which that does not hold.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from hermes_agent.demo.data import demo_run

PROGRAM = (sys.executable, "-m", "hermes_agent.cli.main")
SEARCH = ("cases", "search", "loader is slow", "--json")  # builds the case index where there is none
MOMENT_S = 2.0  # in which the workers of a killed process have to end
LIMIT_S = 600.0
UNDISTURBED = 2  # runs, of which the shorter tells in which time to kill: other programs may hold one up
HALF_WRITTEN = (".part", ".hermes-dx-part-")


@dataclass(frozen=True)
class Setting:
    """A cache and a temporary folder of their own for some commands."""

    folder: Path

    @property
    def cache(self) -> Path:
        """The cache, empty at first."""
        return self.folder / "cache"

    @property
    def temporary(self) -> Path:
        """The system's temporary folder for these commands."""
        return self.folder / "tmp"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of the commands: no configuration of the user's, and workers even for small traces."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("HERMES_DX_")}
        folders = {"HERMES_DX_CACHE_DIR": str(self.cache), "TMPDIR": str(self.temporary)}
        return own | folders | {"XDG_CONFIG_HOME": str(self.folder / "config")}

    def start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command as the leader of a process group, which a worker of it belongs to."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        silent = subprocess.DEVNULL
        return subprocess.Popen(
            [*PROGRAM, *words], env=self.environment, stdin=silent, stdout=silent, stderr=silent, start_new_session=True
        )

    def answer(self, words: Sequence[str]) -> bytes:
        """Return the standard output of a command that runs to its end."""
        self.temporary.mkdir(parents=True, exist_ok=True)
        command = [*PROGRAM, *words]
        return subprocess.run(command, env=self.environment, capture_output=True, timeout=LIMIT_S, check=True).stdout

    def half_written(self) -> list[str]:
        """Return the names of what somebody began to write and did not finish."""
        found = (path.relative_to(self.folder) for top in (self.cache, self.temporary) for path in top.rglob("*"))
        return sorted(
            str(path) for path in found if path.name.endswith(HALF_WRITTEN[0]) or HALF_WRITTEN[1] in str(path)
        )


def members(group: int) -> list[psutil.Process]:
    """Return the living processes of a group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def outlived_s(group: int) -> float:
    """Return the seconds until no process of a group is left; infinity where one stays longer than a moment."""
    begun = time.monotonic()
    while members(group):
        if time.monotonic() - begun > MOMENT_S:
            for process in members(group):
                process.kill()
            return float("inf")
        time.sleep(0.01)
    return time.monotonic() - begun


@dataclass(frozen=True)
class Kill:
    """What came of one kill; ``faults`` is empty where all was right."""

    after_s: float
    ended_before: bool
    workers: int  # processes besides the killed one at the moment of the kill
    outlived_s: float
    left: int  # half-written files and folders right after the kill
    faults: tuple[str, ...]


def killed(setting: Setting, words: Sequence[str], after_s: float, expected: bytes) -> Kill:
    """Kill one command after some seconds, run it again to its end and compare its answer."""
    process = setting.start(words)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        workers = len(members(process.pid)) - 1
        process.send_signal(signal.SIGKILL)
        ended = False
    else:
        workers, ended = 0, True
    process.wait()
    outlived = outlived_s(process.pid)
    left = len(setting.half_written())
    faults = [] if outlived < MOMENT_S else ["a worker outlived its parent"]
    try:
        if setting.answer(words) != expected:
            faults.append("the next answer differs")
    except subprocess.CalledProcessError as error:
        faults.append(f"the next run ended with {error.returncode}: {error.stderr.decode(errors='replace')[-300:]}")
    faults += [f"half-written: {name}" for name in setting.half_written()]
    return Kill(after_s, ended, max(workers, 0), outlived, left, tuple(faults))


def kills(words: Sequence[str], number: int, seed: int, tell: Callable[[str], None] = print) -> list[Kill]:
    """Kill a command at so many moments, spread over its undisturbed time, each time with an empty cache."""
    chosen = random.Random(seed)
    found = []
    with tempfile.TemporaryDirectory(prefix="interruptions-") as folder:
        expected, whole_s = b"", float("inf")
        for turn in range(UNDISTURBED):
            begun = time.monotonic()
            expected = Setting(Path(folder) / f"undisturbed{turn}").answer(words)
            whole_s = min(whole_s, time.monotonic() - begun)
        for turn in range(number):
            setting = Setting(Path(folder) / "killed")
            found.append(killed(setting, words, chosen.uniform(0.0, whole_s), expected))
            for fault in found[-1].faults:
                tell(f"kill {turn} after {found[-1].after_s:.3f} s: {fault}")
            shutil.rmtree(setting.folder)
    return found


def summary(name: str, found: Sequence[Kill]) -> str:
    """Return one line about the kills of a command."""
    outlived = max((each.outlived_s for each in found), default=0.0)
    counts = Counter(
        {
            "before its end": sum(not each.ended_before for each in found),
            "with workers": sum(each.workers > 0 for each in found),
            "that left something half-written": sum(each.left > 0 for each in found),
            "with a fault": sum(bool(each.faults) for each in found),
        }
    )
    listed = ", ".join(f"{count} {what}" for what, count in counts.items())
    return f"{name}: {len(found)} kills: {listed}; the last worker ended {outlived:.2f} s after its parent at most"


def main(argv: Sequence[str] | None = None) -> int:
    """Kill, report and return 1 where something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m evals.fuzz.interruptions", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="of each command")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    parser.add_argument("run", nargs="?", default=str(demo_run()), metavar="RUN")
    args = parser.parse_args(argv)
    commands = {"diagnose": ("diagnose", args.run, "--json"), "case index": SEARCH}
    faulty = False
    for name, words in commands.items():
        found = kills(words, args.kills, args.seed)
        print(summary(name, found), flush=True)
        faulty = faulty or any(each.faults for each in found)
    return int(faulty)


if __name__ == "__main__":
    sys.exit(main())
