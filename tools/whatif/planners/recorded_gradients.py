"""The input of ``gradient-buckets`` from a recorded data-parallel training.

Without a device a gradient is ready where its AccumulateGrad ends. On a device the backward thread runs ahead; there it
is ready when the computing kernels and copies have ended that this thread launched up to then, because an all-reduce
waits for the stream as it was when it was asked for. The rank where that is last counts. The link is the line through
the transfer times of the all-reduces over their sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from tools.errors import InputError
from tools.intervals import length
from tools.views.communication.collectives import asking_spans, element_bytes_of, elements_of
from tools.views.communication.gradient_sync import gradient_passes
from tools.views.communication.transfers import Fit, fits, transfers
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.planners.gradient_buckets import (
    MIB,
    Buckets,
    Gradient,
    Input,
    Link,
    ddp_buckets,
    plan,
    simulated_ms,
)
from tools.whatif.planners.record import Planned

NS_PER_MS = 1e6
SHARED_CORE = 0.5  # of the time that a transfer overlaps with compute: two threads on one core get half of it each


def plan_run(profile: Profile) -> Planned:
    """Return the plan for a run, with how well the replay of its present buckets meets the recorded step."""
    made = plan(recorded_gradients(profile))
    return replace(
        made,
        assumptions=[
            *made.assumptions,
            f"Gradients are ready as recorded, next to the present transfers. The recorded step takes "
            f"{profile.mean_step_ms:.4g} ms, replayed with the present buckets {made.before_ms:.4g} ms.",
        ],
    )


@dataclass(frozen=True)
class OtherBuckets:
    """The end of the step by the simulation, with the present buckets and with others, in ms.

    ``launch_ms``: what a rank no longer spends on asking for all-reduces, as there are fewer (negative: more);
    ``shared_ms``: what transfers no longer take from the computation that they overlap with, where both share cores.
    """

    before_ms: float
    after_ms: float
    launch_ms: float
    shared_ms: float
    buckets_before: int
    buckets_after: int


def with_bucket_cap(profile: Profile, cap_mb: float) -> OtherBuckets:
    """The step with the buckets that DistributedDataParallel makes of ``bucket_cap_mb``; InputError as below."""
    given = recorded_gradients(profile)
    assert given.current is not None
    other = ddp_buckets([each.bytes for each in given.gradients], cap_mb * MIB, cap_mb * MIB)
    before_ms, after_ms = (simulated_ms(given, buckets) for buckets in (given.current, other))
    counts = len(given.current), len(other)
    if profile.run.has_device:  # the host asks ahead of the device, and transfers have a stream of their own
        return OtherBuckets(before_ms, after_ms, 0.0, 0.0, *counts)
    asking = [asking_spans(view) for view in profile.ranks]
    steps = [max(len(view.steps), 1) for view in profile.ranks]
    asked_ms = max(length(spans) / NS_PER_MS / count for spans, count in zip(asking, steps, strict=True))
    launch_ms = asked_ms * (1.0 - counts[1] / counts[0])
    moved = sum(each.bytes for each in given.gradients) * given.link.beta_ms_per_byte
    transfers_ms = [moved + count * given.link.alpha_ms for count in counts]
    overlapped_ms = float(profile.breakdown["overlapped_communication_ns"].mean()) / NS_PER_MS
    shared_ms = SHARED_CORE * overlapped_ms * (1.0 - transfers_ms[1] / max(transfers_ms[0], 1e-9))
    return OtherBuckets(before_ms, after_ms, launch_ms, shared_ms, *counts)


def recorded_gradients(profile: Profile) -> Input:
    """Return gradients, link, present buckets and what follows the last transfer.

    Raises InputError that names what the run lacks.
    """
    link = _link(profile)
    ranks = [rank.rank.rank for rank in profile.ranks]
    ready = pd.concat([_ready(profile, rank) for rank in ranks])
    if ready.groupby("place")["bytes"].nunique().max() > 1:
        raise InputError("the ranks or steps have their gradients in different orders; give the input as JSON")
    gradients = ready.groupby(["rank", "place"]).mean().groupby("place").max()
    exchanged = gradient_passes(profile, ranks[0])
    sizes = gradients["bytes"].tolist()
    tail_ms = (profile.rank(ranks[0]).steps["end_ns"].to_numpy() - _last_transfers(profile, ranks[0])) / NS_PER_MS
    buckets = _buckets(sizes, exchanged.loc[exchanged["number"] == exchanged["number"].max(), "bytes"].tolist())
    try:
        return Input(
            gradients=[
                Gradient(ready_ms=float(at), bytes=float(size))
                for at, size in zip(np.maximum.accumulate(gradients["ready_ms"]), sizes, strict=True)
            ],
            link=Link(alpha_ms=link.fixed_ns / NS_PER_MS, beta_ms_per_byte=link.ns_per_byte / NS_PER_MS),
            current=buckets,
            update_ms=max(0.0, float(np.nanmean(tail_ms))),
        )
    except ValidationError as error:
        fault = error.errors()[0]
        raise InputError(f"the run cannot be planned: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None


def _link(profile: Profile) -> Fit:
    if not transfers(profile)["complete"].any():
        raise InputError("the transfer time of an all-reduce shows only where all ranks are traced; add their traces")
    line = next((fit for fit in fits(profile) if fit.kind == "all_reduce" and fit.sizes > 1), None)
    if line is None:
        raise InputError("the link follows from all-reduces of at least two sizes, one twice the other; record such")
    return line


def _ready(profile: Profile, rank: int) -> pd.DataFrame:
    """One row per step and gradient: rank, place (in order of readiness), ready_ms (from the step's start), bytes."""
    view = profile.rank(rank)
    rows = view.in_steps(np.flatnonzero(view.named("gradient_accumulated")))
    details = view.events.details.operators.set_index("row")[["dims", "types"]].reindex(rows)
    if not len(rows) or details.isna().any(axis=None):
        raise InputError("the trace has no gradients with shapes; record a backward pass with record_shapes=True")
    begins = view.steps.set_index("number")["start_ns"]
    table = pd.DataFrame({"step": view.step_of(rows), "end_ns": ready_ns(view, rows)})
    table["ready_ms"] = (table["end_ns"] - begins.loc[table["step"]].to_numpy()) / NS_PER_MS
    elements = details["dims"].astype(str).map(elements_of).to_numpy(np.float64)
    table["bytes"] = elements * details["types"].astype(str).map(element_bytes_of).to_numpy(np.float64)
    if (table["bytes"] <= 0).any():
        raise InputError("a gradient's shape or type was not recorded; record with record_shapes=True")
    table = table.sort_values(["step", "end_ns"], ignore_index=True, kind="stable")  # of equals as the host did
    if table.groupby("step").size().nunique() > 1:
        raise InputError("the steps have different numbers of gradients; give the input as JSON")
    return table.assign(rank=rank, place=table.groupby("step").cumcount())[["rank", "place", "ready_ms", "bytes"]]


def ready_ns(view: RankProfile, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """When the gradients of these AccumulateGrad rows are complete."""
    ready = view.end[rows].copy()
    if not view.rank.has_device:
        return ready
    links = view.launches[~np.isin(view.launches["device_row"], view.communication_kernels)]
    for track in np.unique(view.track[rows]):
        own = links[links["host_track"] == track].sort_values("call_start_ns")
        mine = np.flatnonzero(view.track[rows] == track)
        behind = np.searchsorted(own["call_start_ns"].to_numpy(), view.end[rows[mine]], side="right")
        ends = np.concatenate([[0], np.maximum.accumulate(own["end_ns"].to_numpy())])[behind]
        ready[mine] = np.maximum(ready[mine], ends)
    return ready


def _last_transfers(profile: Profile, rank: int) -> NDArray[np.float64]:
    """End of the last all-reduce of gradients of each step in ns, NaN where there is none."""
    view, passes = profile.rank(rank), gradient_passes(profile, rank)
    starts = view.steps["start_ns"].to_numpy()
    rows = passes["row"].to_numpy(np.int64)
    ends = np.full(len(starts), np.nan)
    np.fmax.at(ends, np.searchsorted(starts, view.start[rows], side="right") - 1, view.end[rows].astype(np.float64))
    return ends


def _buckets(sizes: list[float], exchanged: list[int]) -> Buckets:
    """The gradients of each all-reduce of one pass, which has to hold a run of them."""
    ends, reduced = np.cumsum(sizes), np.cumsum(exchanged)
    edges = np.searchsorted(ends, reduced - 0.5) + 1
    if len(np.unique(edges)) < len(exchanged) or list(ends[edges[edges <= len(sizes)] - 1]) != list(reduced):
        raise InputError("the all-reduces do not hold runs of the gradients, as DistributedDataParallel's buckets do")
    if not exchanged or reduced[-1] != ends[-1]:
        raise InputError("the all-reduces of the last backward pass do not hold all gradients; give the input as JSON")
    return [list(range(first, behind)) for first, behind in zip([0, *edges[:-1]], edges, strict=True)]
