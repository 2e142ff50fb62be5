"""How causes, families and scopes are called in prose: one place for all frontends."""

from __future__ import annotations

from collections.abc import Sequence

FAMILY_TITLES = {
    "parallel": "overlap and critical path",
    "io": "data input",
    "cpu": "host program",
    "computation": "computation",
    "communication": "communication",
    "memory": "memory",
    "storage": "storage",
}

PART_TITLES = {
    "compute": "computation",
    "exposed_communication": "exposed communication",
    "exposed_memcpy": "exposed copies",
    "data_wait": "waiting for data",
    "host": "host program",
    "idle": "idle with work launched",
}


def plain(identifier: str) -> str:
    """An id of the taxonomy in words."""
    return identifier.replace("_", " ")


def cause_title(cause: str, mechanism: str | None) -> str:
    """A cause with its mechanism in words."""
    return plain(cause) + (f" ({plain(mechanism)})" if mechanism else "")


def rank_list(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0, 1 and 4`` or ``ranks 0 to 7``."""
    numbers = sorted(ranks)
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"ranks {numbers[0]} to {numbers[-1]}"
    return f"ranks {', '.join(str(number) for number in numbers[:-1])} and {numbers[-1]}"


def on_ranks(ranks: Sequence[int], all_ranks: Sequence[int]) -> str:
    """`` on rank 1`` when that says something, else nothing."""
    if not ranks or set(ranks) == set(all_ranks):
        return ""
    return f" on {rank_list(ranks)}"
