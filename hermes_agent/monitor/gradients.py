"""When a model's last gradient is ready: until then a rank's time is its own, after it a rank may wait for others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Protocol

from hermes_agent.monitor.raw import READY


class Handle(Protocol):
    """What takes a hook away again."""

    def remove(self) -> None:
        """Takes it away."""


class Parameter(Protocol):
    """A parameter as torch has it."""

    @property
    def requires_grad(self) -> bool:
        """Whether it is trained."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[object], None]) -> Handle:
        """Has ``hook`` called whenever its gradient is ready."""


class Model(Protocol):
    """A model as torch has it."""

    def parameters(self) -> Iterable[Parameter]:
        """All parameters, those of the first layer first."""


class GradientWatch:
    """Notes the time of the last gradient; the hook changes nothing. Host time, also on an accelerator."""

    def __init__(self, totals: list[int]) -> None:
        self._totals = totals
        self._hooks: list[Handle] = []

    def watch(self, model: Model) -> None:
        """Watches the first parameter that is trained, which gets its gradient last."""
        first = next((each for each in model.parameters() if each.requires_grad), None)
        if first is not None:
            self._hooks.append(first.register_post_accumulate_grad_hook(self._ready))

    def stop(self) -> None:
        """Takes the hooks away."""
        while self._hooks:
            self._hooks.pop().remove()

    def _ready(self, _: object) -> None:
        self._totals[READY] = perf_counter_ns()
