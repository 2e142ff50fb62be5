"""Gradient all-reduces of DistributedDataParallel, by the backward pass and the optimizer step that they belong to."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.run.links import launch_starts
from tools.views.collectives import collectives
from tools.views.profile import Profile, memoized

EQUAL = 0.1  # passes that exchange the same gradients differ by no more than this share of their bytes


@memoized
def gradient_passes(profile: Profile, rank: int) -> pd.DataFrame:
    """The all-reduces of one rank inside its steps, by pass: from one forward of the wrapped model to the next.

    Columns: row, bytes, number (of the pass), update (the optimizer step that follows). Empty where the model is not
    wrapped in DistributedDataParallel.
    """
    view = profile.rank(rank)
    forwards = np.sort(view.start[view.in_steps(np.flatnonzero(view.named("data_parallel_forward")))])
    table = collectives(profile)
    table = table[(table["rank"] == rank) & (table["kind"] == "all_reduce") & (table["step"] >= 0)]
    if not len(forwards) or table.empty:
        return pd.DataFrame(columns=["row", "bytes", "number", "update"])
    asked = launch_starts(view.events, table["row"].to_numpy())
    updates = np.sort(view.end[np.flatnonzero(view.named("optimizer_update"))])
    if not len(updates):
        updates = view.steps["end_ns"].to_numpy()
    number = np.searchsorted(forwards, asked, side="right") - 1
    made = table.assign(number=number, update=np.searchsorted(updates, asked))
    kept: pd.DataFrame = made.loc[number >= 0, ["row", "bytes", "number", "update"]].reset_index(drop=True)
    return kept


@memoized
def repeated(profile: Profile, rank: int) -> pd.DataFrame:
    """Of ``gradient_passes`` those all-reduces that a later pass before the same optimizer step makes superfluous.

    A pass counts when it exchanges as many bytes as the last one before the step: sums of gradients need one exchange.
    """
    passes = gradient_passes(profile, rank)
    if passes.empty:
        return passes
    size = passes.groupby(["update", "number"])["bytes"].sum()
    last = size.groupby("update").transform("last")
    again = (size >= (1.0 - EQUAL) * last) & (size <= (1.0 + EQUAL) * last) & (last > 0)
    latest = size.reset_index().groupby("update")["number"].transform("max").to_numpy()
    superfluous = again.to_numpy() & (size.index.get_level_values("number") < latest)
    chosen = size.index[superfluous]
    kept: pd.DataFrame = passes[pd.MultiIndex.from_frame(passes[["update", "number"]]).isin(chosen)]
    return kept


def passes_per_update(profile: Profile, rank: int) -> float:
    """How many passes with an all-reduce come before one optimizer step, on average."""
    passes = gradient_passes(profile, rank)
    return float(passes.groupby("update")["number"].nunique().mean()) if len(passes) else 0.0
