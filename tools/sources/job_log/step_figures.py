"""The figures of a line that reports a training step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepLine:
    """The figures of one line; None where it does not hold them. ``mean``: the time is one over several steps."""

    grammar: str
    step: int
    wall_ms: float | None = None
    mean: bool = False
    running: bool = False  # a clock that may run from the start of the job: judged over all lines
    bare_time: float | None = None
    clock_s: float | None = None  # of a clock in the record, of which differences are used
    epoch: int | None = None
    samples: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    tflops: float | None = None
    loss_scale: float | None = None
    skipped: float | None = None
