"""Events as progress on standard error: a bar on a terminal, nothing elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import TextIO

from hermes_agent.model.events import CheckFinished, Event, Notice, StageFinished, StageProgress, StageStarted

DELAY_S = 0.3  # work that ends sooner shows no bar
BAR = 20


class TerminalProgress:
    """One line that is rewritten while the work goes on and gone when it is done."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._begun = time.monotonic()
        self._shown = False

    def __enter__(self) -> TerminalProgress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._clear()

    def __call__(self, event: Event) -> None:
        """Shows what the event says of the progress."""
        match event:
            case StageStarted(stage):
                self._show(f"{stage.value.replace('_', ' ')} ...")
            case StageProgress(stage, done, total, detail) if total:
                filled = BAR * done // total
                self._show(f"{stage.value} [{'#' * filled}{'.' * (BAR - filled)}] {done}/{total} {detail}")
            case CheckFinished(analyzer=name):
                self._show(f"looking at {name.replace('_', ' ')} ...")
            case StageFinished() | Notice():
                pass
            case _:
                pass

    def _show(self, text: str) -> None:
        if not self._live or time.monotonic() - self._begun < DELAY_S:
            return
        columns = shutil.get_terminal_size().columns
        printable = "".join(char if char.isprintable() else " " for char in text)
        self._stream.write(f"\r\x1b[K{printable[: columns - 1]}")
        self._stream.flush()
        self._shown = True

    def _clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
