"""Import this in a training script: ``from hermes_agent import monitor``, then ``monitor.step()`` after each step."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_agent.monitor.api import (
        LightningCallback,
        TrainerCallback,
        loader,
        start,
        step,
        steps,
        stop,
        waiting,
        watch_model,
    )
    from hermes_agent.monitor.session import Monitor, Options

__all__ = ["LightningCallback", "Monitor", "Options", "TrainerCallback"]
__all__ += ["loader", "start", "step", "steps", "stop", "waiting", "watch_model"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.api"), name)
    globals()[name] = found
    return found
