"""Figures of collectives: how much they cost, who waits for whom, how fast the transfers are."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.intervals import intersect, length
from tools.knowledge.name_patterns import COLLECTIVE_KINDS
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_ranks
from tools.views.arrivals import arrivals, blame, exposed_wait_ns, wait_ratio, waits
from tools.views.collectives import asking_spans, collectives, partner_wait_ns, unmatched
from tools.views.profile import Profile


@metric("count", "{kind} collectives per step and rank", "How many collectives does a step have?")
def collective_count(profile: Profile, kind: str | None = None, rank: int | None = None) -> Measurement:
    """Collectives per step and rank, of one kind or of all."""
    table = _chosen(profile, kind, rank)
    value = len(table) / len(breakdown_of(profile, rank))
    return of_ranks(profile, value, table, selector("collectives in steps", kind), rank)


@metric("ms", "time per step in {kind} collectives", "How long is a rank inside collectives per step?")
def collective_ms(profile: Profile, kind: str | None = None, rank: int | None = None) -> Measurement:
    """Time per step inside collectives, waiting included, whether overlapped or not; one rank or the mean of all."""
    table = _chosen(profile, kind, rank)
    value = float((table["end_ns"] - table["start_ns"]).sum()) / 1e6 / len(breakdown_of(profile, rank))
    return of_ranks(profile, value, table, selector("durations of collectives in steps", kind), rank)


@metric("ms", "mean duration of {kind} collectives", "How long does one collective take?")
def collective_mean_ms(profile: Profile, kind: str | None = None, rank: int | None = None) -> Measurement:
    """Mean duration of one collective, waiting for stragglers included."""
    table = _chosen(profile, kind, rank)
    if table.empty:
        raise UsageError("no such collective runs in the recorded steps")
    value = float((table["end_ns"] - table["start_ns"]).mean()) / 1e6
    return of_ranks(profile, value, table, selector("durations of collectives in steps", kind), rank)


@metric("ms", "device wait per step while the host starts collectives", "How much do their launches cost?")
def collective_host_ms(profile: Profile) -> Measurement:
    """Time per step and rank in which the device waits for the host, which is busy asking for collectives."""
    spans = [(view, asking_spans(view)) for view in profile.ranks]
    total = sum(length(intersect(moments, view.parts.host)) for view, moments in spans)
    table = pd.concat(
        [pd.DataFrame(moments, columns=["start_ns", "end_ns"]).assign(rank=view.rank.rank) for view, moments in spans]
    )
    value = total / 1e6 / len(breakdown_of(profile, None))
    return of_ranks(profile, value, table, "host spans of the communication operators, device idle")


@metric("count", "collectives matched across ranks", "How many collectives were found on several ranks?")
def matched_collectives(profile: Profile) -> Measurement:
    """Collectives that were found on more than one traced rank, counted once each."""
    return of_ranks(profile, float(len(arrivals(profile))), arrivals(profile), "collectives matched across ranks")


@metric("count", "collectives without a counterpart", "How many collectives have no counterpart?")
def unmatched_collectives(profile: Profile) -> Measurement:
    """Collectives inside steps without a counterpart on another traced rank."""
    table = collectives(profile)
    lonely = table[(table["match"] < 0) & (table["step"] >= 0)]
    return of_ranks(profile, float(unmatched(profile)), lonely, "collectives without a counterpart")


@metric("ms", "exposed collective wait per step", "How long do ranks only wait for a later rank?")
def exposed_wait_ms(profile: Profile, rank: int | None = None, last_rank: int | None = None) -> Measurement:
    """Time per step in which a rank only waits in collectives for a later rank (for ``last_rank`` alone, if given)."""
    ranks = [number for number in profile.run.rank_numbers if number != last_rank] if rank is None else [rank]
    if not ranks:
        raise UsageError("the run has one rank only: nobody waits")
    table = waits(profile)
    table = table[table["rank"].isin(ranks) & (table["wait_ns"] > 0)]
    if last_rank is not None:
        table = table[table["last_rank"] == profile.rank(last_rank).rank.rank]
    value = float(np.mean([exposed_wait_ns(profile, number, last_rank).mean() for number in ranks])) / 1e6
    return of_ranks(profile, value, table, "collectives matched across ranks, time before the last came", rank)


@metric("ms", "exposed transfer time per step", "How much exposed communication is not waiting?")
def exposed_transfer_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Exposed communication per step without the waiting for stragglers that the traces show."""
    table = breakdown_of(profile, rank)
    ranks = profile.run.rank_numbers if rank is None else (rank,)
    waited = [exposed_wait_ns(profile, number) + partner_wait_ns(profile, number) for number in ranks]
    value = (float(table["exposed_communication_ns"].mean()) - float(np.mean([each.mean() for each in waited]))) / 1e6
    return of_ranks(profile, value, table, "breakdown part exposed_communication less exposed waiting", rank)


