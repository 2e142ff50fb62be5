"""One monitor for the whole process, made at the first call: ``monitor.step()`` is enough."""

from __future__ import annotations

import atexit
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

from hermes_agent.monitor.gradients import Model
from hermes_agent.monitor.options import Options
from hermes_agent.monitor.session import Monitor

T = TypeVar("T")
_current: Monitor | None = None


def start(
    folder: Path | str | None = None,
    *,
    rank: int | None = None,
    batch_size: int | None = None,
    flops_per_step: float | None = None,
    peak_flops_per_s: float | None = None,
    options: Options | None = None,
) -> Monitor:
    """Starts the process's monitor; one that runs already is closed first.

    Without ``folder`` it is HERMES_DX_RUN_FOLDER or ``hermes-run``; without ``rank`` what the launcher set.
    """
    global _current
    stop()
    _current = Monitor(
        folder,
        rank=rank,
        batch_size=batch_size,
        flops_per_step=flops_per_step,
        peak_flops_per_s=peak_flops_per_s,
        options=options,
    )
    atexit.register(_current.close)
    return _current


def step(step: int | None = None, samples: int | None = None) -> None:
    """To be called when a training step has ended."""
    (_current or start()).step(step, samples)


def loader(loader: Iterable[T]) -> Iterable[T]:
    """The same loader, its fetches timed; not needed for torch's DataLoader."""
    return (_current or start()).loader(loader)


def waiting() -> AbstractContextManager[None]:
    """Around what waits for other ranks."""
    return (_current or start()).waiting()


def watch_model(model: Model) -> None:
    """Notes when the model's last gradient is ready, which tells a rank's own time from its waiting."""
    (_current or start()).watch_model(model)


def stop() -> None:
    """Flushes and ends the process's monitor."""
    global _current
    if _current is not None:
        atexit.unregister(_current.close)
        _current.close()
    _current = None
