"""How much work each rank had in each step, by the recorded shapes of its matrix operators.

Unlike durations, shapes do not depend on how fast a rank is: where they differ between ranks, the work itself does.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.profilers.collectives import collectives
from tools.profilers.operator_cost import MATH_OPERATORS, CostModel
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile
from tools.run.events import name_mask

COLUMNS = ("rank", "step", "key", "flops")


def rank_work(profile: Profile) -> pd.DataFrame:
    """One row per rank and step that all ranks recorded: columns rank, step, flops, compute_ns, own_share.

    ``own_share`` is the part of the step's operations in operators that not all ranks ran with the same shapes. Empty
    where shapes are missing or one rank alone was traced.
    """
    return profile.memo("rank_work", lambda: _rank_work(profile))


def uneven_pct(profile: Profile) -> float:
    """By how much the rank with most work exceeds the mean, mean over steps; 0 where work is not known."""
    table = rank_work(profile)
    if table.empty:
        return 0.0
    by_step = table.groupby("step")["flops"]
    return 100.0 * float((by_step.max() / by_step.mean() - 1.0).mean())


def follows_work(profile: Profile) -> float:
    """Correlation of compute time with work over ranks and steps, each against the step's mean; -1 to 1."""
    table = rank_work(profile)
    if table.empty:
        return 0.0
    apart = [table[name] / table.groupby("step")[name].transform("mean") - 1.0 for name in ("flops", "compute_ns")]
    if min(float(values.std()) for values in apart) == 0:
        return 0.0
    return float(np.corrcoef(apart[0], apart[1])[0, 1])


def uneven_compute_ms(profile: Profile) -> float:
    """How much longer than the mean the rank that computes longest does so, mean over steps."""
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


def _rank_work(profile: Profile) -> pd.DataFrame:
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


def _operators(view: RankProfile) -> pd.DataFrame:
    """The rank's matrix operators of known cost inside steps, one row each."""
    names = view.events.frame["name"]
    wanted = name_mask(names, np.array([str(name) in MATH_OPERATORS for name in names.cat.categories], dtype=bool))
    recorded = view.events.details.operators
    recorded = recorded[wanted[recorded["row"].to_numpy()]]
    step = view.step_of(recorded["row"].to_numpy())
    recorded, step = recorded[step >= 0], step[step >= 0]
    called = names.iloc[recorded["row"]].cat.codes.to_numpy()
    pairs = pd.DataFrame({"name": called, "dims": recorded["dims"].cat.codes.to_numpy()})
    distinct = pairs.drop_duplicates().reset_index(drop=True)
    texts = [
        (str(names.cat.categories[name]), str(recorded["dims"].cat.categories[dims]))
        for name, dims in distinct.itertuples(index=False, name=None)
    ]
    model = CostModel(texts)
    flops = [model.math_cost(name, dims).flops for name, dims in texts]
    distinct = distinct.assign(key=[f"{name} {dims}" for name, dims in texts], flops=flops)
    table = pairs.merge(distinct, on=["name", "dims"], how="left").assign(rank=view.rank.rank, step=step)
    return table.loc[table["flops"].notna(), list(COLUMNS)]
