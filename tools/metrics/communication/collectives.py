"""Figures of collectives: cost, waits between ranks, and their overlap with compute."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, covered, intersect, length, subtract, union
from tools.knowledge.name_patterns import COLLECTIVE_KINDS
from tools.metrics.measurement import Measurement, as_pct, choice, metric, of_ranks, over_steps
from tools.run.model import MONITOR_FORMAT
from tools.views.communication.arrivals import arrivals, blame, exposed_wait_ns, wait_ratio, waits
from tools.views.communication.collectives import asking_spans, collectives, partner_wait_ns, unmatched
from tools.views.communication.transfers import NEEDED_AT_ONCE, exchange_rows, exposed_exchange_ns, pipelined_ns
from tools.views.host.records import TICKS_PER_S
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile


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


@metric("ms", "{statistic} duration of single {kind} collectives", "How long is the longest or shortest collective?")
def collective_each_ms(
    profile: Profile, kind: str | None = None, rank: int | None = None, statistic: str = "max"
) -> Measurement:
    """Duration of single collectives with their waiting: median, mean, min, max, p95 or p99 of them."""
    table = _chosen(profile, kind, rank)
    if table.empty:
        raise UsageError("no such collective runs in the recorded steps")
    value = over_steps((table["end_ns"] - table["start_ns"]).to_numpy() / 1e6, statistic)
    return of_ranks(profile, value, table, selector("durations of collectives in steps", kind), rank)


@metric("B", "bytes per step in {kind} collectives", "How many bytes do the collectives of a step carry?")
def collective_bytes(profile: Profile, kind: str | None = None, rank: int | None = None) -> Measurement:
    """Size of the buffers of a step's collectives, one rank or the mean of all; not what the links carry for them."""
    table = _chosen(profile, kind, rank)
    if table.empty or (table["bytes"] < 0).any():
        raise UsageError("the sizes of these collectives were not recorded")
    value = float(table["bytes"].sum()) / len(breakdown_of(profile, rank))
    return of_ranks(profile, value, table, selector("sizes of collectives in steps", kind), rank)


@metric("ms", "time per step in which a {kind} collective runs", "How long does at least one collective run per step?")
def collective_busy_ms(profile: Profile, kind: str | None = None, rank: int | None = None) -> Measurement:
    """The same time as ``collective_ms``, but collectives of one rank that run at the same time count once."""
    table = _chosen(profile, kind, rank)
    each = (group for _, group in table.groupby("rank"))
    total = sum(length(union(group["start_ns"].to_numpy(), group["end_ns"].to_numpy())) for group in each)
    value = total / 1e6 / len(breakdown_of(profile, rank))
    return of_ranks(profile, value, table, selector("collectives in steps, their union", kind), rank)


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


REDUCING = ("all_reduce", "reduce_scatter", "reduce")
BACKWARD_SHARE = 2.0 / 3.0  # of computation; gradients exist only from the backward pass on, twice the forward's work


@metric("%", "communication overlap with compute", "How much communication overlaps with compute?")
def communication_overlap_pct(profile: Profile, rank: int | None = None) -> Measurement:
    """Share of the communication time during which computation runs as well."""
    table = breakdown_of(profile, rank)
    overlapped = float(table["overlapped_communication_ns"].sum())
    whole = overlapped + float(table["exposed_communication_ns"].sum())
    value = 100.0 * overlapped / whole if whole > 0 else 0.0
    return of_ranks(profile, value, table, "breakdown, overlapped over all communication", rank)


@metric("ms", "exposed all-to-all transfer time per step", "How much exposed transfer is needed at once?")
def exposed_exchange_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Exposed transfer per step of all-to-alls; without a device only as far as cores are idle."""
    value = min(_exchanged_ms(profile, rank), _idle_ms(profile))
    return of_ranks(profile, value, exchange_rows(profile), "all-to-alls, exposed and not waiting", rank)


@metric("ms", "movable exposed transfer time per step", "How much exposed transfer could run at another time?")
def movable_transfer_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Exposed transfer per step except all-to-alls; without a device only as far as cores are idle."""
    movable_ms = max(exposed_transfer_ms(profile, rank).value - _exchanged_ms(profile, rank), 0.0)
    value = min(movable_ms, _idle_ms(profile))
    return of_ranks(profile, value, breakdown_of(profile, rank), "exposed transfer less that of all-to-alls", rank)


@metric("%", "movable exposed transfer share of the step", "How much of the step is movable transfer?")
def movable_transfer_pct(profile: Profile) -> Measurement:
    """The same as a share of the step."""
    return as_pct(movable_transfer_ms(profile), float(profile.breakdown["wall_ns"].mean()) / 1e6)


@metric("%", "exposed all-to-all transfer share of the step", "How much of the step are exposed all-to-alls?")
def exposed_exchange_pct(profile: Profile) -> Measurement:
    """Exposed transfer of all-to-alls as a share of the step."""
    return as_pct(exposed_exchange_ms(profile), float(profile.breakdown["wall_ns"].mean()) / 1e6)


