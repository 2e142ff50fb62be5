"""Which rank's device runs the same kernels slower than the others'."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import covered, union
from tools.profilers.kernels import kernel_table
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile

LEAST_CALLS = 3  # a kernel seen less often on a rank says little
SPEED_COLUMNS = ("rank", "ratio", "kernels", "slower_share")


def device_speed(profile: Profile) -> pd.DataFrame:
    """One row per rank that shares kernels with another rank: columns rank, ratio, kernels, slower_share.

    A kernel is the same on two ranks when name, grid and the recorded shapes of its operator are equal. Its ratio on a
    rank is the rank's median duration over the median of the other ranks' medians. ``ratio`` is the median of these,
    weighted by time; ``slower_share`` is the share of that time in kernels that are slower there than on the median
    rank. Kernels that overlap communication or another stream's kernels, and communication itself, are left out,
    because others slow them.
    """
    return profile.memo("device_speed", lambda: _device_speed(profile))


def _device_speed(profile: Profile) -> pd.DataFrame:
    parts = [_medians(profile, rank) for rank in profile.ranks if rank.rank.has_device]
    table = (
        pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["key", "rank", "median_ns", "sum_ns"])
    )
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
    names = rank.events.frame["name"].cat.categories
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
        others[mine] = covered(union(rank.start[foreign], rank.end[foreign]), start[mine], end[mine])
    return np.asarray(others == 0)


def _summary(kernels: pd.DataFrame) -> tuple[float, int, float]:
    ordered = kernels.sort_values("ratio", kind="stable")
    weight = ordered["sum_ns"].to_numpy(dtype=float)
    middle = int(np.searchsorted(np.cumsum(weight), weight.sum() / 2))
    slower = float(weight[ordered["ratio"].to_numpy() > 1.0].sum() / max(weight.sum(), 1.0))
    return float(ordered["ratio"].iloc[middle]), len(ordered), slower
