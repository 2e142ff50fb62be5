"""Processes that read for another end with it, and leave interrupts to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tools.sources.workers import ReadingProcess

REPOSITORY = Path(__file__).resolve().parents[3]
DIES = """
import os, sys
sys.path.insert(0, sys.argv[1])
from tests.tools.sources.test_reading_process import Sleep
from tools.sources.workers import ReadingProcess
process = ReadingProcess()
process.ask(Sleep(0.0))
print(process.take(), flush=True)
process.ask(Sleep(60.0))
os._exit(1)
"""
DIES_EARLY = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.tools.sources.test_reading_process import SlowToRead
from tools.sources.workers import ReadingProcess
noted = Path(sys.argv[2])
process = ReadingProcess()
process.ask(SlowToRead(str(noted)))
while not (noted.is_file() and noted.read_text().endswith(".")):
    time.sleep(0.01)
os._exit(1)
"""


@dataclass(frozen=True)
class Sleep:
    """Takes its time, then returns its process id."""

    seconds: float

    def answer(self) -> int:
        time.sleep(self.seconds)
        return os.getpid()


class SlowToRead:
    """A request that takes long to read, as one does whose modules are imported for it; notes the reader's id."""

    def __init__(self, noted: str) -> None:
        self.noted = noted

    def __reduce__(self) -> tuple[Callable[[str], Sleep], tuple[str]]:
        return _read_slowly, (self.noted,)

    def answer(self) -> int:
        return 0


def _read_slowly(noted: str) -> Sleep:
    Path(noted).write_text(f"{os.getpid()}.")
    time.sleep(60.0)
    return Sleep(0.0)


def test_a_process_in_the_middle_of_its_work_ends_when_its_owner_dies() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(REPOSITORY)], capture_output=True, text=True, check=False, timeout=60
    )

    assert ends(int(done.stdout))


def test_a_process_that_still_reads_its_request_ends_when_its_owner_dies(tmp_path: Path) -> None:
    noted = tmp_path / "process"

    subprocess.run([sys.executable, "-c", DIES_EARLY, str(REPOSITORY), str(noted)], check=False, timeout=60)

    assert ends(int(noted.read_text().removesuffix(".")))


def ends(pid: int) -> bool:
    """Return whether a process ends within ten seconds."""
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


def test_an_interrupt_does_not_reach_the_process() -> None:
    with ReadingProcess() as process:
        process.ask(Sleep(0.0))
        pid = process.take()
        process.ask(Sleep(0.5))
        os.kill(pid, signal.SIGINT)
        assert process.take() == pid
