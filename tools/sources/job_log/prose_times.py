"""Times of named work that lines state in a sentence, and timers of a batch that no unit is stated of."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.run.recorded.job_log import NamedTime
from tools.sources.job_log.evaluation_times import evaluation_s
from tools.sources.job_log.numbers import NUMBER, UNIT, in_ms
from tools.sources.job_log.warnings import XLA_TOOK

# "forward took 0.3 s", "[rank 0] all reduce took: 12 ms": at most four words, without a number of its own.
TOOK = re.compile(
    rf"(?:\A|[^\w\s.,'-]\s{{0,3}})((?:[A-Za-z][\w-]{{1,24}} ){{1,4}})(?:took|finished in|completed in|done in):? "
    rf"({NUMBER}) ?({UNIT})(?![\w/])"
)
MARKS = ("took", " in ")
# "Test: [40/124] Data 316 (265) Batch 317 (268)": the meters of an evaluation by their last value and mean.
METERS = re.compile(rf"\b(?:Test|Val|Eval): ?\[\s*\d+/\d+\]\s.{{0,40}}?\b(?:Data|Batch|Time) {NUMBER} \({NUMBER}\)")
MOST_NAMES, MOST_TIMES = 64, 1 << 14
UNREAD = "{} lines from line {} on state times of the batches of an evaluation without a unit: not read"


@dataclass
class ProseTimes:
    """Times by the name of the work."""

    file: int
    found: dict[str, list[NamedTime]] = field(default_factory=dict)
    _unread: int = 0
    _first: int = 0

    def take(self, line: int, text: str) -> None:
        """Read a line of no other kind."""
        if "[" in text and METERS.search(text):
            self._unread += 1
            self._first = self._first or line
        if not any(mark in text for mark in MARKS) or evaluation_s(text) is not None:
            return
        named = TOOK.search(text)
        wall_ms = in_ms(named[2], named[3]) if named else None
        if named is None or wall_ms is None or "poch" in named[1] or XLA_TOOK.search(text):
            return
        name = named[1].strip()
        if name in self.found or len(self.found) < MOST_NAMES:
            own = self.found.setdefault(name, [])
            if len(own) < MOST_TIMES:
                own.append(NamedTime(name, wall_ms, line, self.file))

    def notes(self) -> list[str]:
        """What is not read."""
        return [UNREAD.format(self._unread, self._first)] if self._unread else []
