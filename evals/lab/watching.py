"""Who looks at a recorded training: the monitor, the profiler of the last steps, the script's own profiler."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch.profiler import ProfilerActivity, profile, schedule

from evals.lab.plan import Plan
from hermes_agent.monitor import Monitor, Options
from hermes_agent.monitor.flush import FlushPlan

SAMPLE_S = 0.25


def monitor(folder: Path, rank: int) -> Monitor:
    """The monitor as a user starts it, with more samples than by default: the recorded runs are short."""
    return Monitor(folder, rank=rank, options=Options(plan=FlushPlan(flush_s=SAMPLE_S, sample_s=SAMPLE_S)))


@contextmanager
def profiled(plan: Plan, rank: int) -> Iterator[Callable[[], None]]:
    """Records the plan's last steps; before them the script's own profiler runs where the scenario has one.

    Gives what has to be called after every step.
    """
    training = plan.training
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if training.device == "cuda" else [])]
    details = {"with_stack": True, "profile_memory": True} if training.program.watched else {}
    last = profile_of_last(plan, rank, kinds, details) if plan.profile else None
    own = profile(activities=kinds, record_shapes=True, **details) if training.program.watched else None
    ended = itertools.count(1)

    def stepped() -> None:
        if own is not None and next(ended) == plan.measured.stop:
            own.stop()
        if last is not None:
            last.step()

    for each in filter(None, (own, last)):
        each.start()
    yield stepped
    if last is not None:
        last.stop()


def profile_of_last(plan: Plan, rank: int, kinds: list[ProfilerActivity], details: dict[str, bool]) -> Any:  # noqa: ANN401
    """The profiler of the plan's last steps."""
    return profile(
        activities=kinds,
        schedule=schedule(wait=plan.measured.stop, warmup=1, active=len(plan.profiled), repeat=1),
        on_trace_ready=lambda finished: finished.export_chrome_trace(str(plan.trace(rank))),
        record_shapes=True,
        **details,
    )
