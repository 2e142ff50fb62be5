"""Programs of the system and of this folder that set up and carry what surrounds a training."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.errors import HermesError

REPOSITORY = Path(__file__).resolve().parents[3]
COMMAND_LIMIT_S = 20.0
END_LIMIT_S = 3.0
READY_LIMIT_S = 20.0
READY = "ready"
ENTER = Path(__file__).resolve().with_name("enter.py")


class EnvironmentFaultError(HermesError):
    """What should surround the training could not be set up."""


def run(*words: str) -> str:
    """Run a program of the system; gives what it wrote. Raises EnvironmentFaultError with its own complaint."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFaultError(f"{words[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        raise EnvironmentFaultError(f"`{' '.join(words)}` failed: {_last_line(done.stderr + done.stdout)}")
    return done.stdout


def not_installed(*programs: str) -> str:
    """Empty when all are on the path, else a clause naming those that are not."""
    absent = [program for program in programs if shutil.which(program) is None]
    return f"{' and '.join(absent)} not installed" if absent else ""


def entering(*options: str) -> tuple[str, ...]:
    """The prefix that changes what ``enter.py`` can change of a process and then becomes the command after it."""
    return (sys.executable, "-I", "-S", str(ENTER), *options, "--")


@contextmanager
def background(module: str, *arguments: str, prefix: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run ``python -m evals.lab.environment_faults.MODULE`` from when it says it is ready until the context is left.

    It has a session of its own, so that Ctrl+C reaches it only through the end of the context; each of these programs
    also ends by itself when its parent is gone.
    """
    words = [*prefix, sys.executable, "-m", f"evals.lab.environment_faults.{module}", *arguments]
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
    try:
        _await_ready(process, module)
        yield process
    finally:
        _end(process)


def _await_ready(process: subprocess.Popen[str], module: str) -> None:
    assert process.stdout is not None
    said: list[str] = []
    late = threading.Timer(READY_LIMIT_S, _kill_group, (process.pid,))
    late.start()
    try:
        for line in process.stdout:
            if line.strip() == READY:
                return
            said.append(line)
    finally:
        late.cancel()
        late.join()
    raise EnvironmentFaultError(
        f"the program {module!r} next to the training did not start: {_last_line(''.join(said))}"
    )


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
    if process.stdout is not None:
        process.stdout.close()


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it gave no reason")
