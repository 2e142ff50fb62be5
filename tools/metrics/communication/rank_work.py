"""Work of each rank in each step, by the recorded shapes of its matrix operators.

Unlike durations, shapes do not depend on how fast a rank is: where they differ between ranks, the work itself does.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric, of_ranks
from tools.views.communication.collectives import collectives
from tools.views.device.operator_cost import CostModel
from tools.views.device.roofline import math_operators
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

NEARLY_EVERY = 0.9  # of the steps, in which the same rank has to have most work to be called the busiest


@memoized
def rank_work(profile: Profile) -> pd.DataFrame:
    """One row per rank and step of all ranks: columns rank, step, flops, compute_ns, own_share (shapes others lack)."""
    tables = [_operators(view) for view in profile.ranks]
    table = pd.concat(tables, ignore_index=True)
    everywhere = table.groupby("step")["rank"].transform("nunique") == len(profile.ranks)
    table = table[everywhere.to_numpy()]
    if len(profile.ranks) < 2 or table.empty:
        return pd.DataFrame(columns=["rank", "step", "flops", "compute_ns", "own_share"])
    summed = table.groupby(["step", "key", "rank"])["flops"].sum().unstack("rank").fillna(0.0)
    shared = summed.min(axis=1).groupby("step").sum()
    result = table.groupby(["rank", "step"])["flops"].sum().reset_index()
    mean = result.groupby("step")["flops"].mean()
    result["own_share"] = 1.0 - result["step"].map(shared / mean)
    compute = profile.breakdown.set_index(["rank", "number"])["compute_ns"]
    result["compute_ns"] = compute.reindex(pd.MultiIndex.from_frame(result[["rank", "step"]])).to_numpy()
    return result


def uneven_pct(profile: Profile) -> float:
    """By how much the rank with most work exceeds the mean, mean over steps; 0 where work is not known."""
    table = rank_work(profile)
    if table.empty:
        return 0.0
    by_step = table.groupby("step")["flops"]
    return 100.0 * float((by_step.max() / by_step.mean() - 1.0).mean())


def busiest_rank(profile: Profile) -> int | None:
    """The rank that has most work in nearly every step; None where it changes from step to step."""
    table = rank_work(profile)
    if table.empty:
        return None
    most = table.loc[table.groupby("step")["flops"].idxmax(), "rank"].value_counts(normalize=True)
    return int(most.index.to_numpy(dtype=np.int64)[0]) if most.iloc[0] >= NEARLY_EVERY else None


def follows_work(profile: Profile) -> float:
    """Correlation of compute time with work over ranks and steps, each against the step's mean; -1 to 1."""
    table = rank_work(profile)
    if table.empty:
        return 0.0
    apart = [table[name] / table.groupby("step")[name].transform("mean") - 1.0 for name in ("flops", "compute_ns")]
    if min(float(values.std()) for values in apart) == 0:
        return 0.0
    return float(np.corrcoef(apart[0], apart[1])[0, 1])


def as_fast(profile: Profile, rank: int) -> bool:
    """Whether the rank computes about as long for its arithmetic as the median of the others for theirs, or shorter."""
    table = rank_work(profile)
    if table.empty:
        return False
    summed = table.groupby("rank")[["compute_ns", "flops"]].sum()
    per_flop = summed["compute_ns"] / summed["flops"].clip(lower=1.0)
    slower_pct = profile.thresholds["device_slowdown_pct" if profile.run.has_device else "host_slowdown_pct"]
    return bool(per_flop.loc[rank] < (1.0 + slower_pct / 100.0) * per_flop.drop(index=rank).median())


def uneven_compute_ms(profile: Profile) -> float:
    """Extra compute of the busiest rank over the mean, mean over steps."""
    table = rank_work(profile)
    if table.empty:
        return 0.0
    by_step = table.groupby("step")["compute_ns"]
    return float((by_step.max() - by_step.mean()).mean()) / 1e6


