"""Rows as aligned text for a terminal."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import sys
from collections.abc import Sequence

from hermes_agent.report.text import Style, unstyled


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table whose first ``left`` columns are flush left and the others flush right."""
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    )


CODES = {
    "heading": "1",
    "cause": "1",
    "problem": "1;31",
    "healthy": "1;32",
    "inconclusive": "1;33",
}
WIDEST = 110
NO_TERMINAL = 100


def terminal_style() -> Style:
    """Escape codes when standard output is a terminal and NO_COLOR is unset."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return unstyled
    return lambda text, name: f"\x1b[{CODES[name]}m{text}\x1b[0m" if name in CODES else text


def terminal_width() -> int:
    """Columns to write in: those of the terminal, a fixed number where there is none."""
    return min(shutil.get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else NO_TERMINAL


ESCAPES = "hermes-dx-escapes"


def settle_streams() -> None:
    """Opens a closed stream on nothing, and has characters that a stream's encoding lacks written as ``\\uXXXX``.

    That form is valid inside JSON strings as well.
    """
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
