"""What each command costs before it does much: a small run, one user, a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.benchmarks.process import CommandError, cost_of, surroundings
from evals.benchmarks.results import CommandCost
from hermes_agent.demo.data import demo_run

PROGRAM = ("-m", "hermes_agent.cli.main")
COLD, WARM = "an empty cache", "diagnosed before"
# The words behind the program's name, and what the cache holds.
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "--help": (("--help",), COLD),
    "env": (("env",), COLD),
    "diagnose RUN": (("diagnose", "RUN", "--no-llm"), COLD),
    "diagnose RUN, again": (("diagnose", "RUN", "--no-llm"), WARM),
    "ask RUN QUESTION": (("ask", "RUN", "why not the network?", "--no-llm"), WARM),
    "show E1": (("show", "E1", "RUN"), WARM),
    "steps RUN": (("steps", "RUN"), WARM),
    "ranks RUN": (("ranks", "RUN"), WARM),
    "compare RUN RUN": (("compare", "RUN", "RUN"), WARM),
    "cases search WORDS": (("cases", "search", "loader is slow"), WARM),
    "cases show CAUSE": (("cases", "show", "garbage_collection"), WARM),
}
CHAT = "chat"
PAINTED = "No run is open"  # a part of the first screen
LONGEST_S = 60.0
LIST_MODULES = (
    "import sys\nfrom hermes_agent.cli.main import main\n"
    "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
    "print('IMPORTED', *sys.modules, file=sys.stderr)"
)


def measured_commands(runs: int) -> dict[str, CommandCost]:
    """The cost of every command, medians over ``runs`` processes each."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        warm = Path(folder) / "warm"
        cost_of([sys.executable, *PROGRAM, "diagnose", str(demo_run()), "--no-llm"], _places(warm))
        costs = {}
        for name, (words, state) in COMMANDS.items():
            command = [str(demo_run()) if word == "RUN" else word for word in words]
            caches = [warm if state == WARM else Path(folder) / f"{number}" / name for number in range(2 * runs + 1)]
            costs[name] = _measured(command, caches, runs)
        costs[CHAT] = _measured_chat(_places(warm), runs)
    return costs


def _places(cache: Path) -> dict[str, str]:
    return {"HERMES_DX_CACHE_DIR": str(cache), "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}


def _measured(command: Sequence[str], caches: Sequence[Path], runs: int) -> CommandCost:
    whole = [cost_of([sys.executable, *PROGRAM, *command], _places(cache)) for cache in caches[:runs]]
    shown = [
        shown_after([sys.executable, *PROGRAM, *command], surroundings(_places(cache)))
        for cache in caches[runs : 2 * runs]
    ]
    return CommandCost(
        cpu_s=statistics.median(cost.cpu_s for cost in whole),
        seconds=statistics.median(cost.seconds for cost in whole),
        shown_s=statistics.median(each.seconds for each in shown),
        peak_mib=statistics.median(cost.peak_mib for cost in whole),
        packages=imported(command, _places(caches[-1])),
    )


def _measured_chat(places: dict[str, str], runs: int) -> CommandCost:
    """The chat up to its first screen, at which it is ended."""
    command = [sys.executable, *PROGRAM, "chat", "--no-llm"]
    shown = [shown_after(command, surroundings(places), PAINTED) for _ in range(runs)]
    median_s = statistics.median(each.seconds for each in shown)
    return CommandCost(statistics.median(each.cpu_s for each in shown), median_s, median_s, 0.0, ())


@dataclass(frozen=True)
class Shown:
    """Time and CPU time until a command showed something."""

    seconds: float
    cpu_s: float


def shown_after(command: Sequence[str], environment: dict[str, str], text: str = "") -> Shown:
    """How soon the command shows ``text`` (or anything) on a terminal of its own; it is ended then."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], list(command), environment)
    begun, seen = time.perf_counter(), b""
    try:
        while not seen or text.encode() not in seen:
            ready, _, _ = select.select([terminal], [], [], LONGEST_S)
            if not ready:
                raise CommandError(f"{' '.join(command[2:])} showed nothing within {LONGEST_S:.0f} s")
            seen += os.read(terminal, 1 << 16)
        seconds = time.perf_counter() - begun
    finally:
        os.kill(pid, signal.SIGKILL)
        used = os.wait4(pid, 0)[2]
        os.close(terminal)
    return Shown(seconds, used.ru_utime + used.ru_stime)


def imported(command: Sequence[str], environment: dict[str, str]) -> tuple[str, ...]:
    """The top-level packages outside of the standard library, and not ours, that a command imports."""
    words = [sys.executable, "-c", LIST_MODULES, *command]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=surroundings(environment))
    names = {name.partition(".")[0] for name in done.stderr.rpartition("IMPORTED")[2].split()}
    ours = {"hermes_agent", "tools", "case_library", "prompts"}
    return tuple(sorted(name for name in names - sys.stdlib_module_names - ours if not name.startswith("_")))