@metric("ms", "exposed transfer per step that compute could hide", "How much transfer could be hidden?")
def hideable_communication_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Movable exposed transfer that other computation could hide; reductions hide behind the backward pass only."""
    table = breakdown_of(profile, rank)
    views = profile.ranks if rank is None else (profile.rank(rank),)
    hidden_ms = float(np.mean(np.concatenate([_hideable_ns(profile, view) for view in views]))) / 1e6
    value = min(hidden_ms, movable_transfer_ms(profile, rank).value)
    return of_ranks(profile, max(value, 0.0), table, "breakdown, exposed communication and compute without any", rank)


@metric("%", "exposed transfer share with the best overlap", "How much transfer would stay exposed?")
def left_exposed_pct(profile: Profile) -> Measurement:
    """Exposed transfer left if all that can be were hidden, as a share of the step as it then is."""
    table = profile.breakdown
    hidden_ms = hideable_communication_ms(profile).value
    left_ms = exposed_transfer_ms(profile).value - hidden_ms
    wall_ms = float(table["wall_ns"].mean()) / 1e6 - hidden_ms
    value = 100.0 * max(left_ms, 0.0) / wall_ms if wall_ms > 0 else 0.0
    return of_ranks(profile, value, table, "breakdown, exposed transfer less what could be hidden")


@metric("ms", "all-to-all time per step hidden by shards", "How much would splitting the batch hide?")
def pipelined_exchange_ms(profile: Profile) -> Measurement:
    """Exposed all-to-all time per step that two to four shards of the batch would hide, less their start cost."""
    exposed_ns = exposed_exchange_ms(profile).value * 1e6
    table = profile.breakdown
    free_ns = float((table["compute_ns"] - table["overlapped_communication_ns"]).clip(lower=0).mean())
    value = min(pipelined_ns(profile, exposed_ns), free_ns) / 1e6
    return of_ranks(profile, value, exchange_rows(profile), "all-to-alls in two to four shards")


@metric("%", "idle core share of the busiest machine", "How idle are the machines' cores?")
def idle_cores_pct(profile: Profile) -> Measurement:
    """Share of the time in which the cores of the ranks' machines are idle; of the busiest machine."""
    records = profile.host_records
    known = {} if records is None else {rank: records.idle_share(rank) for rank in records.ranks}
    shares = [(share, rank) for rank, share in known.items() if share is not None]
    if records is None or not shares:
        raise UsageError("the records do not show how busy the machines were")
    share, rank = min(shares)
    spans, selector = records.spans(rank), "samples of the machine's cores"
    return Measurement(100.0 * share, lambda: spans, selector, (rank,), source=MONITOR_FORMAT)


def _exchanged_ms(profile: Profile, rank: int | None) -> float:
    views = profile.ranks if rank is None else (profile.rank(rank),)
    return float(np.mean([exposed_exchange_ns(profile, view) for view in views])) / 1e6


def _hideable_ns(profile: Profile, view: RankProfile) -> NDArray[np.float64]:
    """Exposed communication of each step that its computation could hide: reductions behind a part of it only."""
    start, end = view.steps["start_ns"].to_numpy(), view.steps["end_ns"].to_numpy()
    free_ns = covered(subtract(view.parts.compute, view.parts.overlapped_communication), start, end)
    exposed = view.parts.exposed_communication
    reducing = intersect(exposed, _under_way(profile, view, REDUCING))
    others = subtract(subtract(exposed, reducing), _under_way(profile, view, NEEDED_AT_ONCE))
    reduced_ns = np.minimum(covered(reducing, start, end), BACKWARD_SHARE * free_ns)
    hidden: NDArray[np.float64] = np.minimum(reduced_ns + covered(others, start, end), free_ns)
    return hidden


def _under_way(profile: Profile, view: RankProfile, kinds: tuple[str, ...]) -> IntervalSet:
    table = collectives(profile)
    mine = table[(table["rank"] == view.rank.rank) & table["kind"].isin(kinds)]
    return union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())


def _idle_ms(profile: Profile) -> float:
    """Without a device overlap needs a core: the time per step in which every rank has an idle one; else infinite."""
    records = profile.host_records
    if profile.run.has_device or records is None:
        return float("inf")
    idle = []
    for rank in records.ranks:
        near = records.around(rank)
        rates = [rate for each in near if (rate := records.per_second(each, "cpu_idle_ticks")) is not None]
        idle += [rates[0] / TICKS_PER_S / len(near)] if rates else []  # idle cores for each rank on the machine
    if not idle:
        return float("inf")
    step_ms = profile.mean_step_ms
    return min(max(min(idle) * step_ms - exposed_wait_ms(profile).value, 0.0), step_ms)
