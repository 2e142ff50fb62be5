"""Ranks whose device or host runs the same kernels or operators slower than the other ranks do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import covered
from tools.metrics.measurement import Measurement, event_rows, metric, of_rank
from tools.run.events import EventKind
from tools.views.device.kernels import kernel_table
from tools.views.host.held_up import FASTEST
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

LEAST_CALLS = 3  # a kernel seen less often on a rank says little


@memoized
def device_speed(profile: Profile) -> pd.DataFrame:
    """One row per rank that shares kernels with another rank: columns rank, ratio, kernels, slower_share.

    A kernel is the same on two ranks when name, grid and the recorded shapes of its operator are equal. Its ratio on a
    rank is the rank's median duration over the median of the other ranks' medians. ``ratio`` is the median of these,
    weighted by time; ``slower_share`` is the share of that time in kernels that are slower there than on the median
    rank. Kernels that overlap communication or another stream's kernels, and communication itself, are left out,
    because others slow them.
    """
    table = pd.DataFrame(columns=["key", "rank", "median_ns", "sum_ns"])
    if parts := [_medians(profile, rank) for rank in profile.ranks if rank.rank.has_device]:
        table = pd.concat(parts, ignore_index=True)
        table = table[table.groupby("key")["rank"].transform("nunique") > 1]
    rows = []
    if not table.empty:
        table = table.assign(ratio=table["median_ns"] / others_median(table, "median_ns").clip(lower=1))
        rows = [(int(str(rank)), *_summary(mine)) for rank, mine in table.groupby("rank")]
    return pd.DataFrame(rows, columns=["rank", "ratio", "kernels", "slower_share"])


def others_median(table: pd.DataFrame, column: str) -> pd.Series[float]:
    """For each row (columns key, rank) the median of the column over the other ranks with that key."""
    wide = table.pivot_table(index="key", columns="rank", values=column)
    usual = pd.DataFrame({rank: wide.drop(columns=rank).median(axis=1) for rank in wide.columns})
    at = zip((usual.index, usual.columns), ("key", "rank"), strict=True)
    row, place = (index.get_indexer(pd.Index(table[name])) for index, name in at)
    return pd.Series(usual.to_numpy()[row, place], index=table.index)


def _medians(profile: Profile, rank: RankProfile) -> pd.DataFrame:
    table = kernel_table(profile, rank.rank.rank)
    table = table[(table["kernel_class"] != "communication").to_numpy()]
    table = table[_alone(rank, table)]
    table = table.assign(shapes=_shapes(rank, table["operator"].to_numpy()))
    grouped = table.groupby(["name", "blocks", "shapes"])["duration_ns"].agg(["median", "sum", "size"])
    grouped = grouped[grouped["size"] >= LEAST_CALLS]
    texts = [*rank.events.details.operators["dims"].cat.categories, ""]
    keys = [f"{rank.categories[name]}|{blocks}|{texts[shapes]}" for name, blocks, shapes in grouped.index]
    columns = {"median_ns": grouped["median"].to_numpy(), "sum_ns": grouped["sum"].to_numpy()}
    return pd.DataFrame({"key": keys, "rank": rank.rank.rank, **columns})


def _shapes(rank: RankProfile, operators: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each operator's row the code of its recorded shapes, -1 where unknown."""
    details = rank.events.details.operators
    return np.append(details["dims"].cat.codes.to_numpy(), -1)[rank.places(details, operators)]


def _alone(rank: RankProfile, table: pd.DataFrame) -> NDArray[np.bool_]:
    """True for kernels during which nothing runs on another stream."""
    start, end, track = (table[column].to_numpy() for column in ("start_ns", "end_ns", "track"))
    work, alone = np.concatenate((rank.kernels, rank.copies)), np.zeros(len(table), dtype=bool)
    for number in np.unique(track):
        mine, others = track == number, rank.covered(work[rank.track[work] != number])
        alone[mine] = covered(others, start[mine], end[mine]) == 0
    return alone


def _summary(kernels: pd.DataFrame) -> tuple[float, int, float]:
    ordered = kernels.sort_values("ratio", kind="stable")
    weight = ordered["sum_ns"].to_numpy(dtype=float)
    middle = int(np.searchsorted(np.cumsum(weight), weight.sum() / 2))
    slower = float(weight[ordered["ratio"].to_numpy() > 1.0].sum() / max(weight.sum(), 1.0))
    return float(ordered["ratio"].iloc[middle]), len(ordered), slower


