"""The input of ``gradient-buckets`` from a recorded data-parallel training.

Without a device a gradient is ready where its AccumulateGrad ends. On a device the backward thread runs ahead; there it
is ready when the computing kernels and copies have ended that this thread launched up to then, because an all-reduce
waits for the stream as it was when it was asked for. The rank where that is last counts. The link is the line through
the transfer times of the all-reduces over their sizes; where ranks are missing, of those that began right behind
another one, as ranks that left one together wait little for each other in the next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import ValidationError

from tools.errors import InputError
from tools.intervals import length
from tools.run.links import launch_starts, launching_calls
from tools.views.communication.collectives import asking_spans, element_bytes_of, elements_of
from tools.views.communication.gradient_sync import gradient_passes
from tools.views.communication.transfers import Fit, fits, prompt_fit, transfers
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.planners.gradient_buckets import (
    MIB,
    BucketPlan,
    Buckets,
    Ddp,
    Gradient,
    Input,
    Link,
    ddp_buckets,
    plan,
    simulated_ms,
)
from tools.whatif.planners.record import Planned

NS_PER_MS = 1e6
NOT_ALL_RANKS = (
    "Not all ranks were traced: gradients are ready as on the traced ones, and the link is that of all-reduces that "
    "began right behind another one."
)
WHOLE_BUCKETS = (
    "Single gradients were not recorded as they are exchanged (record_shapes=True), so present buckets are merged and "
    "never split."
)
SHARED_CORE = 0.5  # of the time that a transfer overlaps with compute: two threads on one core get half of it each


def plan_run(profile: Profile) -> Planned:
    """Return the plan for a run, with how well the replay of its present buckets meets the recorded step."""
    try:
        given, whole = recorded_gradients(profile), False
    except NoGradientsError as error:
        given, whole = recorded_buckets(profile, error), True
    made = plan(given)
    assert made.before_ms is not None
    return replace(
        made,
        plan=_without_splits(made, given) if whole else made.plan,
        assumptions=[
            *made.assumptions,
            f"Gradients are ready as recorded, next to the present transfers. The recorded step takes "
            f"{profile.mean_step_ms:.4g} ms, replayed with the present buckets {made.before_ms:.4g} ms.",
            *(() if _all_ranks(profile) else (NOT_ALL_RANKS,)),
            *((WHOLE_BUCKETS,) if whole else ()),
        ],
    )


class NoGradientsError(InputError):
    """The run's gradients are not known one by one, or do not make up its all-reduces."""


def _without_splits(made: Planned, given: Input) -> BucketPlan:
    """The plan of whole buckets: what a cap below the largest would bring is not known."""
    assert isinstance(made.plan, BucketPlan)
    assert made.before_ms is not None
    cap = made.plan.ddp.bucket_cap_mb
    if (
        cap is not None
        and cap * MIB > max(each.bytes for each in given.gradients)
        and made.plan.ddp.after_ms < made.before_ms
    ):
        return made.plan
    same = Ddp(bucket_cap_mb=None, after_ms=made.before_ms, default_ms=made.before_ms)
    return made.plan.model_copy(update={"ddp": same})


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
    buckets = _buckets(sizes, exchanged.loc[exchanged["number"] == exchanged["number"].max(), "bytes"].tolist())
    return _checked(
        np.maximum.accumulate(gradients["ready_ms"].to_numpy()).tolist(),
        sizes,
        link,
        buckets,
        _tail_ms(profile, ranks[0]),
    )


