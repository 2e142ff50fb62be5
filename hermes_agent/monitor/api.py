"""One monitor for the whole process, made at the first call: ``monitor.step()`` is enough."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from hermes_agent.monitor.hooks import Model
from hermes_agent.monitor.session import Monitor, Options

T = TypeVar("T")
P = ParamSpec("P")
_current: Monitor | None = None


def _starting(make: Callable[P, Monitor]) -> Callable[P, Monitor]:
    def start(*args: P.args, **kwargs: P.kwargs) -> Monitor:
        """Start the process's monitor; one that runs already is closed first. It takes the arguments of ``Monitor``."""
        global _current
        stop()
        _current = make(*args, **kwargs)
        atexit.register(_current.close)
        return _current

    return start


start = _starting(Monitor)


def step(step: int | None = None, samples: int | None = None) -> None:
    """Record a step; call it when a training step has ended."""
    (_current or start()).step(step, samples)


def loader(loader: Iterable[T]) -> Iterable[T]:
    """Return the same loader with its fetches timed; not needed for torch's DataLoader."""
    return (_current or start()).loader(loader)


def waiting() -> AbstractContextManager[None]:
    """Return a context that counts as waiting for other ranks."""
    return (_current or start()).waiting()


def watch_model(model: Model) -> None:
    """Note when the model's last gradient is ready, which separates a rank's own time from its waiting."""
    (_current or start()).watch_model(model)


def stop() -> None:
    """Flush and end the process's monitor."""
    global _current
    if _current is not None:
        atexit.unregister(_current.close)
        _current.close()
    _current = None


class _State(Protocol):
    global_step: int


class _Callback:
    """Ignores every hook that it does not have; the data wait is left to the hook on torch's DataLoader."""

    def __init__(
        self, folder: Path | str | None = None, *, options: Options | None = None, batch_size: int | None = None
    ) -> None:
        self._folder, self._options, self._batch_size = folder, options, batch_size
        self._monitor: Monitor | None = None

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_") or name in {"setup", "teardown", "load_state_dict"}:
            return lambda *_, **__: None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _begin(self, model: Model | None) -> None:
        if self._monitor is None:
            self._monitor = Monitor(self._folder, batch_size=self._batch_size, options=self._options)
            if model is not None:
                self._monitor.watch_model(model)
        self._monitor.begin()

    def on_train_end(self, *_: object, **__: object) -> None:
        """Stop."""
        if self._monitor is not None:
            self._monitor.close()
            self._monitor = None


class LightningCallback(_Callback):
    """``Trainer(callbacks=[LightningCallback(...)])``; a step is a training batch."""

    state_key = "hermes_dx_monitor"

    def state_dict(self) -> dict[str, object]:
        """Return nothing to keep in a checkpoint."""
        return {}

    def on_train_start(self, trainer: object, module: Model) -> None:
        """Start, and watch the module's gradients."""
        self._begin(module)

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Record the step."""
        if self._monitor is not None:
            self._monitor.step()

    def on_exception(self, *_: object) -> None:
        """Stop in order although the training does not."""
        self.on_train_end()


class TrainerCallback(_Callback):
    """``Trainer(callbacks=[TrainerCallback(...)])`` of Hugging Face; a step is an optimizer step."""

    def on_train_begin(self, *_: object, model: Model | None = None, **__: object) -> None:
        """Start, and watch the model's gradients."""
        self._begin(model)

    def on_step_end(self, args: object, state: _State, control: object, **_: object) -> None:
        """Record the step."""
        if self._monitor is not None:
            self._monitor.step(int(state.global_step) - 1)