HOST_SPEED_COLUMNS = ("rank", "ratio", "slower_share", "steps_slower", "slowed")
LEAST_NS = 20_000  # shorter operators are measured by the profiler's own cost as much as by the processor's speed


@memoized
def host_speed(profile: Profile) -> pd.DataFrame:
    """One row per rank: columns rank, ratio, slower_share, steps_slower, slowed.

    An operator is the same on two ranks when name and recorded shapes are equal. ``ratio`` is the rank's time in the
    operators that it shares with others over what the median of the others takes for the same, by the fastest quarter
    of the calls: single calls are held up by others on the core, a slow processor slows all. ``slower_share`` is the
    part of that time in kinds of operators that are slower there; ``steps_slower`` the share of the steps in which
    the rank takes longer for them. ``slowed`` is the ratio by all calls, the held-up ones included: what the rank's
    step is longer by. Operators during which a collective runs are left out, because it takes cores.
    """
    rows: list[tuple[int, float, float, float, float]] = []
    if len(profile.ranks) < 2:
        return pd.DataFrame(columns=list(HOST_SPEED_COLUMNS))
    table = _all_operators(profile)
    calls = table.groupby(["key", "rank"])["ns"]
    means = calls.sum().to_frame("sum").assign(mean=calls.quantile(FASTEST), whole=calls.mean()).reset_index()
    means = means[means.groupby("key")["rank"].transform("nunique") == len(profile.ranks)]
    if not means.empty:
        usual = others_median(means, "mean")
        others = others_median(means, "whole")
        means = means.assign(usual=usual, others=others, expected=means["sum"] * usual / means["mean"])
        for rank, mine in means.groupby("rank"):
            whole_ns = float(mine["sum"].sum())
            slower = float(mine.loc[mine["mean"] > mine["usual"], "sum"].sum()) / max(whole_ns, 1.0)
            steps_slower = _steps_slower(table[table["rank"] == rank], mine.set_index("key")["others"])
            slowed = whole_ns / max(float((mine["sum"] * mine["others"] / mine["whole"]).sum()), 1.0)
            ratio = whole_ns / max(float(mine["expected"].sum()), 1.0)
            rows.append((int(str(rank)), ratio, slower, steps_slower, slowed))
    return pd.DataFrame(rows, columns=list(HOST_SPEED_COLUMNS))


@memoized
def _all_operators(profile: Profile) -> pd.DataFrame:
    return pd.concat([_operators(view) for view in profile.ranks], ignore_index=True)


def _steps_slower(mine: pd.DataFrame, usual: pd.Series[float]) -> float:
    """Share of steps in which the rank's shared operators take longer than the others' mean for the same ones."""
    shared = mine[mine["key"].isin(usual.index)]
    expected = shared["key"].map(usual).groupby(shared["step"]).sum()
    return float((shared.groupby("step")["ns"].sum() > expected).mean())


def _operators(view: RankProfile) -> pd.DataFrame:
    rows = view.in_steps(view.host_compute_rows)
    rows = view.outermost(rows[~view.named("enclosing_operator")[rows]])
    rows = rows[view.end[rows] - view.start[rows] >= LEAST_NS]
    rows = rows[covered(view.activity.host_communication, view.start[rows], view.end[rows]) == 0]
    known = np.isin(rows, view.events.details.operators["row"].to_numpy())
    rows = rows[known] if known.any() else rows
    pairs = pd.DataFrame({"name": view.codes[rows], "dims": _shapes(view, rows)})
    distinct = pairs.drop_duplicates(ignore_index=True)
    texts = [*view.events.details.operators["dims"].cat.categories, ""]
    keys = [f"{view.categories[name]} {texts[dims]}" for name, dims in distinct.itertuples(index=False, name=None)]
    table = pairs.merge(distinct.assign(key=keys), on=["name", "dims"], how="left")
    return table[["key"]].assign(rank=view.rank.rank, step=view.step_of(rows), ns=view.end[rows] - view.start[rows])


@memoized
def even_share(profile: Profile, rank: int) -> float:
    """How much of a rank's slowness in shared host operators its fastest calls show as well, from 0 to 1.

    Near 0 single calls are held up, as when others take the core; near 1 every call is slower. 1 where unknown.
    """
    if len(profile.ranks) < 2 or profile.run.has_device:
        return 1.0
    table = _all_operators(profile)
    calls = table.groupby(["key", "rank"])["ns"]
    kinds = pd.DataFrame({"mean": calls.mean(), "fastest": calls.quantile(FASTEST), "sum": calls.sum()}).reset_index()
    kinds = kinds[kinds.groupby("key")["rank"].transform("nunique") == len(profile.ranks)].reset_index(drop=True)
    if kinds.empty:
        return 1.0
    over = {}
    for name in ("mean", "fastest"):
        usual = others_median(kinds, name)
        mine, own = kinds["rank"] == rank, kinds[name].clip(lower=1.0)
        over[name] = float(kinds.loc[mine, "sum"].sum() / (kinds["sum"] * usual / own)[mine].sum()) - 1.0
    return min(1.0, max(0.0, over["fastest"]) / over["mean"]) if over["mean"] > 0 else 1.0


