"""Calls of host operators that take far longer than the same operator usually does: the thread was taken off its core.

A scheduler gives a core to somebody else for a slice of some milliseconds, so an operator that usually takes 0.3 ms
takes 4 ms now and then. A slow processor, a larger input or a missing fused kernel lengthen every call instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tools.intervals import length
from tools.views.profile import Profile, memoized
from tools.views.work import own_ns

SEVERAL = 5  # calls of one operator and shape that show what is usual
TIMES_USUAL = 1.5
FASTEST = 0.25  # of the calls of a kind are taken to be undisturbed where others take the core now and then
CALLS = ("row", "own_ns", "name", "dims", "usual_ns", "size")
BRIEF_SHARE = 0.25  # of a slice: a call this short exceeds its usual time by a slice only where somebody takes the core
EXPECTED = 3.0  # strikes on brief calls: where so many are due, chance leaves none of them in one case of twenty
MOSTLY, LITTLE = 0.6, 0.2  # of the delay in one kind of operator, and of the work that it does


@memoized
def held_up(profile: Profile, rank: int) -> pd.DataFrame:
    """The calls of one rank's training threads that were held up inside its steps: columns row, own_ns, usual_ns.

    ``own_ns`` is a call's time without the operators inside it. ``usual_ns`` is the median over calls of the same name
    and recorded shapes, or the shortest of the calls at the same place of each step where even that is longer: a call
    that takes long in every step is not held up. Empty for ranks with a device, whose operators wait for other reasons.
    """
    calls = _calls(profile, rank)
    found: pd.DataFrame = calls.loc[_late(profile, calls), ["row", "own_ns", "usual_ns"]].reset_index(drop=True)
    return found


def _late(profile: Profile, calls: pd.DataFrame) -> pd.Series[bool]:
    over_ns = calls["own_ns"] - calls["usual_ns"]
    long = (over_ns >= 1e6 * profile.thresholds["scheduler_slice_ms"]) & (
        calls["own_ns"] >= TIMES_USUAL * calls["usual_ns"]
    )
    return _compared(calls) & long


def _compared(calls: pd.DataFrame) -> pd.Series[bool]:
    return (calls["dims"] >= 0) & (calls["size"] >= SEVERAL)


@memoized
def _calls(profile: Profile, rank: int) -> pd.DataFrame:
    """All calls of the rank's operators: columns row, own_ns, name, dims (-1 unknown), usual_ns, size (of its kind)."""
    view = profile.rank(rank)
    rows = view.in_steps(view.host_compute_rows)
    rows = rows[~view.named("enclosing_operator")[rows]]  # their own time is that of Python, or waiting
    if view.rank.has_device or not len(rows):
        return pd.DataFrame({name: rows[:0] for name in CALLS})
    rows = rows[np.argsort(view.start[rows], kind="stable")]
    recorded = view.events.details.operators
    calls = pd.DataFrame(
        {
            "row": rows,
            "own_ns": own_ns(view.track[rows], view.start[rows], view.end[rows]),
            "name": view.codes[rows],
            "dims": np.append(recorded["dims"].cat.codes.to_numpy(), -1)[view.places(recorded, rows)],
            "track": view.track[rows],
            "step": view.step_of(rows),
        }
    )
    groups = calls.groupby(["name", "dims"])["own_ns"]
    calls = calls.assign(place=calls.groupby(["name", "dims", "track", "step"]).cumcount())
    shortest_ns = calls.groupby(["name", "dims", "track", "place"])["own_ns"].transform("min")
    usual_ns = np.maximum(groups.transform("median"), shortest_ns)
    return calls.assign(usual_ns=usual_ns, size=groups.transform("size"))


@dataclass(frozen=True)
class Undisturbed:
    """Of their time, what the held-up calls and all other host time of a rank would keep undisturbed."""

    late: float
    rest: float


@memoized
def taken_share(profile: Profile, rank: int) -> float | None:
    """Share of its time for which somebody takes the core of a rank's training thread; None where that is not known.

    Who takes a core away takes it for a slice, whatever runs. So calls far shorter than a slice show it and nothing
    else does: an operator's own variation is a part of its length. Their delay over their usual time is the rate.
    Not known where by the number of all late calls fewer than ``EXPECTED`` of the brief ones would have been struck.
    """
    calls = _calls(profile, rank)
    brief = _compared(calls) & (calls["usual_ns"] <= BRIEF_SHARE * 1e6 * profile.thresholds["scheduler_slice_ms"])
    late, usual_ns = _late(profile, calls), calls["usual_ns"]
    brief_ns = float(usual_ns[brief].sum())
    if float(late.sum()) * brief_ns < EXPECTED * float(usual_ns[_compared(calls)].sum()) or brief_ns <= 0.0:
        return None
    delay_ns = float((calls["own_ns"] - usual_ns)[late & brief].sum())
    return delay_ns / (delay_ns + brief_ns)


@memoized
def undisturbed(profile: Profile, rank: int) -> Undisturbed:
    """What would be left of the rank's host time if nobody took its core.

    Undisturbed is a call as short as the shortest quarter of the calls with its name and shapes. Others also take
    less than a slice, or take it between operators, where nothing shows it but the operators around. As any variation
    makes calls longer than the shortest quarter, both together are no more than ``taken_share``; where that is not
    known only the held-up calls are shorter.
    """
    view, calls = profile.rank(rank), _calls(profile, rank)
    calls = calls[_compared(calls)]
    late = calls["row"].isin(held_up(profile, rank)["row"])
    best_ns = np.minimum(calls.groupby(["name", "dims"])["own_ns"].transform("quantile", FASTEST), calls["own_ns"])
    excess_ns, known = calls["own_ns"] - best_ns, taken_share(profile, rank)
    all_ns = max(float(calls["own_ns"].sum()), 1.0)
    lost = float(excess_ns.sum()) / all_ns
    kept = 1.0 if known is None or lost <= known else known / lost  # of the excess
    rows = calls.loc[late, "row"].to_numpy(np.int64)
    held = 1.0 - kept * float(excess_ns[late].sum()) / max(float((view.end[rows] - view.start[rows]).sum()), 1.0)
    rest = 1.0
    if known is not None:
        rest -= kept * float(excess_ns[~late].sum()) / max(float(calls.loc[~late, "own_ns"].sum()), 1.0)
    return Undisturbed(min(max(held, 0.0), 1.0), rest)


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
