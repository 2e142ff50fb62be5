"""Why deep-learning training is slow: ``from hermes_agent import diagnose; d = diagnose("traces/")``.

Nothing is imported before a name is used: the monitor in a training process imports this package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_agent.api.diagnosed_run import DiagnosedRun, diagnose
    from hermes_agent.api.prediction import Prediction
    from tools.errors import HermesError, InputError, NotComparableError, UsageError

_HOMES = {
    "DiagnosedRun": "hermes_agent.api.diagnosed_run",
    "HermesError": "tools.errors",
    "InputError": "tools.errors",
    "NotComparableError": "tools.errors",
    "Prediction": "hermes_agent.api.prediction",
    "UsageError": "tools.errors",
    "diagnose": "hermes_agent.api.diagnosed_run",
}

__all__ = ["DiagnosedRun", "HermesError", "InputError", "NotComparableError", "Prediction", "UsageError", "diagnose"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
