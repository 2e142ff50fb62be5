"""Own time by name: host calls, operators and kernels, and what is around a row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import HOST_WORK, EventKind
from tools.run.links import enclosing, parents
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

Rows = NDArray[np.int64]


@memoized
def host_calls(profile: Profile, rank: int) -> pd.DataFrame:
    """Host events of training threads in steps: row, step, name (code), own_ns (without inner events), duration_ns."""
    view = profile.rank(rank)
    host = np.isin(view.kind, [int(kind) for kind in HOST_WORK]) & ~view.named("profiler_step")
    rows = view.in_steps(np.flatnonzero(host & view.on_training_thread))
    step = np.searchsorted(view.host_steps["start_ns"].to_numpy(), view.start[rows], side="right") - 1
    end = np.minimum(view.end[rows], view.host_steps["end_ns"].to_numpy()[step])
    return _table(view, rows, own_ns(view.track[rows], view.start[rows], end, _around))


@memoized
def step_kernels(profile: Profile, rank: int) -> pd.DataFrame:
    """The same columns for the device kernels of the rank; here own_ns is the whole duration."""
    view = profile.rank(rank)
    rows = view.in_steps(view.kernels)
    return _table(view, rows, view.end[rows] - view.start[rows])


def own_ns(track: Rows, start: Rows, end: Rows, parents_of: Callable[[Rows, Rows], Rows] = parents) -> Rows:
    """Duration of each event without that of the events inside it on its thread, never below 0."""
    own = end - start
    for number in np.unique(track):
        mine = np.flatnonzero(track == number)
        parent = parents_of(start[mine], end[mine])
        child = np.flatnonzero(parent >= 0)
        np.subtract.at(own, mine[parent[child]], (end - start)[mine[child]])
    return np.asarray(np.maximum(own, 0), dtype=np.int64)


def _around(start: Rows, end: Rows) -> Rows:
    """The innermost event around that lasts as long, -1 at the top; a mark may outlive the frame that opens it."""
    parent = parents(start, end)
    outlives = np.flatnonzero((parent >= 0) & (end > end[parent]))
    while len(outlives):
        parent[outlives] = parent[parent[outlives]]
        still = (parent[outlives] >= 0) & (end[outlives] > end[parent[outlives]])
        outlives = outlives[still]
    return parent


def _table(view: RankProfile, rows: Rows, own_ns: Rows) -> pd.DataFrame:
    table = pd.DataFrame({"row": rows, "step": view.step_of(rows), "name": view.codes[rows], "own_ns": own_ns})
    return table.assign(duration_ns=view.end[rows] - view.start[rows])


def names_by_time(view: RankProfile, table: pd.DataFrame) -> list[str]:
    """The distinct names of such a table, those with most own time first; untrusted text."""
    ordered = table.groupby("name")["own_ns"].sum().sort_values(ascending=False, kind="stable").index
    return [str(view.categories[code]) for code in ordered]


def by_step(view: RankProfile, table: pd.DataFrame) -> pd.DataFrame:
    """Own nanoseconds by name code (rows) and step number (columns, all steps of the rank); 0 where there is none."""
    steps = [int(number) for number in view.steps["number"]]
    sums = table.pivot_table(index="name", columns="step", values="own_ns", aggfunc="sum", fill_value=0, observed=True)
    return sums.reindex(columns=steps, fill_value=0)


def most_grown(view: RankProfile, table: pd.DataFrame, step: int) -> str:
    """The name whose own time in a step exceeds its median over the rank's steps most; "" when none does."""
    sums = by_step(view, table)
    if sums.empty or step not in sums.columns:
        return ""
    extra = sums[step] - sums.median(axis=1)
    return str(view.categories[int(str(extra.idxmax()))]) if float(extra.max()) > 0 else ""


def outermost_operators(rank: RankProfile, rows: Rows) -> Rows:
    """For each row the outermost framework operator around it on the same thread, else -1."""
    holding = _holding(rank, rows, rank.kind == EventKind.OPERATOR)
    return enclosing(rank.events, rows, rank.outermost(holding))


