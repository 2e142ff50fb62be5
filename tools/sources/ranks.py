"""Which rank each trace file belongs to, and which files are parts of one rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.run.model import RankOrigin

NAMED_RANK = (
    re.compile(r"(?:^|[^a-z])rank[_\-.]?(\d{1,7})(?!\d)", re.I),
    re.compile(r"(?:^|[^a-z])worker[_\-.]?(\d{1,7})(?!\d)", re.I),
    re.compile(r"(?:^|[_\-.])r(\d{1,7})(?=[_\-.]|$)", re.I),
    re.compile(r"[_\-](\d{1,5})\.(?:pt\.)?(?:trace\.)?json", re.I),
)
# tensorboard_trace_handler writes host_pid.time.pt.trace.json: the number in it is a process, not a rank.
HANDLER_NAME = re.compile(r"^(?P<host>.+)_(?P<pid>\d+)\.\d{10,}\.pt\.trace\.json(?:\.gz)?$")


@dataclass(frozen=True)
class RankGuess:
    """A file's rank and what says so."""

    rank: int
    origin: RankOrigin


def host_of(path: Path) -> str:
    """The host that a trace's file name tells, "" when it does not."""
    match = HANDLER_NAME.match(path.name)
    return match["host"] if match and not any(p.search(match["host"]) for p in NAMED_RANK[:2]) else ""


def assign_ranks(paths: Sequence[Path], recorded: Sequence[int | None]) -> list[RankGuess]:
    """A rank for each file: the recorded one, else the one in its name, else the lowest that is free."""
    guesses: list[RankGuess | None] = [None if rank is None else RankGuess(rank, "recorded") for rank in recorded]
    taken = {guess.rank for guess in guesses if guess}
    named = {at: _named_rank(path) for at, path in enumerate(paths) if guesses[at] is None}
    for at, rank in named.items():
        if rank is not None and rank not in taken:
            guesses[at] = RankGuess(rank, "file_name")
    taken |= {guess.rank for guess in guesses if guess}
    free = (rank for rank in range(len(paths) + len(taken)) if rank not in taken)
    return [guess or RankGuess(next(free), "order") for guess in guesses]


def _named_rank(path: Path) -> int | None:
    patterns = NAMED_RANK[:2] if HANDLER_NAME.match(path.name) else NAMED_RANK
    for text in (path.name, path.parent.name):
        for pattern in patterns:
            if match := pattern.search(text):
                return int(match[1])
    return None
