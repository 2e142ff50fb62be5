"""What people said of the bot's answers, by cause: ``python -m evals.feedback [FILE]``.

The file is the one that ``hermes-dx slack`` writes (``docs/slack.md``). For each cause: how many answers named it, how
many of those were right, and the mean confidence next to that share: a calibrated confidence is as large.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.bot.feedback import FILE, Feedback, read_feedback
from hermes_agent.config.sources import xdg_folder
from hermes_agent.evidence.printable import printable
from tools.errors import HermesError


@dataclass(frozen=True)
class Row:
    """Answers with one verdict or cause; ``confidence`` is None where the verdict names no cause."""

    named: str
    answers: int
    right: int
    confidence: float | None
    instead: tuple[tuple[str, int], ...]  # the causes that people named, most often first


def rows_of(lines: Sequence[Feedback]) -> tuple[Row, ...]:
    """One row per cause, else per verdict, those judged most often first."""
    groups: dict[str, list[Feedback]] = defaultdict(list)
    for each in lines:
        groups[each.cause or each.verdict].append(each)
    rows = []
    for named, group in groups.items():
        known = [each.confidence for each in group if each.confidence is not None]
        mean = sum(known) / len(known) if known else None
        instead = Counter(each.actual for each in group if each.actual)
        rows.append(Row(named, len(group), sum(each.right for each in group), mean, tuple(instead.most_common())))
    return tuple(sorted(rows, key=lambda row: (-row.answers, row.named)))


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| answer | judged | right | share right | mean confidence | named instead |", "|---|---|---|---|---|---|"]
    for row in rows:
        confidence = "" if row.confidence is None else f"{row.confidence:.2f}"
        instead = ", ".join(f"{printable(cause, 60)} ({count})" for cause, count in row.instead)
        share = f"{row.right / row.answers:.2f}"
        lines.append(
            f"| {printable(row.named, 60)} | {row.answers} | {row.right} | {share} | {confidence} | {instead} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    usual = xdg_folder(os.environ, "XDG_DATA_HOME", ".local/share") / FILE
    parser = argparse.ArgumentParser(prog="python -m evals.feedback", description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("file", nargs="?", type=Path, default=usual, metavar="FILE", help="default: %(default)s")
    file: Path = parser.parse_args().file
    try:
        lines = read_feedback(file)
    except HermesError as error:
        raise SystemExit(str(error)) from error
    if not lines:
        raise SystemExit(f"{file}: nobody has judged an answer yet")
    print(table(rows_of(lines)))


if __name__ == "__main__":
    main()