def recorded_buckets(profile: Profile, error: InputError) -> Input:
    """Return the present all-reduces as the pieces, each ready when it is asked for and the device has come that far.

    Raises ``error`` where these are not known either, or not the same in every pass.
    """
    link = _link(profile)
    tables = []
    for rank in profile.run.rank_numbers:
        view, passes = profile.rank(rank), like_the_last(gradient_passes(profile, rank))
        rows = passes["row"].to_numpy(np.int64)
        if not len(rows) or (passes["bytes"] <= 0).any():
            raise error
        calls = launching_calls(view.events, rows) if view.rank.has_device else rows
        asked = launch_starts(view.events, rows)
        ready = _computed_ns(view, np.maximum(calls, 0), asked) if view.rank.has_device else asked
        begun = _spans(view)["begin_ns"].to_numpy()[_places(view, asked)]
        made = pd.DataFrame({"number": passes["number"], "ready_ms": (ready - begun) / NS_PER_MS})
        made["bytes"] = passes["bytes"].to_numpy(dtype=np.float64)
        tables.append(made.assign(rank=rank, place=made.groupby("number").cumcount()))
    table = pd.concat(tables)
    if table.groupby("place")["bytes"].nunique().max() > 1:
        raise error
    pieces = table.groupby(["rank", "place"])[["ready_ms", "bytes"]].mean().groupby("place").max()
    return _checked(
        np.maximum.accumulate(pieces["ready_ms"].to_numpy()).tolist(),
        pieces["bytes"].tolist(),
        link,
        [[place] for place in range(len(pieces))],
        _tail_ms(profile, profile.run.rank_numbers[0]),
    )


def like_the_last(passes: pd.DataFrame) -> pd.DataFrame:
    """The passes that exchange the same sizes in the same order as the last one."""
    sizes = passes.groupby("number")["bytes"].agg(tuple)
    alike = sizes.index[[each == sizes.iloc[-1] for each in sizes]]
    return passes[passes["number"].isin(alike)].reset_index(drop=True)


