"""Collectives whose other members were not traced: what can be said of the moment when the last of them came?

A group of which one rank was traced tells nothing of the others, and its collective would last as long whatever
changes elsewhere. But groups run in parallel: where ranks share a layer, the gradients of its parts are reduced by one
group for each part, and a rank that holds up the layer makes all of these groups wait. So where such a collective
ends together with its like in another group, whose last member came meanwhile, the two waited for the same.
"""

from __future__ import annotations

import pandas as pd

from tools.profilers.collectives import SYNCHRONISING

ALIKE = ["kind", "bytes", "group_size", "step", "sequence"]  # what collectives of parallel groups have in common


def with_parallel_groups(taking_part: pd.DataFrame) -> pd.DataFrame:
    """The rows with a match; those without get that of a parallel group which waited for the same, else they go.

    Columns: op, start_ns, end_ns, match (-1: none), and those of ``ALIKE``.
    """
    matched, lone = taking_part[taking_part["match"] >= 0], taking_part[_may_wait(taking_part)]
    if matched.empty or lone.empty:
        return matched
    joined = lone.drop(columns="match").merge(_meetings(matched), on=ALIKE)
    joined = joined.assign(apart=(joined["end_ns"] - joined["met_end_ns"]).abs())
    came_meanwhile = (joined["start_ns"] < joined["last_ns"]) & (joined["last_ns"] < joined["end_ns"])
    same = joined[came_meanwhile & (joined["apart"] <= joined["transfer_ns"])]
    nearest = same.sort_values(["op", "apart", "match"]).drop_duplicates("op")
    return pd.concat([matched, nearest[matched.columns]], ignore_index=True)


def _may_wait(table: pd.DataFrame) -> pd.Series[bool]:
    return (table["match"] < 0) & table["kind"].isin(SYNCHRONISING) & (table["bytes"] > 0) & (table["step"] >= 0)


def _meetings(matched: pd.DataFrame) -> pd.DataFrame:
    """One row per match: ``ALIKE``, the last member's start, the end, and how long it took from there."""
    table = matched.groupby("match", as_index=False).agg(
        **{name: (name, "first") for name in ALIKE},
        last_ns=("start_ns", "max"),
        met_end_ns=("end_ns", "max"),
    )
    return table.assign(transfer_ns=table["met_end_ns"] - table["last_ns"])
