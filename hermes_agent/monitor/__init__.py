"""Import this in a training script: ``from hermes_agent import monitor``, then ``monitor.step()`` after each step."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_agent.monitor.api import loader as loader
    from hermes_agent.monitor.api import start as start
    from hermes_agent.monitor.api import step as step
    from hermes_agent.monitor.api import stop as stop
    from hermes_agent.monitor.api import waiting as waiting
    from hermes_agent.monitor.api import watch_model as watch_model
    from hermes_agent.monitor.callbacks import LightningCallback as LightningCallback
    from hermes_agent.monitor.callbacks import TrainerCallback as TrainerCallback
    from hermes_agent.monitor.options import Options as Options
    from hermes_agent.monitor.session import Monitor as Monitor

_HOMES = {
    **dict.fromkeys(("start", "step", "loader", "waiting", "watch_model", "stop"), "api"),
    "Monitor": "session",
    "Options": "options",
    "LightningCallback": "callbacks",
    "TrainerCallback": "callbacks",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