def exchanged_bytes(profile: Profile) -> pd.Series[float]:
    """Mean bytes per step of each rank's all-to-alls of known size; index rank."""
    table = collectives(profile)
    table = table[(table["kind"] == "all_to_all") & (table["step"] >= 0) & (table["bytes"] > 0)]
    steps = max(len(profile.step_ms), 1)
    return table.groupby("rank")["bytes"].sum() / steps


def _operators(view: RankProfile) -> pd.DataFrame:
    """The rank's matrix operators of known cost inside steps, one row each: rank, step, key, flops."""
    recorded = math_operators(view)
    rows = view.in_steps(recorded["row"].to_numpy())
    recorded = recorded[recorded["row"].isin(rows)]
    pairs = pd.DataFrame({"name": view.codes[rows], "dims": recorded["dims"].cat.codes.to_numpy()})
    distinct = pairs.drop_duplicates(ignore_index=True)
    shapes = recorded["dims"].cat.categories
    texts = [
        (str(view.categories[name]), str(shapes[dims])) for name, dims in distinct.itertuples(index=False, name=None)
    ]
    model = CostModel(texts)
    flops = [model.math_cost(name, dims).flops for name, dims in texts]
    distinct = distinct.assign(key=[f"{name} {dims}" for name, dims in texts], flops=flops)
    table = pairs.merge(distinct, on=["name", "dims"], how="left").assign(rank=view.rank.rank, step=view.step_of(rows))
    return table.loc[table["flops"].notna(), ["rank", "step", "key", "flops"]]


SELECTOR = "matrix operators in steps with recorded shapes"


@metric("%", "arithmetic imbalance across ranks", "How unevenly is arithmetic spread over ranks?")
def work_uneven_pct(profile: Profile) -> Measurement:
    """By how much the rank with most arithmetic exceeds the mean rank, by recorded shapes, mean over steps."""
    return _of(profile, uneven_pct(profile))


@metric("%", "share of arithmetic with rank-specific shapes", "How much of the arithmetic differs by rank?")
def work_own_share_pct(profile: Profile) -> Measurement:
    """Share of the arithmetic in operators that not all ranks ran with the same shapes."""
    return _of(profile, 100.0 * float(rank_work(profile)["own_share"].mean()))


@metric("%", "correlation of compute time with arithmetic", "Does compute time follow the arithmetic?")
def work_follows_pct(profile: Profile) -> Measurement:
    """Correlation of compute time with arithmetic over ranks and steps, in per cent."""
    return _of(profile, 100.0 * follows_work(profile))


@metric(
    "ms",
    "compute of the busiest rank beyond the mean",
    "How much longer than the mean of the ranks does the busiest one compute?",
)
def work_compute_spread_ms(profile: Profile) -> Measurement:
    """Extra compute of the busiest rank over the mean rank, mean over steps."""
    return _of(profile, uneven_compute_ms(profile))


@metric("%", "arithmetic against the mean rank", "How much arithmetic does this rank have against the mean?")
def rank_work_pct(profile: Profile, rank: int) -> Measurement:
    """Arithmetic of one rank against the mean of all, in per cent."""
    table = rank_work(profile)
    own = float(table.loc[table["rank"] == profile.rank(rank).rank.rank, "flops"].sum())
    whole = float(table["flops"].sum()) / max(table["rank"].nunique(), 1)
    return _of(profile, 100.0 * own / max(whole, 1.0), rank)


@metric("MiB", "all-to-all volume per step", "How much do all-to-alls exchange?")
def exchanged_mib(profile: Profile, rank: int | None = None) -> Measurement:
    """MiB per step in all-to-alls: of one rank, or the mean of all."""
    series = exchanged_bytes(profile)
    if series.empty:
        raise UsageError("no all-to-all of known size was recorded")
    value = float(series.mean() if rank is None else series.get(rank, 0.0)) / 2**20
    return of_ranks(profile, value, series.reset_index(), "all-to-alls in steps, larger side", rank)


def _of(profile: Profile, value: float, rank: int | None = None) -> Measurement:
    table = rank_work(profile)
    if table.empty:
        raise UsageError("the work of the ranks is not known: shapes, or the traces of several ranks, are missing")
    return of_ranks(profile, value, table, SELECTOR, rank)
