"""Megatron-LM's straggler report: the ranks with the least and the most time, power, heat, clock and throughput."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST_ROWS = 1 << 20
MARK = "Rtt/Rnk: "
# "MxRtt/Rnk: 1147.00ms/7": value, unit and rank (core/utils.py: StragglerDetector.report); the time of a batch, DRtt,
# has the unit of another figure there and is left out.
FIGURE = re.compile(r"\b(M[nx])(Rtt|Pwr|Tmp|Utl|Clk|Etpt)/Rnk: (\d{1,9}(?:\.\d{1,9})?)(?:ms|W|C|%|MHz|TF)/(\d{1,7})\b")
NAMES = {
    **{"Rtt": "time", "Pwr": "power", "Tmp": "temperature", "Utl": "utilization", "Clk": "clock"},
    "Etpt": "throughput",
}


@dataclass
class RankReports:
    """Rows of ``RANK_REPORT_COLUMNS`` without the file, report by report."""

    rows: list[dict[str, object]] = field(default_factory=list)

    def take(self, line: int, text: str) -> bool:
        """Whether the line is such a report."""
        if MARK not in text or not (found := FIGURE.findall(text)):
            return False
        if len(self.rows) < MOST_ROWS:
            self.rows += [
                {"line": line, "figure": NAMES[name], "most": end == "Mx", "value": float(value), "rank": int(rank)}
                for end, name, value, rank in found
            ]
        return True
