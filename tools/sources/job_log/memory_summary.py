"""The table that ``torch.cuda.memory_summary()`` prints: how often memory ran out, and what is allocated and reserved.

https://docs.pytorch.org/docs/stable/generated/torch.cuda.memory.memory_summary.html; its rows are those of
``memory_stats``: ``num_ooms``, ``num_alloc_retries``, ``allocated_bytes``, ``reserved_bytes`` and
``inactive_split_bytes``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.run.recorded.job_log import Cited
from tools.sources.job_log.numbers import number

COUNTS = re.compile(r"\|\s{0,20}CUDA OOMs: (\d{1,9})\s{0,20}\|\s{0,20}cudaMalloc retries: (\d{1,9})\s{0,20}\|")
AMOUNT = r"(\d{1,9}) ([KMGT]?i?B)\s{0,20}\|"
ROW = re.compile(
    rf"\|\s{{0,9}}(Allocated|GPU reserved|Non-releasable) memory\s{{0,20}}\|\s{{0,20}}{AMOUNT}\s{{0,20}}{AMOUNT}"
)
NAMES = {"Allocated": "allocated", "GPU reserved": "reserved", "Non-releasable": "unreleasable"}
BYTES = {f"{unit}{of}": 1024**at for at, unit in enumerate(("", "K", "M", "G", "T")) for of in ("B", "iB")}


def failures(summary: Mapping[str, Cited]) -> tuple[int, int]:
    """How often memory ran out by a summary, and how often cudaMalloc was tried again; -1 of none."""
    return (int(summary["ooms"].value), int(summary["retries"].value)) if summary else (-1, -1)


@dataclass
class MemorySummary:
    """Of the summaries in a file the one with the most failures: of one process the last, of several the worst."""

    file: int
    found: dict[str, Cited] = field(default_factory=dict)
    _open: bool = False

    def take(self, line: int, text: str) -> bool:
        """Whether the line is a row of a summary."""
        if counts := COUNTS.search(text):
            self._open = not self.found or (int(counts[1]), int(counts[2])) >= failures(self.found)
            if self._open:
                self.found = {name: self._cited(counts[at], line) for at, name in ((1, "ooms"), (2, "retries"))}
            return True
        if (row := ROW.search(text)) is None:
            return False
        if self._open:
            name = NAMES[row[1]]
            self.found[name] = self._cited(_bytes(row[2], row[3]), line)
            self.found[f"peak_{name}"] = self._cited(_bytes(row[4], row[5]), line)
        return True

    def _cited(self, value: str, line: int) -> Cited:
        return Cited(value, line, self.file)


def _bytes(amount: str, unit: str) -> str:
    return str((number(amount) or 0.0) * BYTES.get(unit, 1))
