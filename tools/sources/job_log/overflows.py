"""Steps that DeepSpeed says it skips for overflow, where no line states how many were skipped."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

MOST_LINES = 1 << 20
# Of the loss scaler of one rank, once for each skipped step (fp16/loss_scaler.py, zero/stage3.py).
SKIPS = re.compile(r"OVERFLOW! Rank (\d{1,7}) Skipping step\.")


@dataclass
class Overflows:
    """The lines that say so of the first rank that any names: other ranks skip the same steps."""

    lines: array[int] = field(default_factory=lambda: array("q"))
    _rank: str = ""

    def take(self, line: int, text: str) -> None:
        """Read a line that speaks of an overflow."""
        found = SKIPS.search(text)
        if found is None or len(self.lines) >= MOST_LINES:
            return
        self._rank = self._rank or found[1]
        if found[1] == self._rank:
            self.lines.append(line)

    def counted(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of steps with those skipped since the row before, where no row states any; at most its ``span``."""
        if not self.lines or table.empty or table["skipped"].notna().any():
            return table
        before = np.searchsorted(np.array(self.lines), table["line"].to_numpy())
        skipped = np.diff(before, prepend=0)
        return table.assign(skipped=np.minimum(skipped, table["span"].to_numpy()).astype(np.float64))
