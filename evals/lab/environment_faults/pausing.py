"""Pause a process group in turns: ``python -m evals.lab.environment_faults.pausing PIDFILE SHARE PERIOD``."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType

from evals.lab.environment_faults.parenthood import say_ready

LOOK_S = 0.005


def main(announced: Path, share: float, period_s: float) -> None:
    signal.signal(signal.SIGTERM, _leave)
    parent = os.getppid()
    say_ready("pacer")
    while not announced.exists():
        if os.getppid() != parent:
            return
        time.sleep(LOOK_S)
    leader = int(announced.read_text(encoding="ascii"))
    try:
        pause_in_turn(leader, share, period_s, parent)
    except ProcessLookupError:
        return


def pause_in_turn(leader: int, share: float, period_s: float, parent: int) -> None:
    """Until the leader of the group or the parent is gone; raises ProcessLookupError for the former."""
    ended = select.poll()
    ended.register(os.pidfd_open(leader), select.POLLIN)
    try:
        while os.getppid() == parent and not ended.poll(0):
            os.killpg(leader, signal.SIGSTOP)
            time.sleep(share * period_s)
            os.killpg(leader, signal.SIGCONT)
            ended.poll((1 - share) * period_s * 1e3)
    finally:
        os.killpg(leader, signal.SIGCONT)


def end_group(announced: Path) -> None:
    """Continue and kill whatever is left of the group: a pacer that was killed leaves it standing still."""
    try:
        leader = int(announced.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return
    if leader > 1:
        with suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGCONT)
            os.killpg(leader, signal.SIGKILL)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]) / 1e3)
