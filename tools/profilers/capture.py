"""Which ranks to profile next, in words: the one that the coarse view suspects, else the two lowest."""

from __future__ import annotations

from tools.profilers.coarse import spread_pct
from tools.profilers.profile import Profile

STEPS = 3


def capture_of(profile: Profile) -> str:
    """What to record so that the parts of a step can be told, with the command for it."""
    ranks = ",".join(str(rank) for rank in _suspects(profile))
    command = f"hermes-dx monitor profile RUN_FOLDER --ranks {ranks} --steps {STEPS}"
    return f"a trace of a few steps: `{command}` while the training runs under the monitor"


def _suspects(profile: Profile) -> tuple[int, ...]:
    series = profile.series
    if series is None:
        return profile.rank_numbers[:2]
    if "own_ms" in series.usual and not series.usual["own_ms"].isna().any() and len(series.ranks) > 1:
        own = series.usual.groupby("rank")["own_ms"].mean()
        if spread_pct(own) >= profile.thresholds["rank_spread_pct"]:
            return (int(str(own.idxmax())),)
    return series.ranks[:2]
