"""Figures of overlap: what communication overlaps with compute, what more could, and what would be left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import IntervalSet, covered, intersect, subtract, union
from tools.metrics.communication.collectives import breakdown_of, exposed_transfer_ms, exposed_wait_ms
from tools.metrics.measurement import Measurement, as_pct, metric, of_ranks
from tools.run.model import MONITOR_FORMAT
from tools.views.collectives import collectives
from tools.views.host_records import TICKS_PER_S
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.transfers import NEEDED_AT_ONCE, exchange_rows, exposed_exchange_ns, pipelined_ns

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
