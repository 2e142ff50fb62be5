"""Hooks into the garbage collector, gradients and data loaders: running sums of what a step spends in each."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from time import perf_counter_ns
from typing import Any, Generic, Protocol, TypeVar

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.format import UNKNOWN_DEPTH

NOTED_NS = 1_000_000  # shorter pauses are in the step's sum only
MOST_NOTED = 1000
MOST_WATCHED = 16  # hooks on parameters and optimizers


class GarbageWatch:
    """Running sums of collections, and the long pauses; written by the thread that collects, one at a time."""

    def __init__(self, totals: list[int]) -> None:
        self._totals = totals
        self.pauses: deque[dict[str, int]] = deque(maxlen=MOST_NOTED)
        self._begun_ns = 0

    def start(self) -> None:
        """Listen to the collector."""
        gc.callbacks.append(self._heard)

    def stop(self) -> None:
        """Stop listening to the collector."""
        if self._heard in gc.callbacks:
            gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._begun_ns = perf_counter_ns()
            return
        if not self._begun_ns:
            return
        end_ns = perf_counter_ns()
        pause_ns = end_ns - self._begun_ns
        totals = self._totals
        totals[layout.GC] += pause_ns
        totals[layout.GC_RUNS] += 1
        if pause_ns > totals[layout.GC_LONGEST]:
            totals[layout.GC_LONGEST] = pause_ns
        if pause_ns >= NOTED_NS:
            about = {"generation": info["generation"], "collected": info["collected"]}
            self.pauses.append({"end_clock_ns": end_ns, "pause_us": pause_ns // 1000, **about})


class Handle(Protocol):
    """A hook that can be removed."""

    def remove(self) -> None: ...


class Parameter(Protocol):
    """A parameter as torch has it."""

    @property
    def requires_grad(self) -> bool: ...

    def register_post_accumulate_grad_hook(self, hook: Callable[[object], None]) -> Handle: ...


class Model(Protocol):
    """A model as torch has it; the parameters of the first layer come first."""

    def parameters(self) -> Iterable[Parameter]: ...


class Optimizer(Protocol):
    """An optimizer as torch has it."""

    @property
    def param_groups(self) -> list[dict[str, Any]]: ...


class GradientWatch:
    """Records when the last gradient is ready, when an optimizer begins its step, and the sum of the times between the
    two, in host time also on an accelerator. In these ranks wait for each other and exchange gradients; the rest of a
    step is a rank's own. Where several optimizers step in turn, as in a GAN, each closes the exchange before it.
    """

    def __init__(self, totals: list[int]) -> None:
        self._totals = totals
        self._thread = threading.get_ident()
        self._hooks: list[Handle] = []
        self._optimizers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._hooked = False
        self._compiling: Callable[[], bool] = bool

    def watch(self, model: Model) -> None:
        """Watch the first parameter that is trained, which gets its gradient last."""
        self._watch_first(model.parameters())

    def hook_torch(self) -> bool:
        """Watch every optimizer of torch in this process, when torch's are loaded; call it on the training thread."""
        register = getattr(sys.modules.get("torch.optim.optimizer"), "register_optimizer_step_pre_hook", None)
        if register is not None and not self._hooked:
            self._hooked = True
            self._compiling = getattr(sys.modules.get("torch.compiler"), "is_compiling", self._compiling)
            self._hooks.append(register(self._updating))
        return self._hooked

    def stop(self) -> None:
        """Remove the hooks."""
        while self._hooks:
            self._hooks.pop().remove()

    def _watch_first(self, parameters: Iterable[Parameter]) -> None:
        first = next((each for each in parameters if each.requires_grad), None)
        if first is not None and len(self._hooks) < MOST_WATCHED:
            self._hooks.append(first.register_post_accumulate_grad_hook(self._ready))

    def _updating(self, optimizer: Optimizer, *_: object) -> None:
        """Note the begin of an optimizer's step, and the exchange before it.

        Whichever of its groups gets its gradients last is not known: the first parameter of each is watched from its
        first step on, and the last one counts.
        """
        if self._compiling() or threading.get_ident() != self._thread:
            return  # an optimizer's step that torch.compile traces is left as it is
        totals, now_ns = self._totals, perf_counter_ns()
        if totals[layout.READY] > totals[layout.UPDATING]:
            totals[layout.EXCHANGED] += now_ns - totals[layout.READY]
        totals[layout.UPDATING] = now_ns
        if optimizer in self._optimizers:
            return
        with suppress(Exception):  # the boundary to the user's script: parameters that take no hook are left alone
            self._optimizers.add(optimizer)
            for group in optimizer.param_groups:
                self._watch_first(group["params"])

    def _ready(self, _: object) -> None:
        self._totals[layout.READY] = perf_counter_ns()