@metric("%", "exposed transfer share of the step", "How much of the step is exposed transfer without waiting?")
def exposed_transfer_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """The same as a share of the step."""
    return as_pct(exposed_transfer_ms(profile, rank), float(breakdown_of(profile, rank)["wall_ns"].mean()) / 1e6)


@metric("%", "wait ratio of {kind} collectives", "How far apart are the ranks' arrivals (R_wait)?")
def wait_ratio_pct(profile: Profile, kind: str | None = None, step: int | None = None) -> Measurement:
    """R_wait = 1 - T_avg/T_max over matched collectives, weighted by their longest duration."""
    table = arrivals(profile)
    table = table if kind is None else table[table["kind"] == kind]
    table = table if step is None else table[table["step"] == step]
    return of_ranks(profile, 100.0 * wait_ratio(table), table, selector("collectives matched across ranks", kind))


@metric("%", "waiting share of the time in collectives", "Which share of the time in collectives is waiting?")
def collective_wait_pct(profile: Profile) -> Measurement:
    """Share of the ranks' time inside matched collectives that is waiting for the last rank."""
    table = waits(profile)
    whole = float((table["end_ns"] - table["start_ns"]).sum())
    value = 100.0 * float(table["wait_ns"].sum()) / whole if whole > 0 else 0.0
    return of_ranks(profile, value, table, "collectives matched across ranks, time before the last came")


@metric("%", "share of exposed collective wait caused by rank {rank}", "How much waiting is for this rank?")
def wait_share_pct(profile: Profile, rank: int) -> Measurement:
    """Share of all exposed waiting in collectives for which this rank is the last to arrive."""
    value = 100.0 * float(blame(profile)["share"].loc[profile.rank(rank).rank.rank])
    return of_ranks(profile, value, arrivals(profile), "collectives matched across ranks, last rank", rank)


@metric("steps", "steps with rank {rank} as the straggler", "In how many steps is this rank waited for most?")
def steps_waited_for(profile: Profile, rank: int) -> Measurement:
    """Number of steps most of the exposed waiting is for this rank."""
    value = float(blame(profile)["steps"].loc[profile.rank(rank).rank.rank])
    return of_ranks(profile, value, arrivals(profile), "steps by the rank most waited for", rank)


@metric("count", "collectives with an outlying last arrival", "How often is this rank clearly last?")
def lone_arrivals(profile: Profile, rank: int) -> Measurement:
    """Collectives in which this rank came last and stands apart from all others (Dixon's test, or three sigma)."""
    table = arrivals(profile)
    table = table[(table["last_rank"] == profile.rank(rank).rank.rank) & table["outlier"]]
    return of_ranks(profile, float(len(table)), table, "collectives in which the last rank is an outlier", rank)


def _chosen(profile: Profile, kind: str | None, rank: int | None) -> pd.DataFrame:
    """The collectives in steps; UsageError for a kind that is none."""
    table = collectives(profile)
    table = table[table["step"] >= 0]
    if kind is not None:
        table = table[table["kind"] == choice("kind of collective", kind, dict(COLLECTIVE_KINDS))]
    return table if rank is None else table[table["rank"] == profile.rank(rank).rank.rank]


def breakdown_of(profile: Profile, rank: int | None) -> pd.DataFrame:
    """The breakdowns of one rank or of all."""
    table = profile.breakdown
    return table if rank is None else table[table["rank"] == profile.rank(rank).rank.rank]


def selector(what: str, kind: str | None) -> str:
    """The description of the rows, narrowed to one kind of collective."""
    return what if kind is None else f"{what}, kind {kind}"
