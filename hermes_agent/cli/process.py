"""The process: its streams, and Ctrl+C, which ends it at once whatever its threads are reading."""

from __future__ import annotations

import codecs
import io
import os
import signal
import sys
import threading
from types import FrameType

from hermes_agent.locations.copies import remove_temporary

ESCAPES = "hermes-dx-escapes"


def leave_at_once() -> None:
    """Make an interrupt end the process with exit code 130.

    Raising ``KeyboardInterrupt`` would not do: the interpreter waits for threads that read a run, which may take long.
    Processes that read for this one end when it does, and files are written whole or not at all.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Make an interrupt an exception again, for a screen that has to be restored."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        line = "\r\x1b[K" if os.isatty(2) else ""
        os.write(2, f"{line}hermes-dx: interrupted\n".encode())  # not through sys.stderr, which may be in mid-write
        sys.stdout.flush()
    except (OSError, RuntimeError, ValueError):
        pass  # a closed stream, or one that was being written
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
