"""Starts of the program that ended with an error, below each other in one output."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.run.recorded.job_log import Cited

TRACEBACK = "Traceback (most recent call last)"
MARKS = (TRACEBACK, "Namespace(", "unning training", "Training start", "Error", "Exception")
# What programs print once in a start; frames of a traceback show the arguments as well, behind other characters.
BEGINS = re.compile(
    r"(?:\A\s{0,9}|(?:\A|[^\w.])(?:args?|[Aa]rguments|[Cc]onfig)\s?[:=]\s?)Namespace\("
    r"|\bRunning training\b|\bTraining start\b"
)
ERROR = re.compile(r"\s{0,9}(?:[\w.]{1,80}\.)?(\w{1,60}(?:Error|Exception))(?::|\s*\Z)")
MOST_FAILED = 1 << 12


@dataclass
class FailedStarts:
    """Each with the name of its last error, once a later start begins: a program may go on after an error."""

    file: int
    found: list[Cited] = field(default_factory=list)
    _failing: int = 0  # the line of the first traceback since the start began
    _error: str = ""
    _step: int = -1

    def take(self, line: int, text: str) -> None:
        """Read a line that is no step line."""
        if not any(mark in text for mark in MARKS):
            return
        if TRACEBACK in text:
            self._failing = self._failing or line
        elif self._failing and (error := ERROR.match(text)):
            self._error = error[1]
        elif BEGINS.search(text):
            self._begun()

    def stepped(self, step: int) -> None:
        """Read the number of a step; one that does not fall is of the same start, which went on after its error."""
        if self._failing and 0 <= step <= self._step:
            self._begun()
        elif step >= 0:
            self._failing, self._error = 0, ""
        self._step = step

    def _begun(self) -> None:
        if self._failing and len(self.found) < MOST_FAILED:
            self.found.append(Cited(self._error, self._failing, self.file))
        self._failing, self._error, self._step = 0, "", -1
