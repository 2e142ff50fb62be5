"""The environment of a recorded training, how each rank is placed in it, and the programs that set it up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tools.errors import HermesError

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND_LIMIT_S = 20.0
END_LIMIT_S = 3.0
READY_LIMIT_S = 20.0
POLL_S = 0.02
READY = "ready"
ENTER = Path(__file__).resolve().with_name("enter.py")
NAME = "hermes-lab"


class EnvironmentFaultError(HermesError):
    """The environment of a training could not be set up."""


@dataclass(frozen=True)
class Placement:
    """The start of one rank's process."""

    prefix: tuple[str, ...] = ()  # command words before the rank's own command; they end in an exec, so the pid stays
    environment: Mapping[str, str] = field(default_factory=dict)  # added to the rank's environment


class EnvironmentFault(Protocol):
    """Something outside the training's processes that makes it slow."""

    def missing(self) -> str:
        """Empty when it can be set up on this machine, else one clause saying why not."""
        ...

    def around(self, ranks: int, folder: Path) -> AbstractContextManager[tuple[Placement, ...]]:
        """Set it up for a training of ``ranks`` processes run in ``folder``; gives one placement per rank.

        Leaving the context takes everything down again. Raises EnvironmentFaultError where it cannot be set up.
        """
        ...


def all_missing(environment_faults: Sequence[EnvironmentFault]) -> str:
    """Empty when all can be set up on this machine, else the clauses that say why not."""
    return "; ".join(dict.fromkeys(filter(None, (each.missing() for each in environment_faults))))


@contextmanager
def surrounded(
    environment_faults: Sequence[EnvironmentFault], ranks: int, folder: Path
) -> Iterator[tuple[Placement, ...]]:
    """Set up all faults at once. The first prefix is the outermost, so LinkedHosts, which hides the control groups
    from what it starts, comes after CpuQuota."""
    lacking = all_missing(environment_faults)
    if lacking:
        raise EnvironmentFaultError(f"this machine cannot surround the training as asked: {lacking}")
    with ExitStack() as stack:
        layers = [stack.enter_context(each.around(ranks, folder)) for each in environment_faults]
        yield tuple(_joined([layer[rank] for layer in layers]) for rank in range(ranks))


def _joined(placements: Sequence[Placement]) -> Placement:
    environment: dict[str, str] = {}
    for each in placements:
        environment.update(each.environment)
    return Placement(tuple(word for each in placements for word in each.prefix), environment)


def run(*words: str) -> str:
    """Run a program of the system; gives what it wrote. Raises EnvironmentFaultError with its own complaint."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFaultError(f"{words[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        raise EnvironmentFaultError(f"`{' '.join(words)}` failed: {_last_line(done.stderr + done.stdout)}")
    return done.stdout


def entering(*options: str) -> tuple[str, ...]:
    """The prefix that changes what ``enter.py`` can change of a process and then becomes the command after it."""
    return (sys.executable, "-I", "-S", str(ENTER), *options, "--")


@contextmanager
def background(program: str, *arguments: str, prefix: Sequence[str] = ()) -> Iterator[None]:
    """Run one of ``programs.py`` from when it says it is ready until the context is left.

    It has a session of its own, so that Ctrl+C reaches it only through the end of the context; each of these programs
    also ends by itself when its parent is gone.
    """
    words = [*prefix, sys.executable, "-m", "evals.lab.environment_faults.programs", program, *arguments]
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    process = subprocess.Popen(
        words,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    with process.stdout as output:
        late = threading.Timer(READY_LIMIT_S, _kill_group, (process.pid,))
        try:
            late.start()
            said: list[str] = []
            for line in output:
                if line.strip() == READY:
                    break
                said.append(line)
            else:
                message = f"the program {program!r} next to the training did not start: {_last_line(''.join(said))}"
                raise EnvironmentFaultError(message)
            late.cancel()
            yield
        finally:
            late.cancel()
            _end(process)


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it gave no reason")


# Everything made for a launch is named after the process that made it, so that a killed maker's can be removed.


def mark(pid: int | None = None) -> str:
    """Return the beginning of names of what a process (this one without ``pid``) made: hermes-lab-NAMESPACE-PID-START-.

    A number of a process means something in its namespace only, and is given to another one after a while.
    """
    own = os.getpid() if pid is None else pid
    return f"{NAME}-{_namespace():x}-{own}-{_start_ticks(own) or 0:x}-"


def is_abandoned(name: str) -> bool:
    """Return whether ``name`` is of a process of this container that is gone; False where that is unknown."""
    parts = name.removeprefix(f"{NAME}-").split("-")
    if not name.startswith(f"{NAME}-") or len(parts) < 4 or parts[0] != f"{_namespace():x}" or not parts[1].isdecimal():
        return False
    started = _start_ticks(int(parts[1]))
    return started is None or f"{started:x}" != parts[2]


def _namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _start_ticks(pid: int) -> int | None:
    """When the process was started, in ticks since boot; None when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(text.rpartition(")")[2].split()[19])


@contextmanager
def own_folder() -> Iterator[Path]:
    """A short-named temporary folder for the time of the context (a socket's path may have 107 bytes)."""
    for folder in Path(tempfile.gettempdir()).glob(f"{NAME}-*"):
        if is_abandoned(folder.name):
            shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=mark()) as own:
        yield Path(own)


def kill_members(where: str, members: Callable[[], Sequence[int]]) -> None:
    """Kill the processes in a namespace or control group until none is left or a time has passed.

    Raises EnvironmentFaultError, and kills nothing, where it holds what cannot be the lab's.
    """
    deadline = time.monotonic() + END_LIMIT_S
    while (pids := members()) and time.monotonic() < deadline:
        if min(pids) <= 1:  # 0 is what the kernel shows of processes of another container
            raise EnvironmentFaultError(f"the {where} holds processes that are not the lab's; remove it")
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_S)
