"""Ranks whose device or host runs the same kernels or operators slower than the other ranks do."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import covered
from tools.metrics.measurement import Measurement, metric, of_rank
from tools.views.kernels import kernel_table
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

LEAST_CALLS = 3  # a kernel seen less often on a rank says little
SPEED_COLUMNS = ("rank", "ratio", "kernels", "slower_share")


@memoized
def device_speed(profile: Profile) -> pd.DataFrame:
    """One row per rank that shares kernels with another rank: columns rank, ratio, kernels, slower_share.

    A kernel is the same on two ranks when name, grid and the recorded shapes of its operator are equal. Its ratio on a
    rank is the rank's median duration over the median of the other ranks' medians. ``ratio`` is the median of these,
    weighted by time; ``slower_share`` is the share of that time in kernels that are slower there than on the median
    rank. Kernels that overlap communication or another stream's kernels, and communication itself, are left out,
    because others slow them.
    """
    parts = [_medians(profile, rank) for rank in profile.ranks if rank.rank.has_device]
    if not parts:
        return pd.DataFrame(columns=list(SPEED_COLUMNS))
    table = pd.concat(parts, ignore_index=True)
    table = table[table.groupby("key")["rank"].transform("nunique") > 1]
    if table.empty:
        return pd.DataFrame(columns=list(SPEED_COLUMNS))
    table = table.assign(ratio=table["median_ns"] / others_median(table).clip(lower=1))
    rows = [(rank, *_summary(table[table["rank"] == rank])) for rank in sorted(table["rank"].unique().tolist())]
    return pd.DataFrame(rows, columns=list(SPEED_COLUMNS))


def others_median(table: pd.DataFrame) -> pd.Series[float]:
    """For each row (columns key, rank, median_ns) the median over the other ranks with that key."""
    wide = table.pivot_table(index="key", columns="rank", values="median_ns")
    values = wide.to_numpy()
    columns = []
    for place in range(values.shape[1]):
        others = np.delete(values, place, axis=1)
        known = ~np.isnan(others).all(axis=1)
        column = np.full(len(values), np.nan)
        column[known] = np.nanmedian(others[known], axis=1)
        columns.append(column)
    usual = np.column_stack(columns)
    row, column = (
        index.get_indexer(pd.Index(table[name])) for index, name in ((wide.index, "key"), (wide.columns, "rank"))
    )
    return pd.Series(usual[row, column], index=table.index)


def _medians(profile: Profile, rank: RankProfile) -> pd.DataFrame:
    table = kernel_table(profile, rank.rank.rank)
    table = table[(table["kernel_class"] != "communication").to_numpy()]
    table = table[_alone(rank, table)]
    table = table.assign(shapes=_shapes(rank, table["operator"].to_numpy()))
    grouped = table.groupby(["name", "blocks", "shapes"])["duration_ns"].agg(["median", "sum", "size"]).reset_index()
    grouped = grouped[grouped["size"] >= LEAST_CALLS]
    names = rank.categories
    texts = rank.events.details.operators["dims"].cat.categories
    return pd.DataFrame(
        {
            "key": [
                f"{names[name]}|{blocks}|{texts[shapes] if shapes >= 0 else ''}"
                for name, blocks, shapes in zip(grouped["name"], grouped["blocks"], grouped["shapes"], strict=True)
            ],
            "rank": rank.rank.rank,
            "median_ns": grouped["median"].to_numpy(),
            "sum_ns": grouped["sum"].to_numpy(),
        }
    )


def _shapes(rank: RankProfile, operators: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each operator's row the code of its recorded shapes, -1 where unknown."""
    details = rank.events.details.operators
    codes = np.full(len(rank.kind) + 1, -1, dtype=np.int64)
    codes[details["row"].to_numpy()] = details["dims"].cat.codes.to_numpy()
    return codes[operators]


def _alone(rank: RankProfile, table: pd.DataFrame) -> NDArray[np.bool_]:
    others = np.zeros(len(table), dtype=np.int64)
    start, end, track = (table[column].to_numpy() for column in ("start_ns", "end_ns", "track"))
    work = np.concatenate((rank.kernels, rank.copies))
    for number in np.unique(track):
        foreign = work[rank.track[work] != number]
        mine = track == number
        others[mine] = covered(rank.covered(foreign), start[mine], end[mine])
    return np.asarray(others == 0)


