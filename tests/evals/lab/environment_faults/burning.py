"""A process that burns processor time, with a child that does too, started inside environment faults."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

import pytest

from evals.lab.environment_faults.placement import REPOSITORY, EnvironmentFault, Placement

BURN = """
import os, subprocess, sys, time
wall = float(sys.argv[1])
child = subprocess.Popen([sys.executable, "-c", sys.argv[3], "x"]) if sys.argv[2] == "1" else None
end = time.monotonic() + wall
while time.monotonic() < end: pass
if child: child.wait()
used = os.times()
print(used.user + used.system, used.children_user + used.children_system, sorted(os.sched_getaffinity(0)))
"""
CHILD = """
import time
end = time.monotonic() + {wall_s}
while time.monotonic() < end: pass
"""


@dataclass(frozen=True)
class Burnt:
    """Processor seconds per second of wall time."""

    own: float
    children: float


def skip_where_missing(surrounding: EnvironmentFault) -> None:
    """Skip the test, with the reason, where the machine does not permit the surrounding."""
    reason = surrounding.missing()
    if reason:
        pytest.skip(f"not permitted here: {reason}")


def started(placement: Placement, *words: str) -> subprocess.Popen[str]:
    """``words`` as the rank's command."""
    return subprocess.Popen(
        [*placement.prefix, *words],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **placement.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def python(placement: Placement, program: str, *arguments: str) -> str:
    """What a Python program wrote when run as the rank's command to its end."""
    said, _ = started(placement, sys.executable, "-c", program, *arguments).communicate(timeout=60)
    return said


def burnt(placement: Placement, wall_s: float, with_child: bool = False) -> Burnt:
    """How much a rank that only burns gets; startup of the interpreter is a few hundredths of a second of it."""
    said = python(placement, BURN, str(wall_s), "1" if with_child else "0", CHILD.format(wall_s=wall_s))
    own, children = (float(word) for word in said.split()[:2])
    return Burnt(own / wall_s, children / wall_s)
