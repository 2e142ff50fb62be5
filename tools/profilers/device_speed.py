"""Which rank's device runs the same kernels slower than the others'."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.intervals import covered, union
from tools.profilers.kernels import kernel_table
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile

LEAST_CALLS = 3  # a kernel seen less often on a rank says little
SPEED_COLUMNS = ("rank", "ratio", "kernels", "slower_share")


def device_speed(profile: Profile) -> pd.DataFrame:
    """One row per rank that shares kernels with another rank: columns rank, ratio, kernels, slower_share.

    A kernel is the same on two ranks when name and grid are equal. Its ratio on a rank is the rank's median duration
    over the median of all ranks' medians. ``ratio`` is the median of these, weighted by time; ``slower_share`` is the
    share of that time in kernels that are slower there than on the median rank. Kernels that overlap communication
    or another stream's kernels, and communication itself, are left out, because others slow them.
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
    usual = table.groupby("key")["median_ns"].transform("median")
    table = table.assign(ratio=table["median_ns"] / usual.clip(lower=1))
    rows = [(rank, *_summary(table[table["rank"] == rank])) for rank in sorted(table["rank"].unique().tolist())]
    return pd.DataFrame(rows, columns=list(SPEED_COLUMNS))


def _medians(profile: Profile, rank: RankProfile) -> pd.DataFrame:
    table = kernel_table(profile, rank.rank.rank)
    table = table[(table["kernel_class"] != "communication").to_numpy()]
    table = table[_alone(rank, table)]
    grouped = table.groupby(["name", "blocks"])["duration_ns"].agg(["median", "sum", "size"]).reset_index()
    grouped = grouped[grouped["size"] >= LEAST_CALLS]
    names = rank.events.frame["name"].cat.categories
    return pd.DataFrame(
        {
            "key": [f"{names[name]}|{blocks}" for name, blocks in zip(grouped["name"], grouped["blocks"], strict=True)],
            "rank": rank.rank.rank,
            "median_ns": grouped["median"].to_numpy(),
            "sum_ns": grouped["sum"].to_numpy(),
        }
    )


def _alone(rank: RankProfile, table: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
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
