"""The change that makes chosen collectives shorter."""

from __future__ import annotations

from tools.analyzers.row_change import shortened
from tools.profilers.collectives import collectives
from tools.profilers.profile import Profile
from tools.whatif.change import Change, Scale


def scaled(
    profile: Profile, kind: str | None, factor: float, least_bytes: int = 0, longest_us: float = float("inf")
) -> Change:
    """The chosen collectives take ``factor`` times as long on every rank."""
    table = collectives(profile)
    chosen = table["bytes"] >= least_bytes if least_bytes else table["step"] >= 0
    chosen &= (table["end_ns"] - table["start_ns"]) / 1e3 <= longest_us
    if kind is not None:
        chosen &= table["kind"] == kind
    table = table[chosen]
    result: list[Scale] = []
    for rank in profile.ranks:
        rows = table["row"].to_numpy()[(table["rank"] == rank.rank.rank).to_numpy()]
        result.extend(shortened(rank, rows, factor, 0.5 * (1.0 + factor)))
    return tuple(result)
