"""Which rank's host takes longer for the same operators: runs whose operators only launch work on a device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import covered
from tools.metrics.measurement import Measurement, event_rows, metric, of_rank
from tools.metrics.rank_speed import others_median
from tools.run.events import EventKind
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

LEAST_CALLS = 20  # in all steps: with fewer shared calls one delayed call would be half of the comparison
FASTEST = 0.25  # of the calls of a kind: a slow processor slows these as well, one that is taken away seldom does


@dataclass(frozen=True)
class OperatorSpeed:
    """One rank's host time in operators that all ranks call equally often.

    ``own_ns`` is all of it, ``expected_ns`` what the median of the other ranks takes for the same calls, and
    ``delayed_ns`` what goes beyond a slowness that its fastest calls show as well. ``slower_share`` is the part of the
    time in kinds of operators that are slower there, ``steps_slower`` that of the steps. ``steadiness`` is the mean
    excess of a call over the same call of the others, in standard errors: small where chance may have made it.
    """

    own_ns: float
    expected_ns: float
    delayed_ns: float
    slower_share: float
    steps_slower: float
    steps: int
    steadiness: float

    @property
    def excess_ms(self) -> float:
        """How much longer than the others the rank takes, ms per step; negative where it is faster."""
        return (self.own_ns - self.expected_ns) / 1e6 / max(self.steps, 1)

    @property
    def delayed_share(self) -> float:
        """The part of the excess that is no even slowness: single calls were held up. From 0 to 1."""
        return min(1.0, max(0.0, self.delayed_ns) / max(self.own_ns - self.expected_ns, 1.0))


@memoized
def operator_speed(profile: Profile) -> dict[int, OperatorSpeed]:
    """The ranks with a device that share enough operators with others; empty when there is nothing to compare."""
    views = [view for view in profile.ranks if view.rank.has_device and len(view.steps)]
    if len(views) < 2:
        return {}
    table = pd.concat([_own_times(view) for view in views], ignore_index=True)
    calls = table.groupby(["key", "rank"]).size().unstack(fill_value=0)
    alike = calls.index[(calls.nunique(axis=1) == 1) & (calls.shape[1] == len(views))]
    table = table[table["key"].isin(alike)]
    if len(table) < LEAST_CALLS * len(views):
        return {}
    by_kind = table.groupby(["key", "rank"])["ns"]
    kinds = pd.DataFrame({"mean": by_kind.mean(), "fastest": by_kind.quantile(FASTEST)}).reset_index()
    usual_ns = others_median(kinds, "mean")
    even = (kinds["fastest"] / others_median(kinds, "fastest").clip(lower=1.0)).clip(lower=1.0)
    kinds = kinds.assign(usual_ns=usual_ns, even_ns=usual_ns * even)
    table = table.merge(kinds[["key", "rank", "usual_ns", "even_ns"]], on=["key", "rank"])
    steady = _steadiness(table)
    return {int(str(rank)): _speed(rows, steady[int(str(rank))]) for rank, rows in table.groupby("rank")}


def launching_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of the outermost operators on the training threads inside steps, without those that communicate."""
    plain = (view.kind == EventKind.OPERATOR) & view.on_training_thread & ~view.named("communication_operator")
    return view.outermost(view.in_steps(np.flatnonzero(plain)))


def _steadiness(table: pd.DataFrame) -> dict[int, float]:
    """Of each rank: the mean over its standard error of what each call takes beyond the others' median at its place."""
    placed = table.assign(place=table.groupby(["key", "rank"]).cumcount())
    calls = placed.set_index(["key", "place", "rank"])["ns"].unstack("rank")
    found = {}
    for rank in calls.columns:
        excess = calls[rank] - calls.drop(columns=rank).median(axis=1)
        mean, error = float(excess.mean()), float(excess.std(ddof=1)) / np.sqrt(len(excess))
        found[int(str(rank))] = mean / error if error > 0 else float(np.sign(mean)) * np.inf
    return found


def _own_times(view: RankProfile) -> pd.DataFrame:
    """Time of every outermost operator on the training threads without the runtime's calls in it, which may wait."""
    rows = launching_rows(view)
    calls = (view.kind == EventKind.RUNTIME) & view.on_training_thread
    ns = view.end[rows] - view.start[rows] - covered(view.covered(calls), view.start[rows], view.end[rows])
    keys = view.categories.to_numpy(dtype=object)[view.codes[rows]]
    return pd.DataFrame({"key": keys, "rank": view.rank.rank, "step": view.step_of(rows), "ns": ns})


def _speed(rows: pd.DataFrame, steadiness: float) -> OperatorSpeed:
    own_ns = float(rows["ns"].sum())
    by_kind = rows.groupby("key")[["ns", "usual_ns"]].sum()
    by_step = rows.groupby("step")[["ns", "usual_ns"]].sum()
    slower = by_kind["ns"] > by_kind["usual_ns"]
    return OperatorSpeed(
        own_ns=own_ns,
        expected_ns=float(rows["usual_ns"].sum()),
        delayed_ns=own_ns - float(rows["even_ns"].sum()),
        slower_share=float(by_kind.loc[slower, "ns"].sum() / max(own_ns, 1.0)),
        steps_slower=float((by_step["ns"] > by_step["usual_ns"]).mean()),
        steps=len(by_step),
        steadiness=steadiness,
    )


@metric("ms", "host time per step in launching operators", "How long is the host in launching operators?")
def launching_operator_ms(profile: Profile, rank: int) -> Measurement:
    """Host time per step in operators that all ranks call, without the calls that launch or wait."""
    speed = _measured_speed(profile, rank)
    return _measured(profile, rank, speed.own_ns / 1e6 / speed.steps)


@metric("ms", "extra host time in launching operators", "How much longer than on other ranks is it?")
def launching_operator_excess_ms(profile: Profile, rank: int) -> Measurement:
    """How much longer per step that is than what the median of the other ranks takes for the same operators."""
    return _measured(profile, rank, _measured_speed(profile, rank).excess_ms)


@metric("%", "slowdown of launching operators", "How much slower than on other ranks?")
def launching_operator_slowdown_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of what the others take."""
    speed = _measured_speed(profile, rank)
    return _measured(profile, rank, 100.0 * (speed.own_ns / max(speed.expected_ns, 1.0) - 1.0))


@metric("%", "delayed-call share of extra operator time", "How much of the extra time are delayed calls?")
def held_up_pct(profile: Profile, rank: int) -> Measurement:
    """Share of that excess which is no even slowness, as the fastest calls do not show it: calls that were held up."""
    return _measured(profile, rank, 100.0 * _measured_speed(profile, rank).delayed_share)


def _measured_speed(profile: Profile, rank: int) -> OperatorSpeed:
    speeds = operator_speed(profile)
    if rank not in speeds:
        raise UsageError(f"rank {rank} shares no launching operators with other traced ranks")
    return speeds[rank]


def _measured(profile: Profile, rank: int, value: float) -> Measurement:
    view = profile.rank(rank)
    selector = "outermost operators that all ranks call, without the runtime's calls in them"
    return of_rank(view, value, lambda: event_rows(view, launching_rows(view)), selector)
