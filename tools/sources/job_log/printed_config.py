"""Settings in the configuration that programs of OpenMMLab print before they train: Python text over many lines.

Each stands in the block of its name: ``num_workers`` of ``train_dataloader``, the ``window_size`` over which
``log_processor`` (``mmengine/runner/log_processor.py``) takes means of step times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEAD = re.compile(r"\A(\w{1,60}) = dict\(")
MARKS = (" = dict(", "workers=", "workers_per_gpu", "window_size=")
# Right in the block, four spaces from the margin, or in the line of its head; in others below it, it is of a part.
OWN = {
    "train_dataloader": ("loader_workers", re.compile(r"\A {4}num_workers=(\d{1,4})[,)]")),
    "data": ("loader_workers", re.compile(r"\A {4}workers_per_gpu=(\d{1,4})[,)]")),
    "log_processor": ("mean_window", re.compile(r"\A {4}window_size=(\d{1,9})[,)]")),
}
IN_HEAD = {
    "train_dataloader": re.compile(r"\bnum_workers=(\d{1,4})[,)]"),
    "data": re.compile(r"\bworkers_per_gpu=(\d{1,4})[,)]"),
    "log_processor": re.compile(r"\A[^\[\]]{0,400}\bwindow_size=(\d{1,9})[,)]"),
}


@dataclass
class PrintedConfig:
    """Reads it line by line: the block whose head came last is the one that lines are in."""

    _block: str = ""

    def take(self, text: str) -> list[tuple[str, str]]:
        """The setting that the line states, by name; none otherwise."""
        if not any(mark in text for mark in MARKS):
            return []
        if head := HEAD.match(text):
            self._block = head[1] if head[1] in OWN else ""
            found = IN_HEAD[self._block].search(text) if self._block else None
        else:
            found = OWN[self._block][1].match(text) if self._block else None
        return [(OWN[self._block][0], found[1])] if found else []
