"""Does the host wait for the device needlessly?"""

from __future__ import annotations

import re

import numpy as np

from tools.analyzers.overlap.idle import idle_share, late_host_causes
from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.figures import measure_all
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.run.model import has_steps
from tools.views.host.blocking import blocking_calls, kernel_launches
from tools.views.profile import Profile
from tools.views.work import commonest, outermost_operators, python_frames, surrounding_annotations
from tools.whatif.change import Unblock

NO_DEVICE = "no work on a device is recorded that the host could wait for"
NEEDS = "host and device activity in one trace (ProfilerActivity.CPU and CUDA)"
WHOLE_DEVICE = re.compile(r"(?:cuda|hip)DeviceSynchronize|cuCtxSynchronize")
ENOUGH_LAUNCHES = 20  # fewer kernel launches than this say nothing about how launches behave


@check(
    *("cpu.host_synchronization", "Host-device synchronization", "Does the host wait for the device needlessly?"),
    causes=("operator_dispatch",),
    mechanisms=("host_synchronization",),
    needs=(Need.DEVICE,),
)
def host_synchronization(profile: Profile) -> Check | Finding:
    """Whether the device runs dry after the host has waited for it."""
    views = [view for view in profile.ranks if view.rank.has_device and np.any(view.kind == EventKind.RUNTIME)]
    if not views:
        return cannot_answer("no runtime calls are recorded" if profile.run.has_device else NO_DEVICE, NEEDS)
    shares = {view.rank.rank: idle_share(profile, view.rank.rank, "synchronization") for view in views}
    worst, chosen = worst_of(shares), affected(shares, profile.thresholds["noted_pct"])
    share, (calls, waited) = (
        shares[worst],
        measure_all(profile, "blocking_calls_per_step", "blocking_wait_ms", rank=worst),
    )
    if not chosen:
        text = "The host waits for the device in {0} per step, for {1}; the device is then idle for {2} of the step."
        return clean(say(text, calls, waited, share))
    view, table = profile.rank(worst), blocking_calls(profile, worst)
    rows, weights = table["row"].to_numpy(), table["waited_ns"].to_numpy()
    call = commonest(view, rows, weights)
    around = [
        commonest(view, find(view, rows), weights)
        for find in (outermost_operators, surrounding_annotations, python_frames)
    ]
    if not has_steps(profile.run) and WHOLE_DEVICE.match(call) and not around[0]:
        text = "The host waits for the device in {0}, mostly in {n0} outside of any operator, as benchmarks do."
        return clean(say(text, calls, names=(call,)))
    names = (call, *(name for name in around if name))
    places = ", inside ".join(f"{{n{place}}}" for place in range(1, len(names)))
    amount = measure(profile, "device_idle_ms", rank=worst, reason="synchronization")
    text = (
        "The host waits for the device in {0} per step, mostly in {n0}; then the device is idle for {1} per step ({2})."
    )
    return Finding(
        cause="operator_dispatch",
        mechanism="host_synchronization",
        claim=say(text, calls, amount, share, names=names),
        confidence=confidence((share.value, profile.thresholds["cause_share_pct"]), at_most=0.9),
        ranks=chosen,
        change=tuple(Unblock(rank, blocking_calls(profile, rank)["row"].to_numpy()) for rank in chosen),
        details=(
            say("In these calls the host blocks for {0} per step while the device works.", waited),
            *((say(f"The longest waits come from {places}.", names=names),) if places else ()),
        ),
        symptom_of=late_host_causes(profile, worst),
        hints={"call": names[1] if len(names) > 1 else call, "where": names[-1]},
    )


@check(
    *("cpu.launch_blocking", "Blocking launches", "Does every launch wait for its kernel?"),
    causes=("operator_dispatch",),
    mechanisms=("launch_blocking",),
    needs=(Need.DEVICE,),
)
def launch_blocking(profile: Profile) -> Check | Finding:
    """Whether each launch waits for its kernel, as with CUDA_LAUNCH_BLOCKING=1."""
    every = profile.run.rank_numbers
    ranks = [rank for rank in every if len(kernel_launches(profile, rank).rows) >= ENOUGH_LAUNCHES]
    if not ranks:
        reason = "too few kernel launches are recorded with their kernel" if profile.run.has_device else NO_DEVICE
        return cannot_answer(reason, NEEDS)
    ratios = {rank: measure(profile, "launch_blocking_pct", rank=rank) for rank in ranks}
    worst, limit_pct = worst_of(ratios), 100.0 * profile.thresholds["launch_blocking_ratio"]
    ratio = ratios[worst]
    if ratio.value <= limit_pct:
        return clean(say("{0} of the kernel launches last until their kernel ends.", ratio))
    blocked = tuple(rank for rank in ranks if ratios[rank].value > limit_pct)
    return Finding(
        cause="operator_dispatch",
        mechanism="launch_blocking",
        claim=say("{0} of the kernel launches return only when their kernel has ended.", ratio),
        confidence=confidence((ratio.value, limit_pct * 0.5)),
        ranks=blocked,
        change=tuple(Unblock(rank, kernel_launches(profile, rank).blocked) for rank in blocked),
        details=(
            say("The device is idle for {0} of the step.", idle_share(profile, worst, "all")),
            say("Median launch-queue depth: {0}.", measure(profile, "launch_queue_length", rank=worst)),
        ),
    )
