"""Arrival of the ranks at their collectives, and the wait of the early ones for the straggler.

In a collective that several traced ranks share, the rank with the shortest duration came last; what the others took
longer than it is waiting (Hermes, USENIX ATC'25: R_wait = 1 - T_avg/T_max). Durations need no common clock.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import covered, intersect, union
from tools.views.communication.collectives import PLACE, collectives
from tools.views.profile import Profile, memoized
from tools.views.steps.modes import step_modes

# Dixon's Q (gap over range of the lowest value) at 95 % confidence, two-sided, for 3 to 10 values (Rorabacher, Anal.
# Chem. 63, 1991). A group of ten or fewer can never hold a value three standard deviations from its mean.
DIXON_Q95 = {3: 0.970, 4: 0.829, 5: 0.710, 6: 0.625, 7: 0.568, 8: 0.526, 9: 0.493, 10: 0.466}
SIGMAS = 3.0
STEADY_STEPS = 3
BY_RANKS = ("seen", "last_rank", "shortest_ns")


@memoized
def waits(profile: Profile) -> pd.DataFrame:
    """Matched rows of ``collectives`` with columns seen (by how many ranks), last_rank, shortest_ns, wait_ns (for it),
    exposed_wait_ns. Of many ranks the summaries of all say who came last, which may be a rank not read in full."""
    table = _shared(profile)
    table = table.assign(wait_ns=table["end_ns"] - table["start_ns"] - table["shortest_ns"])
    exposed = np.zeros(len(table), dtype=np.int64)
    for rank in profile.ranks:
        mine = (table["rank"] == rank.rank.rank).to_numpy()
        start = table["start_ns"].to_numpy()[mine]
        until = start + table["wait_ns"].to_numpy()[mine]
        exposed[mine] = covered(rank.parts.exposed_communication, start, until)
    return table.assign(exposed_wait_ns=exposed)


def _shared(profile: Profile) -> pd.DataFrame:
    """The rows of ``collectives`` that several ranks share, with seen, last_rank and shortest_ns."""
    table, screening = collectives(profile), profile.run.screening
    if screening is None:
        return _by_durations(table[table["match"] >= 0].reset_index(drop=True))
    known = table.merge(screening.collectives, on=[*PLACE, "sequence"], how="left")
    summarized = known["instance"].notna()
    lone = (known["match"] < 0) & summarized
    unused = int(table["match"].to_numpy().max(initial=-1)) + 1
    match = known["match"].where(~lone, known["instance"].fillna(0).astype("int64") + unused)
    known = known.assign(match=match.astype("int64"))
    others = _by_durations(table[(table["match"] >= 0) & ~summarized])
    columns = [*others.columns]
    whole = known[summarized][columns].astype({name: "int64" for name in BY_RANKS})
    return pd.concat([whole, others], ignore_index=True).sort_values(["rank", "start_ns"], ignore_index=True)


def _by_durations(table: pd.DataFrame) -> pd.DataFrame:
    """Matched rows; who came last by the durations of the ranks that were read."""
    duration = table["end_ns"] - table["start_ns"]
    order = np.lexsort((-table["start_ns"].to_numpy(), duration.to_numpy(), table["match"].to_numpy()))
    first = table["match"].iloc[order].drop_duplicates().index
    last = pd.Series(table["rank"].loc[first].to_numpy(), index=table["match"].loc[first].to_numpy())
    matches = duration.groupby(table["match"])
    return table.assign(
        seen=matches.transform("size"), last_rank=table["match"].map(last), shortest_ns=matches.transform("min")
    )


@memoized
def arrivals(profile: Profile) -> pd.DataFrame:
    """One row per matched collective, in order of time.

    Columns: match, kind, group, group_size, bytes (largest of the ranks), step, ranks (how many share it; what follows
    is of those that were read in full), longest_ns, mean_ns,
    shortest_ns, end_spread_ns, wait_ratio, last_rank, outlier (the last one is alone by Dixon's test or three sigma),
    caused_ns (exposed waiting, mean over the ranks that waited).
    """
    table = waits(profile)
    table = table.assign(
        duration_ns=table["end_ns"] - table["start_ns"], waits_for_another=table["rank"] != table["last_rank"]
    )
    grouped = table.groupby("match", sort=False)
    result = grouped.agg(
        kind=("kind", "first"),
        group=("group", "first"),
        group_size=("group_size", "first"),
        bytes=("bytes", "max"),
        step=("step", "first"),
        ranks=("seen", "first"),
        waiting=("waits_for_another", "sum"),
        start_ns=("start_ns", "min"),
        first_end_ns=("end_ns", "min"),
        last_end_ns=("end_ns", "max"),
        longest_ns=("duration_ns", "max"),
        mean_ns=("duration_ns", "mean"),
        shortest_ns=("shortest_ns", "first"),
        last_rank=("last_rank", "first"),
        caused_ns=("exposed_wait_ns", "sum"),
    ).reset_index()
    result["caused_ns"] = result["caused_ns"] / result.pop("waiting").clip(lower=1)
    result["end_spread_ns"] = result["last_end_ns"] - result["first_end_ns"]
    result["wait_ratio"] = 1.0 - result["mean_ns"] / result["longest_ns"].clip(lower=1)
    result["outlier"] = _outliers(table, result)
    return result.sort_values("start_ns", ignore_index=True)


@memoized
def blame(profile: Profile) -> pd.DataFrame:
    """Who is waited for: index rank, columns caused_ns, share, steps (as the first), waited_ns (its own wait).

    Of many ranks those that were read in full, with their shares of the waiting of all.
    """
    numbers = [rank.rank.rank for rank in profile.ranks]
    if profile.run.screening is not None:
        return profile.run.screening.waiting.loc[numbers]
    table = arrivals(profile)
    caused = table.groupby("last_rank")["caused_ns"].sum().reindex(numbers, fill_value=0.0)
    per_step = table.groupby(["step", "last_rank"])["caused_ns"].sum()
    per_step = per_step[per_step > 0]
    leaders = per_step.groupby("step").idxmax().map(lambda key: key[1]) if len(per_step) else pd.Series(dtype="int64")
    steps = leaders.value_counts().reindex(numbers, fill_value=0)
    total = float(caused.sum())
    share = caused / total if total > 0 else caused * 0.0
    waited = waits(profile).groupby("rank")["exposed_wait_ns"].sum().reindex(numbers, fill_value=0)
    return pd.DataFrame({"caused_ns": caused, "share": share, "steps": steps.astype("int64"), "waited_ns": waited})


def caused_share(profile: Profile, ranks: tuple[int, ...]) -> float:
    """The share of all exposed waiting, by its milliseconds, that is for these ranks and those that they stand for."""
    screening = profile.run.screening
    if screening is None:
        return float(blame(profile)["share"].loc[list(ranks)].sum())
    whole = screening.standing_for(ranks, profile.run.rank_numbers)
    return float(screening.waiting["share"].loc[list(whole)].sum())


def exposed_wait_ns(profile: Profile, rank: int, last_rank: int | None = None) -> NDArray[np.int64]:
    """Per step of the rank, the time in which it did nothing but wait for a rank (or for ``last_rank`` alone)."""
    view, table = profile.rank(rank), waits(profile)
    mine = table[(table["rank"] == rank) & (table["wait_ns"] > 0)]
    if last_rank is not None:
        mine = mine[mine["last_rank"] == last_rank]
    start = mine["start_ns"].to_numpy()
    waiting = union(start, start + mine["wait_ns"].to_numpy())
    return view.per_step_ns(intersect(waiting, view.parts.exposed_communication))


def steadiness(profile: Profile, late: tuple[int, ...]) -> float:
    """Mean over standard error of how much longer the others wait than the stragglers; infinite without an error.

    Where the steps fall into groups, of the group with most of that waiting: a rank that is late in every other step
    is late steadily in those.
    """
    columns = {
        view.rank.rank: pd.Series(exposed_wait_ns(profile, view.rank.rank), index=view.steps["number"].to_numpy())
        for view in profile.ranks
    }
    table = pd.DataFrame(columns)
    is_late = table.columns.isin(late)
    lead = (table.loc[:, ~is_late].mean(axis=1) - table.loc[:, is_late].mean(axis=1)).dropna()
    groups = [lead[lead.index.isin(group.steps)] for group in step_modes(profile)]
    most = max(groups, key=lambda group: float(group.sum()), default=lead)
    return _steady((most if len(most) >= STEADY_STEPS else lead).to_numpy())


def _steady(lead: NDArray[np.float64]) -> float:
    error = float(lead.std(ddof=1)) / np.sqrt(len(lead)) if len(lead) >= STEADY_STEPS else 0.0
    return float(lead.mean()) / error if error > 0 else float("inf")


def wait_ratio(table: pd.DataFrame) -> float:
    """1 - T_avg/T_max over collectives of ``arrivals``, weighted by their longest duration."""
    longest = float(table["longest_ns"].sum())
    return 1.0 - float(table["mean_ns"].sum()) / longest if longest > 0 else 0.0


def _outliers(table: pd.DataFrame, result: pd.DataFrame) -> NDArray[np.bool_]:
    """For each match, whether the shortest duration stands apart from the others."""
    ordered = table.sort_values(["match", "duration_ns"])
    counts = ordered.groupby("match")["match"].transform("size")
    outlier: dict[int, bool] = {}
    for size in counts.unique():
        own = ordered[counts == size]
        matrix = own["duration_ns"].to_numpy(dtype=np.float64).reshape(-1, size)
        outlier |= zip(own["match"].to_numpy()[::size].tolist(), _lowest_stands_apart(matrix).tolist(), strict=True)
    return np.asarray(result["match"].map(outlier), dtype=np.bool_)


def _lowest_stands_apart(ascending: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Rows are groups of values in ascending order."""
    size = ascending.shape[1]
    if size in DIXON_Q95:
        spread = ascending[:, -1] - ascending[:, 0]
        gap = ascending[:, 1] - ascending[:, 0]
        return gap > DIXON_Q95[size] * np.maximum(spread, 1.0)
    if size < min(DIXON_Q95):
        return np.zeros(len(ascending), dtype=np.bool_)
    distance = ascending.mean(axis=1) - ascending[:, 0]
    return np.asarray(distance > SIGMAS * np.maximum(ascending.std(axis=1, ddof=1), 1.0))
