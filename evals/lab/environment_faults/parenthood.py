"""How a program next to the training behaves: says that it is ready, and ends with whoever started it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

LOOK_S = 0.5


def say_ready(known_as: str) -> None:
    """Notify the parent that all is set up; ``known_as`` is the name other processes of the machine see."""
    Path("/proc/self/comm").write_text(known_as[:15], encoding="ascii")
    print("ready", flush=True)


def end_with_parent() -> None:
    """From now on, end this process soon after its parent has gone."""
    parent = os.getppid()
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(0)
