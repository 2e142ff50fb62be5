"""The critical path by family, and what each family's work costs the step; both by replay of the dependency graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from tools.metrics.measurement import Measurement, choice, metric
from tools.views.profile import Profile
from tools.whatif.critical_path import critical_path, family_savings
from tools.whatif.families import FAMILIES, REMOVABLE
from tools.whatif.predict import unchanged

SHOWN = 200  # rows of the path that are shown, longest first


@metric("ms", "{family} time per step on the critical path", "How much of the critical path is this family?")
def critical_path_ms(profile: Profile, family: str, rank: int | None = None) -> Measurement:
    """Time per step on the critical path that one family's work (or idleness) takes, on one rank or on all."""
    choice("family", family, FAMILIES)
    number = None if rank is None else profile.rank(rank).rank.rank
    value = critical_path(profile).ms(number)[family]
    return _measured(profile, value, lambda: _rows(profile, family, number), f"critical path, {family}", number)


@metric("ms", "step time covered by the critical path", "How long are the steps on the critical path?")
def critical_path_step_ms(profile: Profile) -> Measurement:
    """Mean time of the steps that the critical path covers: the slowest rank's wall time."""
    window = unchanged(profile).graph.window
    steps = pd.DataFrame({"number": window.steps, "step_ms": window.step_ms})
    return _measured(profile, window.recorded_step_ms, lambda: steps, "steps on the critical path", None)


@metric("ms", "unexplained idle time on the critical path", "How much of the path is unexplained?")
def critical_path_unexplained_ms(profile: Profile) -> Measurement:
    """Idle time per step on the critical path for which no reason was recorded or could be inferred."""
    value = critical_path(profile).unexplained_ms
    return _measured(profile, value, lambda: _rows(profile, "idle", None), "critical path, unexplained delays", None)


@metric("ms", "step time saved without any {family} work", "What does the step lose without this family?")
def family_saving_ms(profile: Profile, family: str) -> Measurement:
    """What a step would lose if all work of the family took no time, everything else staying as it is."""
    choice("family", family, REMOVABLE)
    table = pd.DataFrame(list(family_savings(profile)))[["family", "path_ms", "saving_ms"]]
    value = table.set_index("family")["saving_ms"].fillna(0.0)[family]
    return _measured(profile, value, lambda: table, f"replay without {family}", None)


def _rows(profile: Profile, family: str, rank: int | None) -> pd.DataFrame:
    segments = critical_path(profile).segments
    chosen = segments[segments["what"] == family]
    chosen = chosen if rank is None else chosen[chosen["rank"] == rank]
    longest = (chosen["end_ns"] - chosen["start_ns"]).sort_values(ascending=False, kind="stable").index[:SHOWN]
    table = chosen.loc[longest].reset_index(drop=True)
    names = [
        profile.rank(int(number)).names(np.array([row]))[0] if row >= 0 else ""
        for number, row in zip(table["rank"], table["row"], strict=True)
    ]
    return table.assign(name=names)


def _measured(
    profile: Profile, value: float, rows: Callable[[], pd.DataFrame], selector: str, rank: int | None
) -> Measurement:
    window = unchanged(profile).graph.window
    ranks = window.ranks if rank is None else (rank,)
    span = (window.origin_ns, int(window.end_ns.max()))
    return Measurement(float(value), rows, selector, ranks, window.steps, span)
