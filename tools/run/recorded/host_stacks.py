"""Stacks of host threads that a sampling profiler such as py-spy saw, by process and rank."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from tools.run.events import empty_table

STACK_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("rank", "pid", "file", "stack"), "int64"),
    "thread": "str",
    "main": "bool",
    **dict.fromkeys(("samples", "seconds"), "float64"),
}


@dataclass(frozen=True, eq=False)
class HostStacks:
    """One row of ``rows`` (``STACK_COLUMNS``) for each different stack of a thread: rank and pid are -1 where they are
    not known, ``main`` is False for threads that are no training thread as far as their name and frames tell,
    ``seconds`` is NaN where the profiler states none. ``stacks`` holds frames as "function (file:line)", outermost
    first; ``file`` counts ``files``.
    """

    rows: pd.DataFrame
    stacks: tuple[tuple[str, ...], ...]
    files: tuple[str, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks whose main thread was sampled, ascending; -1 for a process whose rank is not known."""
        return tuple(int(rank) for rank in sorted(self.training["rank"].unique()))

    @cached_property
    def training(self) -> pd.DataFrame:
        """The rows of training threads."""
        return self.rows[self.rows["main"]]


def joined_stacks(parts: list[HostStacks]) -> HostStacks | None:
    """The stacks of several files as one record; None without any."""
    if not parts:
        return None
    tables: list[pd.DataFrame] = []
    stacks: list[tuple[str, ...]] = []
    files: list[str] = []
    for part in parts:
        moved = {"stack": part.rows["stack"] + len(stacks), "file": part.rows["file"] + len(files)}
        tables.append(part.rows.assign(**moved))
        stacks += part.stacks
        files += part.files
    filled = [table for table in tables if len(table)]
    rows = pd.concat(filled, ignore_index=True) if filled else empty_table(STACK_COLUMNS)
    return HostStacks(rows, tuple(stacks), tuple(files))
