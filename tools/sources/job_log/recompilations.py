"""What torch.compile logs of functions that it compiles again, and where it reaches the limit of that.

Forms (torch/_dynamo/guards.py and convert_frame.py): ``[__recompiles] Recompiling function forward in model.py:284``
with ``- 0/3: tensor 'x' size mismatch at index 0. expected 20, actual 21`` below it; ``torch._dynamo hit
config.recompile_limit (8)`` with ``function: 'forward' (model.py:284)`` and ``last reason: ..`` below it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tools.run.recorded.job_log import Recompilation

AGAIN = re.compile(r"Recompiling function (\S{1,120}) in (\S{1,300})")
REASON = re.compile(r"(?:\A|\s)- (?:\d{1,6}/\d{1,6}: )?(\S.{0,300})")
LIMITED = re.compile(r"function: '(.{1,120}?)' \((\S{1,300})\)\s*\Z")
LAST_REASON = re.compile(r"last reason: (?:\d{1,6}/\d{1,6}: )?(\S.{0,300})")
HIT = re.compile(r"torch\._dynamo hit config\.(?:recompile_limit|cache_size_limit)|last reason: \d{1,6}/\d{1,6}: ")
MOST_FUNCTIONS = 1024
WITHIN = 4  # lines from the function to the reason; those of other ranks may stand between


@dataclass
class Recompilations:
    """Collects them by function, line by line."""

    file: int
    found: dict[tuple[str, str], Recompilation] = field(default_factory=dict)
    _open: tuple[str, str] | None = None
    _line: int = 0

    def take(self, line: int, text: str) -> bool:
        """Whether the line is of them alone: its "[1/8]" and its names are no step of the training."""
        after = self._open is not None and line - self._line <= WITHIN
        if not (after or "Recompiling function" in text or "function: '" in text):
            return False
        if again := AGAIN.search(text):
            self._count(line, (again[1], again[2]), limited=False)
        elif limited := LIMITED.search(text):
            self._count(line, (limited[1], limited[2]), limited=True)
        elif after and (reason := LAST_REASON.search(text)):
            self._explain(reason[1].strip())
        elif after and (reason := REASON.search(text)):
            self._explain(reason[1].strip())
            return False
        else:
            return False
        return True

    def _explain(self, reason: str) -> None:
        if self._open is not None:
            known = self.found[self._open]
            self.found[self._open] = replace(known, reason=known.reason or reason)

    def _count(self, line: int, function: tuple[str, str], limited: bool) -> None:
        if function not in self.found and len(self.found) >= MOST_FUNCTIONS:
            self._open = None
            return
        known = self.found.get(function) or Recompilation(*function, 0, 0, line, line, self.file)
        counts = (known.count + (not limited), known.limits + limited)
        self.found[function] = replace(known, count=counts[0], limits=counts[1], last_line=line)
        self._open, self._line = function, line


def logs_recompilations(text: str) -> bool:
    """Whether the line alone is of them, so that a file with it is output of a job."""
    return "Recompiling function" in text or HIT.search(text) is not None
