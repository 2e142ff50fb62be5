"""Does the host launch operators fast enough?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tools.analyzers.overlap.idle import idle_share, late_host_causes, removal
from tools.analyzers.support.answers import HIGHEST, affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.figures import measure_all, saving
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Saving, Sentence
from tools.intervals import intersect, union
from tools.metrics.host.launches import launch_queue
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.run.model import has_steps
from tools.views.device.kind import device_kind
from tools.views.host.dispatch import host_dispatch
from tools.views.profile import Profile
from tools.whatif.change import Change, Scale

FEW_LAUNCHES = 20.0  # per step; with fewer it is not their number that takes the host's time
READS_SHARE = 0.1  # of the operators: one read for each handful of operators that make the value
FEW_CAP = 0.45  # a hypothesis, below the confidence of a verdict
NO_GRAPHS = "the device stays as idle when fewer and larger operators do the same work"
UNPROFILED = "time in short operators called over and over, of the traced step most like the unprofiled ones"


@check(
    *("cpu.small_operators", "Small operators", "Do many short operators keep the host from launching in time?"),
    causes=("operator_dispatch",),
    mechanisms=("small_operators", "host_synchronization"),
)
def small_operators(profile: Profile) -> Check | Finding:
    """Whether launching (with a device) or calling (without one) many short operators holds up the step."""
    with_device = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    if not with_device:
        return _on_host(profile)
    ranks = [rank for rank in with_device if _launches_kernels(profile, rank)]
    if not ranks:
        return cannot_answer(
            "no host thread has two launches inside the steps that are joined to work on the device, kernels among it",
            "host and device activity in one trace (ProfilerActivity.CPU and CUDA)",
        )
    shares = {rank: idle_share(profile, rank, "dispatch") for rank in ranks}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        text = "The device waits for {0} of the step between close launches; the median launch-queue depth is {1}."
        return clean(say(text, shares[worst], measure(profile, "launch_queue_length", rank=worst)))
    return _launch_bound(profile, chosen, worst, shares[worst])


def _launches_kernels(profile: Profile, rank: int) -> bool:
    """Whether a thread makes several launches in the steps, and some of these are joined with kernels."""
    queue = launch_queue(profile, rank)
    work = profile.rank(rank).kind[queue["device_row"].to_numpy()]
    return bool((queue["interval_ns"] >= 0).any() and (work == EventKind.KERNEL).any())


def _launch_bound(profile: Profile, ranks: tuple[int, ...], worst: int, share: Fact) -> Check | Finding:
    amount = measure(profile, "device_idle_ms", rank=worst, reason="dispatch")
    metrics = ("launched_kernel_us", "launch_interval_us", "launches_per_step", "empty_queue_pct")
    kernel, interval, launches, empty = measure_all(profile, *metrics, rank=worst)
    queue = measure(profile, "launch_queue_length", rank=worst)
    few = launches.value < FEW_LAUNCHES
    if few and not has_steps(profile.run):
        text = "The device waits for {0} of the recording between close launches, and it holds {1}: too few for a loop."
        return clean(say(text, share, launches))
    against = []
    if few:
        against.append(say("A step makes only {0}, so each of them is slow rather than their number large.", launches))
    if kernel.value > interval.value:
        text = "The median kernel ({0}) runs longer than the time between launches ({1})."
        against.append(say(text, kernel, interval))
    if queue.value >= 1:
        text = "The median launch-queue depth is {0}, so the host is ahead for part of the step."
        against.append(say(text, queue))
    margin = confidence((share.value, profile.thresholds["cause_share_pct"]), at_most=FEW_CAP if few else HIGHEST)
    text = "The device waits {0} per step ({1}) for launches: {2} per step, one every {3}; the median kernel runs {4}."
    return Finding(
        cause="operator_dispatch",
        mechanism="small_operators",
        claim=say(text, amount, share, launches, interval, kernel),
        confidence=margin * (0.7 + 0.3 * empty.value / 100.0),
        ranks=ranks,
        change=removal(profile, ranks, "dispatch", *_left(profile)),
        details=(say("{0} of the launches find an empty launch queue.", empty),),
        against=tuple(against),
        symptom_of=late_host_causes(profile, worst),
        disproved_by="" if device_kind(profile) in ("nvidia", "amd") else NO_GRAPHS,
    )


def _left(profile: Profile) -> tuple[float, float]:
    return profile.thresholds["dispatch_left_best"], profile.thresholds["dispatch_left_cautious"]


def _on_host(profile: Profile) -> Check | Finding:
    ranks = [view.rank.rank for view in profile.ranks if len(host_dispatch(profile, view.rank.rank).rows)]
    if not ranks:
        return cannot_answer(
            "no computing operators are recorded on a training thread inside the steps",
            "a trace with ProfilerActivity.CPU",
        )
    shares = {rank: measure(profile, "short_operator_pct", rank=rank) for rank in ranks}
    worst, limit = worst_of(shares), profile.thresholds["host_short_operators_pct"]
    share = shares[worst]
    calls, count = measure_all(profile, "repeated_operator_calls", "operators_per_step", rank=worst)
    if share.value < limit:
        text = (
            "Short operators that a step calls over and over ({0} of {1})"
            + (" and the pauses around them" if calls.value else "")
            + " take {2} of the step."
        )
        return clean(say(text, calls, count, share))
    chosen = affected(shares, profile.thresholds["cause_share_pct"])
    amount = measure(profile, "short_operator_ms", rank=worst)
    reads = measure(profile, "host_group_count", group="reads", rank=worst)
    reading = (say("Of these, {0} read a value out of a tensor.", reads),) if reads.value else ()
    often = reads.value >= max(FEW_LAUNCHES, READS_SHARE * count.value)
    text = (
        "The step spends {0} ({1}) in and between short operators called over and over: {2} of the {3} that it calls."
    )
    return Finding(
        cause="operator_dispatch",
        mechanism="host_synchronization" if often else "small_operators",
        claim=say(text, amount, share, calls, count),
        details=(_longest_kind(profile, worst), *reading),
        confidence=confidence((share.value, limit)),
        ranks=chosen,
        steps=amount.steps,
        change=() if profile.series is not None else _host_removal(profile, chosen),
        saving=None if profile.series is None else _host_saving(profile, worst, amount),
        disproved_by="fusing or vectorising the operators leaves the step time as it is",
        signals=("many short operators", "time between and in short host operators"),
        symptom_of=("cpu_contention",),
    )


def _longest_kind(profile: Profile, rank: int) -> Sentence:
    view, rows = profile.rank(rank), host_dispatch(profile, rank).repeated
    codes = view.events.frame["name"].cat.codes.to_numpy()[rows]
    spent_ns = np.bincount(codes, weights=view.end[rows] - view.start[rows])
    name = str(view.events.frame["name"].cat.categories[int(spent_ns.argmax())])
    calls = measure(profile, "host_own_count", rank=rank, name=name)
    return say("The largest part of it goes into {n0}, {0} per step.", calls, names=(name,))


def _host_saving(profile: Profile, rank: int, amount: Fact) -> Saving:
    """Of the unprofiled step: the middle between the best and the cautious view, each with its own amount."""
    best, cautious = (1.0 - left for left in _left(profile))
    expected = 0.5 * (best + cautious)
    ends = measure_all(profile, "least_short_operator_ms", "most_short_operator_ms", rank=rank)
    least, most = (end.value / amount.value for end in ends)
    low, high = cautious * min(least, 1.0) / expected, best * max(most, 1.0) / expected
    return replace(saving(profile, expected * amount.value, low, high, UNPROFILED), of_series=False)  # of the trace


def _host_removal(profile: Profile, ranks: tuple[int, ...]) -> Change:
    best, cautious = _left(profile)
    changes = []
    for rank in ranks:
        dispatch, view = host_dispatch(profile, rank), profile.rank(rank)
        for track in np.unique(view.track[dispatch.repeated]):
            rows = dispatch.rows[view.track[dispatch.rows] == track]
            active = union(view.start[rows][:1], view.end[rows][-1:])
            changes.append(Scale(rank, int(track), intersect(dispatch.repeated_moments, active), best, cautious))
    return tuple(changes)
