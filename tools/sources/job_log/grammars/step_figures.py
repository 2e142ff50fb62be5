"""The figures of a line that reports a training step."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tools.run.recorded.job_log import StepTime

METRIC_LOGGER = "MetricLogger"
UNNUMBERED = -1  # step of a line that names none: lines are counted, or the steps that they stand for
# What a mean is over, besides the steps since the line before: since the epoch began; over more of the last steps than
# the line says, both for the step and its data; since the start of the job, while that of the data is over the last;
# since the start of the job or of the epoch, both.
Average = Literal["", "epoch", "window", "job", "start"]
Meter = tuple[float, float]  # a value and a mean as a line gives them
WHOLE = re.compile(r"\s{0,9}/\s{0,9}(\d{1,15})(?!\d|\.\d)")


@dataclass(frozen=True, slots=True)
class StepLine:
    """The figures of one line; None where it does not hold them. ``of``: what its time is of, as its program has it.

    ``of_all``: the time is of all steps since the line before; ``steps``: how many a line without a number stands for;
    ``rounding_ms``: half of the last digit of a running mean.
    """

    grammar: str
    step: int
    wall_ms: float | None = None
    of: StepTime = "step"
    running: bool = False  # a clock that may run from the start of the job: judged over all lines
    bare_time: float | None = None
    clock_s: float | None = None  # of a clock in the record, of which differences are used
    epoch: int | None = None
    of_epoch: int | None = None  # the steps of an epoch, where the line states them behind the step: "50/983"
    samples: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    tflops: float | None = None
    mfu_pct: float | None = None
    loss_scale: float | None = None
    skipped: float | None = None
    skipped_so_far: float | None = None  # since the job began, of which differences are the skipped ones
    data_wait_ms: float | None = None
    average: Average = ""
    rounding_ms: float = 0.0
    of_all: bool = False
    steps: int = 1
    unit: str = ""  # of ``samples_per_s`` as the line names it
    ambiguous: bool = False  # it states several times, and no name shows which one is of the step
    meters: tuple[Meter | None, Meter | None, Meter | None] | None = None  # of the time, the data, and any other
    in_samples: bool = False  # ``step`` counts samples, one batch of them at the first line
    clock_step_s: float = 1e-3  # resolution of ``clock_s``
    validated: bool = False  # it states figures of a validation that is part of its time
    derived: bool = False  # the time is the samples or tokens of a step over those per second


def steps_behind(step: re.Match[str], group: int = 1) -> int | None:
    """The number of steps that the line states right behind the step's own: 983 of ``iter: 50/983``."""
    found = WHOLE.match(step.string, step.end(group))
    return int(found[1]) if found else None
