"""Which ranks a finding is about, and which of them to show."""

from __future__ import annotations

from collections.abc import Mapping


def affected(shares_pct: Mapping[int, float], noted_pct: float) -> tuple[int, ...]:
    """The ranks whose share is worth noting and at least a fifth of the worst rank's; ascending."""
    worst = max(shares_pct.values(), default=0.0)
    return tuple(sorted(rank for rank, share in shares_pct.items() if share >= max(noted_pct, worst / 5.0)))


def worst_of(shares_pct: Mapping[int, float]) -> int:
    """The rank with the largest share; the lowest of several."""
    return min(shares_pct, key=lambda rank: (-shares_pct[rank], rank))
