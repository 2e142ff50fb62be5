"""How much time each name takes per step: kernels by duration, operators by their own time."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import EventKind
from tools.views.host_calls import own_ns
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

BACKWARD_NODE = "autograd::engine::evaluate_function: "


@memoized
def kernel_work(profile: Profile) -> pd.DataFrame:
    """Device kernels inside steps. Index name, columns ms and count, both per step and rank, most time first."""
    rows = {view: view.in_steps(view.kernels) for view in profile.ranks}
    return _mean([_by_name(view, mine, view.end[mine] - view.start[mine]) for view, mine in rows.items()])


@memoized
def operator_work(profile: Profile) -> pd.DataFrame:
    """Operators of training threads inside steps by their own time (without operators inside them); same columns."""
    rows = {view: operator_rows(view) for view in profile.ranks}
    own = [own_ns(view.track[mine], view.start[mine], view.end[mine]) for view, mine in rows.items()]
    return _mean([_by_name(view, mine, ns) for (view, mine), ns in zip(rows.items(), own, strict=True)])


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


def _by_name(view: RankProfile, rows: NDArray[np.int64], ns: NDArray[np.int64]) -> pd.DataFrame:
    names = view.events.frame["name"].cat
    codes = names.codes.to_numpy()[rows]
    total = np.bincount(codes, weights=ns, minlength=len(names.categories))
    count = np.bincount(codes, minlength=len(names.categories))
    present = np.flatnonzero(count)
    steps = max(len(view.rank.steps), 1)
    index = pd.Index([str(name) for name in names.categories[present]], name="name", dtype="str")
    return pd.DataFrame({"ms": total[present] / 1e6 / steps, "count": count[present] / steps}, index=index)


def _mean(tables: list[pd.DataFrame]) -> pd.DataFrame:
    total = pd.concat(tables).groupby(level=0).sum() / len(tables)
    return total.sort_values("ms", ascending=False, kind="stable")
