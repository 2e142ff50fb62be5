"""Big job logs, made from a recorded one by repeating it with step numbers that go on.

``python -m evals.benchmarks.big_logs SOURCE TARGET BYTES`` writes one.
"""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.sources.job_log.grammars.generic_lines import STEP


@dataclass(frozen=True)
class BigLog:
    """What was written."""

    path: Path
    lines: int
    steps: int  # lines with the number of a step

    @property
    def size_bytes(self) -> int:
        return self.path.stat().st_size


def enlarge_log(source: Path, target: Path, size_bytes: int) -> BigLog:
    """Write a log of at least so many bytes; ``ValueError`` where no line of the source names a step."""
    opened = gzip.open if source.suffix == ".gz" else open
    with opened(source, "rt", encoding="utf-8", errors="replace") as text:
        lines = [(line, STEP.search(line)) for line in text]
    numbers = [int(found[1]) for _, found in lines if found]
    if not numbers:
        raise ValueError(f"{source} names no step")
    written = copies = 0
    with target.open("w", encoding="utf-8") as out:
        while written < size_bytes:
            written += sum(out.write(line) for line in _moved(lines, copies * max(numbers)))
            copies += 1
    return BigLog(target, copies * len(lines), copies * len(numbers))


def _moved(lines: list[tuple[str, re.Match[str] | None]], by: int) -> Iterator[str]:
    for line, found in lines:
        yield line if found is None else f"{line[: found.start(1)]}{int(found[1]) + by}{line[found.end(1) :]}"


if __name__ == "__main__":
    made = enlarge_log(Path(sys.argv[1]), Path(sys.argv[2]), int(float(sys.argv[3])))
    print(f"{made.path}: {made.lines:,} lines, {made.steps:,} with a step, {made.size_bytes:,} bytes")
