"""Calls of one host operator that cost far more than others of the same name in every step."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.views.profile import Profile, memoized
from tools.views.work import own_ns

SEVERAL = 4  # calls in a step that show what the operator usually costs
FEWEST_STEPS = 3  # in which the same call is long; in fewer it may have been held up
CHEAP = 0.25  # of the calls of a step are what the operator costs elsewhere


@memoized
def costly_calls(profile: Profile, rank: int) -> pd.DataFrame:
    """The calls of the operator that lose most to such differences: columns row, name, own_ns, costly.

    Calls are compared by their place in the step, the median over steps, so a call that is held up once does not
    count; ``costly`` are those of ``slow_math_ratio`` times the cheapest quarter. Operators that a step does not call
    equally often are left out. Empty where shapes are recorded (rates say more then) and on ranks with a device.
    """
    view = profile.rank(rank)
    rows = view.in_steps(view.host_compute_rows)
    rows = rows[~view.named("enclosing_operator")[rows]]
    none = pd.DataFrame({"row": rows[:0], "name": rows[:0], "own_ns": rows[:0], "costly": rows[:0] > 0})
    if view.rank.has_device or len(view.events.details.operators) or len(view.steps) < FEWEST_STEPS or not len(rows):
        return none
    rows = rows[np.argsort(view.start[rows], kind="stable")]
    calls = pd.DataFrame(
        {
            "row": rows,
            "name": view.codes[rows],
            "step": view.step_of(rows),
            "own_ns": own_ns(view.track[rows], view.start[rows], view.end[rows]),
        }
    )
    counts = calls.groupby(["name", "step"]).size().unstack(fill_value=0).reindex(columns=view.steps["number"])
    even = counts[(counts.nunique(axis=1, dropna=False) == 1) & (counts.min(axis=1) >= SEVERAL)].index
    calls = calls[calls["name"].isin(even)]
    if calls.empty:
        return none
    calls = calls.assign(place=calls.groupby(["name", "step"]).cumcount())
    calls = calls.assign(usual_ns=calls.groupby(["name", "place"])["own_ns"].transform("median"))
    cheap_ns = calls.groupby("name")["usual_ns"].transform("quantile", CHEAP)
    calls = calls.assign(costly=calls["usual_ns"] >= profile.thresholds["slow_math_ratio"] * cheap_ns.clip(lower=1.0))
    spent = calls[calls["costly"]].groupby("name")["own_ns"].sum()
    if spent.empty:
        return none
    found: pd.DataFrame = calls.loc[calls["name"] == spent.idxmax(), ["row", "name", "own_ns", "costly"]]
    return found.reset_index(drop=True)
