"""Burns one core until it is ended: ``python -m evals.lab.environment_faults.busy [CORES]``."""

from __future__ import annotations

import os
import sys

from evals.lab.environment_faults.parenthood import say_ready

ROUND = 2_000_000


def main(cores: str) -> None:
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    parent = os.getppid()
    say_ready("encoder")
    while os.getppid() == parent:
        sum(range(ROUND))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
