"""Calls of host operators that take far longer than the same operator usually does: the thread was taken off its core.

A scheduler gives a core to somebody else for a slice of some milliseconds, so an operator that usually takes 0.3 ms
takes 4 ms now and then. A slow processor, a larger input or a missing fused kernel lengthen every call instead.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.intervals import length
from tools.views.profile import Profile, memoized
from tools.views.work import own_ns

SEVERAL = 5  # calls of one operator and shape that show what is usual
TIMES_USUAL = 1.5
FASTEST = 0.25  # of the calls of a kind are taken to be undisturbed where others take the core now and then
CALLS = ("row", "own_ns", "name", "dims", "usual_ns", "size")
MOSTLY, LITTLE = 0.6, 0.2  # of the delay in one kind of operator, and of the work that it does


@memoized
def held_up(profile: Profile, rank: int) -> pd.DataFrame:
    """The calls of one rank's training threads that were held up inside its steps: columns row, own_ns, usual_ns.

    ``own_ns`` is a call's time without the operators inside it, ``usual_ns`` the median over calls of the same name
    and recorded shapes. Empty for ranks with a device, whose operators wait for other reasons.
    """
    calls = _calls(profile, rank)
    over = calls["own_ns"] - calls["usual_ns"]
    late = (
        (calls["dims"] >= 0)
        & (over >= 1e6 * profile.thresholds["scheduler_slice_ms"])
        & (calls["own_ns"] >= TIMES_USUAL * calls["usual_ns"])
        & (calls["size"] >= SEVERAL)
    )
    found: pd.DataFrame = calls.loc[late, ["row", "own_ns", "usual_ns"]].reset_index(drop=True)
    return found


@memoized
def _calls(profile: Profile, rank: int) -> pd.DataFrame:
    """All calls of the rank's operators: columns row, own_ns, name, dims (-1 unknown), usual_ns, size (of its kind)."""
    view = profile.rank(rank)
    rows = view.in_steps(view.host_compute_rows)
    rows = rows[~view.named("enclosing_operator")[rows]]  # their own time is that of Python, or waiting
    if view.rank.has_device or not len(rows):
        return pd.DataFrame({name: rows[:0] for name in CALLS})
    recorded = view.events.details.operators
    calls = pd.DataFrame(
        {
            "row": rows,
            "own_ns": own_ns(view.track[rows], view.start[rows], view.end[rows]),
            "name": view.codes[rows],
            "dims": np.append(recorded["dims"].cat.codes.to_numpy(), -1)[view.places(recorded, rows)],
        }
    )
    groups = calls.groupby(["name", "dims"])["own_ns"]
    return calls.assign(usual_ns=groups.transform("median"), size=groups.transform("size"))


@memoized
def undisturbed_shares(profile: Profile, rank: int) -> tuple[float, float]:
    """Of their time, what the held-up calls and all other host time of the rank would keep undisturbed.

    Undisturbed is a call as short as the shortest quarter of the calls with its name and shapes. Others also take
    less than a slice, or take it between operators, where nothing shows it but the operators around.
    """
    view, calls = profile.rank(rank), _calls(profile, rank)
    calls = calls[(calls["dims"] >= 0) & (calls["size"] >= SEVERAL)]
    late = calls["row"].isin(held_up(profile, rank)["row"])
    best_ns = np.minimum(calls.groupby(["name", "dims"])["own_ns"].transform("quantile", FASTEST), calls["own_ns"])
    rows = calls.loc[late, "row"].to_numpy(np.int64)
    excess_ns = float((calls["own_ns"] - best_ns)[late].sum())
    held = 1.0 - excess_ns / max(float((view.end[rows] - view.start[rows]).sum()), 1.0)
    rest = float(best_ns[~late].sum()) / max(float(calls.loc[~late, "own_ns"].sum()), 1.0)
    return min(max(held, 0.0), 1.0), min(rest, 1.0)


@memoized
def one_operator(profile: Profile, rank: int) -> bool:
    """Whether most of the delay is in one kind of operator that does little of the work.

    Who takes a core away strikes whatever runs on it, the longer it runs the more often.
    """
    view, calls = profile.rank(rank), held_up(profile, rank)
    if calls.empty:
        return False
    codes = view.codes[calls["row"].to_numpy(np.int64)]
    delay = (calls["own_ns"] - calls["usual_ns"]).groupby(codes).sum()
    worst = int(delay.index[int(delay.to_numpy().argmax())])
    rows = view.in_steps(view.host_compute_rows)
    of_kind = rows[view.codes[rows] == worst]
    delayed_ns = float(calls["own_ns"].sum())
    usual_ns = float((view.end[of_kind] - view.start[of_kind]).sum()) - float(delay.max())
    work_ns = float(length(view.covered(rows))) - delayed_ns
    return float(delay.max() / delay.sum()) >= MOSTLY and usual_ns < LITTLE * max(work_ns, 1.0)
