"""Which rank runs the same host operators slower than the others: runs whose operators compute on the host."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.intervals import covered
from tools.profilers.device_speed import others_median
from tools.profilers.host_groups import outermost
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile

SPEED_COLUMNS = ("rank", "ratio", "slower_share", "steps_slower")
LEAST_NS = 20_000  # shorter operators are measured by the profiler's own cost as much as by the processor's speed


def host_speed(profile: Profile) -> pd.DataFrame:
    """One row per rank: columns rank, ratio, slower_share, steps_slower.

    An operator is the same on two ranks when name and recorded shapes are equal. ``ratio`` is the rank's time in the
    operators that it shares with others over what the median of the others takes for the same; ``slower_share`` the
    part of that time in kinds of operators that are slower there; ``steps_slower`` the share of the steps in which
    the rank takes longer for them. Operators during which a collective runs are left out, because it takes cores.
    """
    return profile.memo("host_speed", lambda: _host_speed(profile))


def _host_speed(profile: Profile) -> pd.DataFrame:
    if len(profile.ranks) < 2:
        return pd.DataFrame(columns=list(SPEED_COLUMNS))
    tables = [_operators(view) for view in profile.ranks]
    table = pd.concat(tables, ignore_index=True)
    means = table.groupby(["key", "rank"])["ns"].agg(["mean", "sum"]).reset_index()
    means = means[means.groupby("key")["rank"].transform("nunique") == len(profile.ranks)]
    if means.empty:
        return pd.DataFrame(columns=list(SPEED_COLUMNS))
    usual = others_median(means.rename(columns={"mean": "median_ns"}))
    means = means.assign(usual=usual.to_numpy(), expected=means["sum"] * usual.to_numpy() / means["mean"])
    rows = []
    for rank, mine in means.groupby("rank"):
        slower = float(mine.loc[mine["mean"] > mine["usual"], "sum"].sum()) / max(float(mine["sum"].sum()), 1.0)
        ratio = float(mine["sum"].sum()) / max(float(mine["expected"].sum()), 1.0)
        rows.append((int(str(rank)), ratio, slower, _steps_slower(table, means, int(str(rank)))))
    return pd.DataFrame(rows, columns=list(SPEED_COLUMNS))


def _steps_slower(table: pd.DataFrame, means: pd.DataFrame, rank: int) -> float:
    """Share of steps in which the rank's shared operators take longer than the others' mean for the same ones."""
    usual = means.loc[means["rank"] == rank].set_index("key")["usual"]
    mine = table[(table["rank"] == rank) & table["key"].isin(usual.index)]
    expected = mine["key"].map(usual).groupby(mine["step"]).sum()
    return float((mine.groupby("step")["ns"].sum() > expected).mean())


def _operators(view: RankProfile) -> pd.DataFrame:
    rows = view.in_steps(view.host_compute_rows)
    rows = outermost(view, rows[~view.named("enclosing_operator")[rows]])
    rows = rows[view.end[rows] - view.start[rows] >= LEAST_NS]
    alone = covered(view.activity.host_communication, view.start[rows], view.end[rows]) == 0
    rows = rows[alone]
    known = np.isin(rows, view.events.details.operators["row"].to_numpy())
    rows = rows[known] if known.any() else rows
    names, details = view.events.frame["name"].cat, view.events.details.operators
    shapes = np.full(len(view.kind), -1, dtype=np.int64)
    shapes[details["row"].to_numpy()] = details["dims"].cat.codes.to_numpy()
    pairs = pd.DataFrame({"name": names.codes.to_numpy()[rows], "dims": shapes[rows]})
    distinct = pairs.drop_duplicates().reset_index(drop=True)
    texts = details["dims"].cat.categories
    keys = [
        f"{names.categories[name]} {texts[dims] if dims >= 0 else ''}"
        for name, dims in distinct.itertuples(index=False, name=None)
    ]
    table = pairs.merge(distinct.assign(key=keys), on=["name", "dims"], how="left")
    return table[["key"]].assign(rank=view.rank.rank, step=view.step_of(rows), ns=view.end[rows] - view.start[rows])
