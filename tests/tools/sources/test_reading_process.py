"""Processes that read for another end with it, and leave interrupts to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


@dataclass(frozen=True)
class Sleep:
    """Takes its time, then returns its process id."""

    seconds: float

    def answer(self) -> int:
        time.sleep(self.seconds)
        return os.getpid()


def test_a_process_in_the_middle_of_its_work_ends_when_its_owner_dies() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES, str(REPOSITORY)], capture_output=True, text=True, check=False, timeout=60
    )

    pid = int(done.stdout)
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.1)
    raise AssertionError("the process outlived its owner")


def test_an_interrupt_does_not_reach_the_process() -> None:
    with ReadingProcess() as process:
        process.ask(Sleep(0.0))
        pid = process.take()
        process.ask(Sleep(0.5))
        os.kill(pid, signal.SIGINT)
        assert process.take() == pid
