"""A blocking source read in a thread, so that a user can break it off while it waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

POLL_S = 0.05
QUEUE_SIZE = 256


class Interrupted(Exception):
    """The user broke it off."""


@dataclass(frozen=True)
class _Item(Generic[T]):
    value: T


@dataclass(frozen=True)
class _End:
    error: Exception | None


def pumped(produce: Callable[[], Iterator[T]], cancelled: Callable[[], bool]) -> Iterator[T]:
    """What ``produce()`` yields, read in a thread; raises its error, or Interrupted once ``cancelled``.

    After an interruption the thread ends as soon as its source yields or times out.
    """
    items: queue.Queue[_Item[T] | _End] = queue.Queue(QUEUE_SIZE)
    stop = threading.Event()
    thread = threading.Thread(target=_read, args=(produce, items, stop), name="hermes-model-stream", daemon=True)
    thread.start()
    try:
        while True:
            if cancelled():
                raise Interrupted
            try:
                item = items.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if isinstance(item, _Item):
                yield item.value
            elif item.error is not None:
                raise item.error
            else:
                return
    finally:
        stop.set()


def _read(produce: Callable[[], Iterator[T]], items: queue.Queue[_Item[T] | _End], stop: threading.Event) -> None:
    error: Exception | None = None
    try:
        for value in produce():
            if not _put(items, _Item(value), stop):
                return
    except Exception as caught:  # whatever it is belongs to the thread that asked, where it is raised again
        error = caught
    _put(items, _End(error), stop)


def _put(items: queue.Queue[_Item[T] | _End], item: _Item[T] | _End, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            items.put(item, timeout=POLL_S)
        except queue.Full:
            continue
        return True
    return False