def surrounding_annotations(rank: RankProfile, rows: Rows) -> Rows:
    """For each row the innermost annotation around it that is not a step mark, else -1."""
    marked = (rank.kind == EventKind.ANNOTATION) & ~rank.named("profiler_step")
    return enclosing(rank.events, rows, _holding(rank, rows, marked))


def python_frames(rank: RankProfile, rows: Rows) -> Rows:
    """For each row the innermost Python frame around it that is not a library's own, else -1."""
    own = (rank.kind == EventKind.PYTHON) & ~rank.named("library_frame")
    return enclosing(rank.events, rows, _holding(rank, rows, own))


def commonest(rank: RankProfile, rows: Rows, weights: Rows) -> str:
    """The name with the largest summed weight among the rows (-1 is none); "" when there is none."""
    known = rows >= 0
    total = np.bincount(rank.codes[rows[known]], weights=weights[known])
    return str(rank.categories[int(total.argmax())]) if len(total) else ""


def _holding(rank: RankProfile, rows: Rows, wanted: NDArray[np.bool_]) -> Rows:
    """Rows of the wanted events during which one of the rows starts: a few, where all would be many to search."""
    moments, candidates = np.sort(rank.start[rows]), np.flatnonzero(wanted)
    first = np.searchsorted(moments, rank.start[candidates], side="left")
    return candidates[np.searchsorted(moments, rank.end[candidates], side="left") > first]


BACKWARD_NODE = "autograd::engine::evaluate_function: "


@memoized
def kernel_work(profile: Profile) -> pd.DataFrame:
    """Device kernels inside steps. Index name, columns ms and count, both per step and rank, most time first."""
    rows = [(view, view.in_steps(view.kernels)) for view in profile.ranks]
    return _mean([_by_name(view, mine, view.end[mine] - view.start[mine]) for view, mine in rows])


@memoized
def operator_work(profile: Profile) -> pd.DataFrame:
    """Operators of training threads inside steps by their own time (without operators inside them); same columns."""
    rows = [(view, operator_rows(view)) for view in profile.ranks]
    own = [own_ns(view.track[mine], view.start[mine], view.end[mine]) for view, mine in rows]
    return _mean([_by_name(view, mine, ns) for (view, mine), ns in zip(rows, own, strict=True)])


def similarity(a: pd.Series[float], b: pd.Series[float]) -> float:
    """Weighted Jaccard index of two multisets, 0 to 1: what they share of what either has."""
    both = pd.concat([a, b], axis=1).fillna(0.0)
    largest = float(both.max(axis=1).sum())
    return float(both.min(axis=1).sum()) / largest if largest > 0 else 0.0


def backward_nodes(table: pd.DataFrame) -> pd.Series[float]:
    """Counts per step of the backward graph's nodes, which the model decides and the loader does not."""
    return table["count"][table.index.str.startswith(BACKWARD_NODE)]


def operator_rows(view: RankProfile) -> NDArray[np.int64]:
    """Rows of operators on training threads inside steps."""
    return view.in_steps(np.flatnonzero((view.kind == EventKind.OPERATOR) & view.on_training_thread))


def _by_name(view: RankProfile, rows: Rows, ns: Rows) -> pd.DataFrame:
    codes, steps = view.codes[rows], max(len(view.rank.steps), 1)
    total, count = np.bincount(codes, weights=ns), np.bincount(codes)
    present = np.flatnonzero(count)
    index = pd.Index([str(name) for name in view.categories[present]], name="name", dtype="str")
    return pd.DataFrame({"ms": total[present] / 1e6 / steps, "count": count[present] / steps}, index=index)


def _mean(tables: list[pd.DataFrame]) -> pd.DataFrame:
    total = pd.concat(tables).groupby(level=0).sum() / len(tables)
    return total.sort_values("ms", ascending=False, kind="stable")
