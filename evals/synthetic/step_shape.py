"""How steps of a recorded training scatter, taken from its step logs; the size of the scatter is the spec's own."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hermes_agent.demo.data import demo_fixed_run
from tools.errors import InputError

WARM_UP = 4
MOST_DEVIATION = 4.0  # in standard deviations; what is beyond came from the machine, not from the training


@cache
def recorded_shape(folder: Path | None = None) -> NDArray[np.float64]:
    """Deviations of recorded steps from their rank's median, with mean 0 and standard deviation 1.

    ``folder`` is a run folder with ``steps_rank*.jsonl``, by default the bundled recorded run without a fault. Raises
    InputError when it holds too few steps.
    """
    run = demo_fixed_run() if folder is None else folder
    logs = [_steps_ms(file) for file in sorted(run.glob("steps_rank*.jsonl"))]
    relative = [log / np.median(log) - 1.0 for log in logs if len(log) > 1]
    if not relative or sum(len(each) for each in relative) < 20:
        raise InputError(f"{run} holds too few logged steps to learn their scatter from; name another recorded run")
    together = np.concatenate(relative)
    deviations = np.clip((together - together.mean()) / together.std(), -MOST_DEVIATION, MOST_DEVIATION)
    return np.asarray((deviations - deviations.mean()) / deviations.std())


def _steps_ms(file: Path) -> NDArray[np.float64]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
    return np.array([row["wall_ms"] for row in rows[WARM_UP:]], dtype=float)