def _checked(ready_ms: list[float], sizes: list[float], link: Fit, current: Buckets, update_ms: float) -> Input:
    """The planner's input of these figures; InputError where one of them cannot be."""
    try:
        return Input(
            gradients=[Gradient(ready_ms=at, bytes=size) for at, size in zip(ready_ms, sizes, strict=True)],
            link=Link(alpha_ms=link.fixed_ns / NS_PER_MS, beta_ms_per_byte=link.ns_per_byte / NS_PER_MS),
            current=current,
            update_ms=update_ms,
        )
    except ValidationError as error:
        fault = error.errors()[0]
        raise InputError(f"the run cannot be planned: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None


def _link(profile: Profile) -> Fit:
    table = transfers(profile)
    if not (table["kind"] == "all_reduce").any():
        raise InputError(
            "no all-reduce of known size was recorded; record one step with all its collectives (record_param_comms or "
            "record_shapes=True)"
        )
    if _all_ranks(profile):
        line = next((fit for fit in fits(profile) if fit.kind == "all_reduce" and fit.sizes > 1), None)
        if line is None:
            raise InputError(
                "the link follows from all-reduces of at least two sizes, one twice the other; record such"
            )
        return line
    line = prompt_fit(profile, "all_reduce")
    if line is None:
        raise InputError(
            "the transfer time of an all-reduce shows only where all ranks are traced, or where all-reduces of several "
            "sizes follow one another without waiting; add the traces of the other ranks"
        )
    return line


def _all_ranks(profile: Profile) -> bool:
    """Whether the transfer times hold no waiting for an untraced rank."""
    return bool(transfers(profile)["complete"].any())


def _ready(profile: Profile, rank: int) -> pd.DataFrame:
    """One row per step and gradient: rank, place (in order of readiness), ready_ms (from the step's start), bytes."""
    view = profile.rank(rank)
    rows = view.in_steps(np.flatnonzero(view.named("gradient_accumulated")))
    details = view.events.details.operators.set_index("row")[["dims", "types"]].reindex(rows)
    if not len(rows) or details.isna().any(axis=None):
        raise NoGradientsError("the trace has no gradients with shapes; record a backward pass with record_shapes=True")
    begins = _spans(view)["begin_ns"]
    table = pd.DataFrame({"step": view.step_of(rows), "end_ns": ready_ns(view, rows)})
    table["ready_ms"] = (table["end_ns"] - begins.loc[table["step"]].to_numpy()) / NS_PER_MS
    elements = details["dims"].astype(str).map(elements_of).to_numpy(np.float64)
    table["bytes"] = elements * details["types"].astype(str).map(element_bytes_of).to_numpy(np.float64)
    if (table["bytes"] <= 0).any():
        raise NoGradientsError("a gradient's shape or type was not recorded; record with record_shapes=True")
    table = table.sort_values(["step", "end_ns"], ignore_index=True, kind="stable")  # of equals as the host did
    if table.groupby("step").size().nunique() > 1:
        raise InputError("the steps have different numbers of gradients; give the input as JSON")
    return table.assign(rank=rank, place=table.groupby("step").cumcount())[["rank", "place", "ready_ms", "bytes"]]


def ready_ns(view: RankProfile, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """When the gradients of these AccumulateGrad rows are complete."""
    ready = view.end[rows].copy()
    if not view.rank.has_device:
        return ready
    return np.asarray(np.maximum(ready, _computed_ns(view, rows, view.end[rows])), dtype=np.int64)


def _computed_ns(view: RankProfile, rows: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
    """When the device has done what the thread of each row had launched by then, collectives left out; 0: nothing."""
    done = np.zeros(len(rows), dtype=np.int64)
    links = view.launches[~np.isin(view.launches["device_row"], view.communication_kernels)]
    for track in np.unique(view.track[rows]):
        own = links[links["host_track"] == track].sort_values("call_start_ns")
        mine = np.flatnonzero(view.track[rows] == track)
        behind = np.searchsorted(own["call_start_ns"].to_numpy(), until[mine], side="right")
        ends = np.concatenate([[0], np.maximum.accumulate(own["end_ns"].to_numpy())])
        done[mine] = ends[behind]
    return done


def _spans(view: RankProfile) -> pd.DataFrame:
    """Begin and end of each step by its number: on a device, which lags behind the host, of what the step launched."""
    steps = view.steps
    begins, ends = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    lag_ns = np.zeros(len(steps), dtype=np.int64)
    if view.rank.has_device:
        own = view.launches[~np.isin(view.launches["device_row"], view.communication_kernels)]
        own = own.sort_values("call_start_ns")
        called, started = own["call_start_ns"].to_numpy(), own["start_ns"].to_numpy()
        first = np.searchsorted(called, begins)
        inside = np.flatnonzero((first < len(called)) & (called[np.minimum(first, len(called) - 1)] < ends))
        lag_ns[inside] = np.maximum(started[first[inside]] - called[first[inside]], 0)
    after_ns = np.append(lag_ns[1:], lag_ns[-1:])
    return pd.DataFrame({"begin_ns": begins + lag_ns, "end_ns": ends + after_ns}, index=steps["number"])


def _places(view: RankProfile, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """The step that each moment of the host lies in, by its place."""
    starts = view.steps["start_ns"].to_numpy()
    return np.asarray(np.maximum(np.searchsorted(starts, moments, side="right") - 1, 0), dtype=np.int64)


def _tail_ms(profile: Profile, rank: int) -> float:
    """What of a step follows its last all-reduce of gradients, on average."""
    view, passes = profile.rank(rank), gradient_passes(profile, rank)
    rows = passes["row"].to_numpy(np.int64)
    spans = _spans(view)
    last = np.full(len(spans), np.nan)
    np.fmax.at(last, _places(view, launch_starts(view.events, rows)), view.end[rows].astype(np.float64))
    return max(0.0, float(np.nanmean(spans["end_ns"].to_numpy() - last)) / NS_PER_MS)


def _buckets(sizes: list[float], exchanged: list[int]) -> Buckets:
    """The gradients of each all-reduce of one pass, which has to hold a run of them."""
    ends, reduced = np.cumsum(sizes), np.cumsum(exchanged)
    edges = np.searchsorted(ends, reduced - 0.5) + 1
    if len(np.unique(edges)) < len(exchanged) or list(ends[edges[edges <= len(sizes)] - 1]) != list(reduced):
        raise NoGradientsError(
            "the all-reduces do not hold runs of the gradients, as DistributedDataParallel's buckets do"
        )
    if not exchanged or reduced[-1] != ends[-1]:
        raise NoGradientsError(
            "the all-reduces of the last backward pass do not hold all gradients; give the input as JSON"
        )
    return [list(range(first, behind)) for first, behind in zip([0, *edges[:-1]], edges, strict=True)]