@metric("%", "extra time of the same kernels", "How much slower is this rank's device?")
def device_slowdown_pct(profile: Profile, rank: int) -> Measurement:
    """Extra time of the rank's kernels over the same kernels on the median rank."""
    return _slowdown(
        profile, rank, device_speed(profile), "kernels", "kernels of equal name and grid, medians per rank"
    )


@metric("%", "extra host time in the same operators", "How much slower is this rank's host?")
def host_slowdown_pct(profile: Profile, rank: int) -> Measurement:
    """Extra time of the rank's operators over the same operators on the other ranks."""
    return _slowdown(
        profile,
        rank,
        host_speed(profile),
        "operators",
        "operators of equal name and shapes, the fastest quarter per rank",
    )


def _slowdown(profile: Profile, rank: int, table: pd.DataFrame, what: str, selector: str) -> Measurement:
    ratio = table.loc[table["rank"] == profile.rank(rank).rank.rank, "ratio"]
    if ratio.empty:
        raise UsageError(f"rank {rank} shares no {what} with other ranks")
    return of_rank(profile.rank(rank), 100.0 * (float(ratio.iloc[0]) - 1.0), lambda: table, selector)


LEAST_OPERATOR_CALLS = 20  # in all steps: with fewer shared calls one delayed call would be half of the comparison


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
        """Extra time of the rank over the others, ms per step; negative where it is faster."""
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
    if len(table) < LEAST_OPERATOR_CALLS * len(views):
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
    own_ns, expected_ns, even_ns = (float(rows[name].sum()) for name in ("ns", "usual_ns", "even_ns"))
    by_kind, by_step = (rows.groupby(name)[["ns", "usual_ns"]].sum() for name in ("key", "step"))
    slower_ns = float(by_kind.loc[by_kind["ns"] > by_kind["usual_ns"], "ns"].sum())
    steps_slower = float((by_step["ns"] > by_step["usual_ns"]).mean())
    slower_share = slower_ns / max(own_ns, 1.0)
    return OperatorSpeed(own_ns, expected_ns, own_ns - even_ns, slower_share, steps_slower, len(by_step), steadiness)


@metric("ms", "host time per step in launching operators", "How long is the host in launching operators?")
def launching_operator_ms(profile: Profile, rank: int) -> Measurement:
    """Host time per step in operators that all ranks call, without the calls that launch or wait."""
    speed = _measured_speed(profile, rank)
    return _of_operators(profile, rank, speed.own_ns / 1e6 / speed.steps)


@metric("ms", "extra host time in launching operators", "How much longer than on other ranks is it?")
def launching_operator_excess_ms(profile: Profile, rank: int) -> Measurement:
    """Extra host time per step over the median of the other ranks for the same operators."""
    return _of_operators(profile, rank, _measured_speed(profile, rank).excess_ms)


@metric("%", "slowdown of launching operators", "How much slower than on other ranks?")
def launching_operator_slowdown_pct(profile: Profile, rank: int) -> Measurement:
    """The same as a share of what the others take."""
    speed = _measured_speed(profile, rank)
    return _of_operators(profile, rank, 100.0 * (speed.own_ns / max(speed.expected_ns, 1.0) - 1.0))


@metric("%", "delayed-call share of extra operator time", "How much of the extra time are delayed calls?")
def held_up_pct(profile: Profile, rank: int) -> Measurement:
    """Share of that excess which is no even slowness, as the fastest calls do not show it: calls that were held up."""
    return _of_operators(profile, rank, 100.0 * _measured_speed(profile, rank).delayed_share)


def _measured_speed(profile: Profile, rank: int) -> OperatorSpeed:
    speed = operator_speed(profile).get(rank)
    if speed is None:
        raise UsageError(f"rank {rank} shares no launching operators with other traced ranks")
    return speed


def _of_operators(profile: Profile, rank: int, value: float) -> Measurement:
    view = profile.rank(rank)
    selector = "outermost operators that all ranks call, without the runtime's calls in them"
    return of_rank(view, value, lambda: event_rows(view, launching_rows(view)), selector)