T = TypeVar("T")
Source = TypeVar("Source")


class DataWatch:
    """Running sums of the training thread's fetches; fetches of other threads are prefetching and not counted."""

    def __init__(self, totals: list[int]) -> None:
        self._totals = totals
        self.thread = threading.get_ident()
        self.on = True
        self._inside = False
        self._hooked: tuple[type[Any], Callable[[Any], Any]] | None = None

    def fetch(self, iterator: Source, following: Callable[[Source], T]) -> T:
        """``following(iterator)``, timed; a fetch inside a fetch belongs to the outer one."""
        if not self.on or threading.get_ident() != self.thread:
            return following(iterator)
        if hasattr(iterator, "_worker_result_queue"):
            self._totals[layout.DEPTHS] = layout.packed_depths(*queue_depths(iterator))
        if self._inside:
            return following(iterator)
        self._inside = True
        begun_ns = perf_counter_ns()
        try:
            return following(iterator)
        finally:
            self._totals[layout.DATA] += perf_counter_ns() - begun_ns
            self._totals[layout.FETCHES] += 1
            self._inside = False

    def hook_torch(self) -> bool:
        """Time every DataLoader of this process, when torch's are loaded; True once that is in place."""
        if self._hooked:
            return True
        base = getattr(sys.modules.get("torch.utils.data.dataloader"), "_BaseDataLoaderIter", None)
        if base is None:
            return False
        original = base.__next__

        @wraps(original)
        def watched(iterator: object) -> object:
            return self.fetch(iterator, original)

        base.__next__ = watched
        self._hooked = (base, original)
        return True

    def unhook(self) -> None:
        """Restore torch's own."""
        self.on = False
        if self._hooked:
            base, original = self._hooked
            base.__next__ = original
            self._hooked = None


def queue_depths(iterator: object) -> tuple[int, int, int]:
    """Return the batches of a DataLoader's iterator that are requested, ready from workers, and in pinned memory."""
    results, ready = getattr(iterator, "_worker_result_queue", None), getattr(iterator, "_data_queue", None)
    in_flight = int(getattr(iterator, "_tasks_outstanding", UNKNOWN_DEPTH))
    return in_flight, _depth(results), _depth(ready if ready is not results else None)


def _depth(queue: Any) -> int:  # noqa: ANN401 - a queue of threads, of processes, or none
    try:
        return int(queue.qsize())
    except (AttributeError, NotImplementedError, OSError):
        return UNKNOWN_DEPTH


class WatchedLoader(Generic[T]):
    """An iterable with timed fetches; everything else is the loader's own."""

    def __init__(self, loader: Iterable[T], watch: DataWatch) -> None:
        self._loader, self._watch = loader, watch

    def __iter__(self) -> Iterator[T]:
        return WatchedIterator(iter(self._loader), self._watch)

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]  # raises TypeError as the loader itself would

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self._loader, name)
        return found


class WatchedIterator(Generic[T]):
    """An iterator with timed fetches."""

    def __init__(self, iterator: Iterator[T], watch: DataWatch) -> None:
        self._iterator, self._watch = iterator, watch

    def __iter__(self) -> WatchedIterator[T]:
        return self

    def __next__(self) -> T:
        return self._watch.fetch(self._iterator, next)
