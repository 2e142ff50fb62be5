"""A launch counts only where it had the machine for itself."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evals.lab.launch import LaunchError

WAIT_S, POLL_S = 15.0, 0.5
MOST_TAKEN = 0.06  # of all cores; what the system itself does takes one to three percent


class ContentionError(LaunchError):
    """Other programs took a part of the cores during a launch; another attempt may have them for itself."""


@contextmanager
def alone() -> Iterator[None]:
    """Wait a while for others to end; raises ContentionError where other programs took too much during the launch.

    Programs count as the launch's own when they have ended and were waited for.
    """
    deadline = time.monotonic() + WAIT_S
    while _running() > 1 and time.monotonic() < deadline:
        time.sleep(POLL_S)
    others_s, start_s = _others_s(), time.monotonic()
    yield
    taken = (_others_s() - others_s) / (time.monotonic() - start_s) / (os.cpu_count() or 1)
    if taken > MOST_TAKEN:
        raise ContentionError(f"other programs took {taken:.0%} of the cores meanwhile; record it again")


def _others_s() -> float:
    """Processor time of the machine so far without that of this process and its children, in seconds."""
    user, nice, system = map(int, Path("/proc/stat").read_text(encoding="ascii").split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def _running() -> int:
    """Processes that run or wait for a core at this moment, this one among them."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0])
