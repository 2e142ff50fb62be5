"""Colours for a terminal, and none elsewhere."""

from __future__ import annotations

import os
import shutil
import sys

from hermes_agent.report.text import Style, unstyled

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
