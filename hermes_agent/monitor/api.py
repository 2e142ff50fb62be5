"""One monitor for the whole process, made at the first call: ``monitor.step()`` is enough."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, ParamSpec, Protocol, TypeVar

from hermes_agent.monitor.hooks import Model
from hermes_agent.monitor.session import Monitor, Options
from hermes_agent.monitor.verdict import Summary

T = TypeVar("T")
P = ParamSpec("P")
_current: Monitor | None = None


def _starting(make: Callable[P, Monitor]) -> Callable[P, Monitor]:
    def start(*args: P.args, **kwargs: P.kwargs) -> Monitor:
        """Start the process's monitor; one that runs already is closed first. It takes the arguments of ``Monitor``."""
        global _current
        stop()
        _current = make(*args, **kwargs)
        atexit.register(_at_exit, _current)
        return _current

    return start


def _at_exit(monitor: Monitor) -> None:
    """End with the program; an exception that nothing caught was printed by then."""
    monitor.close(failed=hasattr(sys, "last_type"))


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


def stop() -> Summary:
    """Flush and end the process's monitor; return the summary of its verdict, empty where none was wanted or given."""
    global _current
    ended, _current = _current, None
    if ended is None:
        return {}
    atexit.unregister(_at_exit)
    ended.close()
    return ended.summary


class Steps(Generic[T]):
    """A loader whose batches are the steps of the process's monitor; everything else is the loader's own."""

    def __init__(self, loader: Iterable[T]) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[T]:
        for batch in (_current or start(verdict=True)).loader(self._loader):
            yield batch
            step()

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]  # raises TypeError as the loader itself would

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._loader, name)
        return found


def steps(loader: Iterable[T]) -> Steps[T]:
    """Return the same loader with a step recorded for each batch; when the program ends, the verdict is printed.

    ``start`` before it chooses the folder and whether there is a verdict. A batch that ends in ``break`` is no step.
    """
    return Steps(loader)


class _State(Protocol):
    global_step: int


class _Callback:
    """Ignores every hook that it does not have; the data wait is left to the hook on torch's DataLoader."""

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        options: Options | None = None,
        batch_size: int | None = None,
        verdict: bool = False,
    ) -> None:
        """``verdict``: print what the records show when the training ends; then it is in ``summary`` as well."""
        self._folder, self._options, self._batch_size, self._verdict = folder, options, batch_size, verdict
        self._monitor: Monitor | None = None
        self.summary: Summary = {}

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("on_") or name in {"setup", "teardown", "load_state_dict"}:
            return lambda *_, **__: None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _begin(self, model: Model | None, rank: int | None = None) -> None:
        if self._monitor is None:
            self._monitor = Monitor(
                self._folder,
                rank=rank,
                batch_size=self._batch_size,
                options=self._options,
                verdict=self._verdict,
            )
            if model is not None:
                self._monitor.watch_model(model)
        self._monitor.begin()

    def on_train_end(self, *_: object, **__: object) -> None:
        """Stop."""
        self._finish(failed=False)

    def _finish(self, *, failed: bool) -> None:
        if self._monitor is not None:
            self._monitor.close(failed=failed)
            self.summary, self._monitor = self._monitor.summary, None


class LightningCallback(_Callback):
    """``Trainer(callbacks=[LightningCallback(...)])``; a step is a training batch."""

    state_key = "hermes_dx_monitor"

    def state_dict(self) -> dict[str, object]:
        """Return nothing to keep in a checkpoint."""
        return {}

    def on_train_start(self, trainer: object, module: Model) -> None:
        """Start, and watch the module's gradients; Lightning's own launcher puts no rank into the environment."""
        self._begin(module, getattr(trainer, "global_rank", None))

    def on_train_batch_end(self, *_: object, **__: object) -> None:
        """Record the step."""
        if self._monitor is not None:
            self._monitor.step()

    def on_exception(self, *_: object) -> None:
        """Stop in order although the training does not."""
        self._finish(failed=True)


class TrainerCallback(_Callback):
    """``Trainer(callbacks=[TrainerCallback(...)])`` of Hugging Face; a step is an optimizer step."""

    def on_train_begin(self, *_: object, model: Model | None = None, **__: object) -> None:
        """Start, and watch the model's gradients."""
        self._begin(model)

    def on_step_end(self, args: object, state: _State, control: object, **_: object) -> None:
        """Record the step."""
        if self._monitor is not None:
            self._monitor.step(int(state.global_step) - 1)