def _summary(kernels: pd.DataFrame) -> tuple[float, int, float]:
    ordered = kernels.sort_values("ratio", kind="stable")
    weight = ordered["sum_ns"].to_numpy(dtype=float)
    middle = int(np.searchsorted(np.cumsum(weight), weight.sum() / 2))
    slower = float(weight[ordered["ratio"].to_numpy() > 1.0].sum() / max(weight.sum(), 1.0))
    return float(ordered["ratio"].iloc[middle]), len(ordered), slower


HOST_SPEED_COLUMNS = ("rank", "ratio", "slower_share", "steps_slower")
LEAST_NS = 20_000  # shorter operators are measured by the profiler's own cost as much as by the processor's speed


@memoized
def host_speed(profile: Profile) -> pd.DataFrame:
    """One row per rank: columns rank, ratio, slower_share, steps_slower.

    An operator is the same on two ranks when name and recorded shapes are equal. ``ratio`` is the rank's time in the
    operators that it shares with others over what the median of the others takes for the same; ``slower_share`` the
    part of that time in kinds of operators that are slower there; ``steps_slower`` the share of the steps in which
    the rank takes longer for them. Operators during which a collective runs are left out, because it takes cores.
    """
    if len(profile.ranks) < 2:
        return pd.DataFrame(columns=list(HOST_SPEED_COLUMNS))
    table = pd.concat([_operators(view) for view in profile.ranks], ignore_index=True)
    means = table.groupby(["key", "rank"])["ns"].agg(["mean", "sum"]).reset_index()
    means = means[means.groupby("key")["rank"].transform("nunique") == len(profile.ranks)]
    if means.empty:
        return pd.DataFrame(columns=list(HOST_SPEED_COLUMNS))
    usual = others_median(means.rename(columns={"mean": "median_ns"}))
    means = means.assign(usual=usual.to_numpy(), expected=means["sum"] * usual.to_numpy() / means["mean"])
    rows = []
    for rank, mine in means.groupby("rank"):
        slower = float(mine.loc[mine["mean"] > mine["usual"], "sum"].sum()) / max(float(mine["sum"].sum()), 1.0)
        ratio = float(mine["sum"].sum()) / max(float(mine["expected"].sum()), 1.0)
        rows.append((int(str(rank)), ratio, slower, _steps_slower(table, means, int(str(rank)))))
    return pd.DataFrame(rows, columns=list(HOST_SPEED_COLUMNS))


def _steps_slower(table: pd.DataFrame, means: pd.DataFrame, rank: int) -> float:
    """Share of steps in which the rank's shared operators take longer than the others' mean for the same ones."""
    usual = means.loc[means["rank"] == rank].set_index("key")["usual"]
    mine = table[(table["rank"] == rank) & table["key"].isin(usual.index)]
    expected = mine["key"].map(usual).groupby(mine["step"]).sum()
    return float((mine.groupby("step")["ns"].sum() > expected).mean())


def _operators(view: RankProfile) -> pd.DataFrame:
    rows = view.in_steps(view.host_compute_rows)
    rows = view.outermost(rows[~view.named("enclosing_operator")[rows]])
    rows = rows[view.end[rows] - view.start[rows] >= LEAST_NS]
    rows = rows[covered(view.activity.host_communication, view.start[rows], view.end[rows]) == 0]
    known = np.isin(rows, view.events.details.operators["row"].to_numpy())
    rows = rows[known] if known.any() else rows
    names, texts = view.events.frame["name"].cat, view.events.details.operators["dims"].cat.categories
    pairs = pd.DataFrame({"name": names.codes.to_numpy()[rows], "dims": _shapes(view, rows)})
    distinct = pairs.drop_duplicates().reset_index(drop=True)
    keys = [
        f"{names.categories[name]} {texts[dims] if dims >= 0 else ''}"
        for name, dims in distinct.itertuples(index=False, name=None)
    ]
    table = pairs.merge(distinct.assign(key=keys), on=["name", "dims"], how="left")
    return table[["key"]].assign(rank=view.rank.rank, step=view.step_of(rows), ns=view.end[rows] - view.start[rows])


@metric("%", "extra host time in the same operators", "How much slower is this rank's host?")
def host_slowdown_pct(profile: Profile, rank: int) -> Measurement:
    """How much longer the rank's operators take than the same operators on the other ranks."""
    view, table = profile.rank(rank), host_speed(profile)
    mine = table[table["rank"] == rank]
    if mine.empty:
        raise UsageError(f"rank {rank} shares no operators with other ranks")
    value = 100.0 * (float(mine["ratio"].iloc[0]) - 1.0)
    return of_rank(view, value, lambda: table, "operators of equal name and shapes, means per rank")
