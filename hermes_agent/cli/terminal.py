"""The terminal: tables, JSON, colours, the progress line, the process's streams and Ctrl+C."""

from __future__ import annotations

import argparse
import codecs
import io
import json
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, TextIO, TypeVar

from hermes_agent.locations.places import remove_temporary
from tools.errors import ExitCode

if TYPE_CHECKING:
    from hermes_agent.model.events import Event
    from hermes_agent.report.text import Style

CODES = {"heading": "1", "cause": "1", "problem": "1;31", "healthy": "1;32", "inconclusive": "1;33"}
WIDEST = 110
NO_TERMINAL = 100
DELAY_S = 0.3  # shorter work shows no bar
BAR = 20
LONGEST_NOTE = 4000  # characters: several paths, each as long as a system takes
# What follows the scheme of an address up to the last @ (a password may hold one), or stands in its query.
USER_IN_URL = re.compile(r"""(://)[^\s'"]*(?=@)""")
QUERY_IN_URL = re.compile(r"""(://[^\s'"?#]*[?#])[^\s'"]*""")
Row = TypeVar("Row")


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a table whose first ``left`` columns are flush left and the others flush right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    forms = [f"{'<' if place < left else '>'}{width}" for place, width in enumerate(widths)]
    return "\n".join("  ".join(map(format, row, forms)).rstrip() for row in (header, *rows))


def print_json(record: object) -> None:
    """Write a record to standard output."""
    print(json.dumps(record, indent=2))


def note(text: str) -> None:
    """Write one line to standard error."""
    from hermes_agent.evidence.printable import printable

    print(f"hermes-dx: {printable(text, LONGEST_NOTE)}", file=sys.stderr)


class DebugFormat(logging.Formatter):
    """Messages and tracebacks as lines that a terminal shows as they are, without passwords in addresses."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the message with its traceback."""
        return _for_debugging(super().format(record))


def print_traceback() -> None:
    """Write the traceback of the exception being handled to standard error."""
    print(_for_debugging(traceback.format_exc()), file=sys.stderr, end="")


def _for_debugging(text: str) -> str:
    from hermes_agent.evidence.printable import printable

    masked = (QUERY_IN_URL.sub(r"\1...", USER_IN_URL.sub(r"\1...", line)) for line in text.split("\n"))
    return "\n".join(printable(line, LONGEST_NOTE) for line in masked)


def print_rows(args: argparse.Namespace, schema: str, rows: list[Row], table_text: Callable[[list[Row]], str]) -> int:
    """Write rows to standard output, as JSON with ``--json``, else as a table; return the exit code."""
    if args.json:
        print_json({"schema": schema, "rows": rows})
    else:
        print(table_text(rows))
    return ExitCode.OK


def terminal_style() -> Style:
    """Return escape codes if standard output is a terminal and NO_COLOR is unset."""
    from hermes_agent.report.text import unstyled

    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return unstyled
    return lambda text, name: f"\x1b[{CODES[name]}m{text}\x1b[0m" if name in CODES else text


def terminal_width() -> int:
    """Return the columns of the terminal, or a fixed number without one."""
    return min(shutil.get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else NO_TERMINAL


class TerminalProgress:
    """One line on standard error that is rewritten during the work and removed at its end; nothing in a pipe."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._begun = time.monotonic()
        self._shown = False

    def __enter__(self) -> TerminalProgress:
        return self

    def __exit__(self, *failure: object) -> None:
        self._clear()

    def __call__(self, event: Event) -> None:
        """Show the progress that an event reports."""
        from hermes_agent.model.events import CheckFinished, NotStored, StageProgress, StageStarted

        match event:
            case StageStarted(stage):
                self._show(f"{stage.value.replace('_', ' ')} ...")
            case StageProgress(stage, done, total, detail):
                self.update(stage.value, done, total, detail)
            case CheckFinished(analyzer=name):
                self._show(f"check {name.replace('_', ' ')} ...")
            case NotStored(text):
                self._clear()
                note(text)
            case _:
                pass

    def update(self, stage: str, done: int, total: int, detail: str) -> None:
        """Show a bar; readers of files call this directly."""
        if total:
            filled = BAR * done // total
            self._show(f"{stage} [{'#' * filled}{'.' * (BAR - filled)}] {done}/{total} {detail}")

    def _clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False

    def _show(self, text: str) -> None:
        if not self._live or time.monotonic() - self._begun < DELAY_S:
            return
        columns = shutil.get_terminal_size().columns
        printable = "".join(char if char.isprintable() else " " for char in text)
        self._stream.write(f"\r\x1b[K{printable[: columns - 1]}")
        self._stream.flush()
        self._shown = True


ESCAPES = "hermes-dx-escapes"


def leave_at_once() -> None:
    """Make an interrupt end the process with exit code 130, also while threads read a run, which may take long."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Make an interrupt an exception again, for a screen that has to be restored."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    with suppress(OSError, RuntimeError, ValueError):  # a closed stream, or one that was being written
        line = "\r\x1b[K" if os.isatty(2) else ""
        os.write(2, f"{line}hermes-dx: interrupted\n".encode())  # not through sys.stderr, which may be in mid-write
        sys.stdout.flush()
    remove_temporary()
    os._exit(130)


def settle_streams() -> None:
    """Open closed streams on nothing, and write characters that an encoding lacks as ``\\uXXXX``, as JSON does."""
    codecs.register_error(ESCAPES, _escaped)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - open to the end
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ESCAPES)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)), error.end
