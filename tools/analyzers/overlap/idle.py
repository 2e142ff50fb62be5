"""Why is the device idle? Long pauses of the host between launches, and queued kernels that do not start."""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, values, worst_of
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.host.pauses import covering
from tools.metrics.idle import idle_time
from tools.metrics.registry import measure
from tools.run.model import has_steps
from tools.views.profile import Profile
from tools.whatif.change import Scale

NOT_JOINED = (
    "no launch on the host is joined to work on the device, so who waited for whom is not assessable",
    "host and device activity in one trace (ProfilerActivity.CPU and CUDA)",
)
LATE_HOST = ("cpu_contention", "garbage_collection", "operator_compilation", "checkpoint_stall")  # what makes it late
WAITING = ("synchronization", "dispatch", "stall")  # idle time of a device in which the host is late
RECORDING_SHARE = 0.5  # of that time: where recording takes as much of the host, it is what makes the host late
FEW_LAUNCHES = 20  # in a recording without marked steps: fewer are start-up or a single call, and no loop
UNEXPLAINED_CAP = 0.45  # pauses without a recorded reason: a hypothesis, below the confidence of a verdict
REASONS = ("all", "data", "launched", "synchronization", "dispatch", "stall")


def idle_share(profile: Profile, rank: int, reason: str) -> Fact:
    """Share of a rank's steps in which its device is idle for that reason."""
    return measure(profile, "device_idle_pct", rank=rank, reason=reason)


def waiting_ms(profile: Profile, rank: int) -> float:
    """How long per step a rank's device waits because the host is late."""
    return sum(measure(profile, "device_idle_ms", rank=rank, reason=reason).value for reason in WAITING)


def late_host_causes(profile: Profile, rank: int) -> tuple[str, ...]:
    """The causes of which a late host is a symptom; recording only where it takes enough of the host's time."""
    recording = measure(profile, "profiling_overhead_ms", rank=rank).value
    recorded = recording >= RECORDING_SHARE * waiting_ms(profile, rank)
    return (*LATE_HOST, "profiling_overhead") if recorded else LATE_HOST


def removal(
    profile: Profile, ranks: tuple[int, ...], reason: str, left: float, cautious_left: float
) -> tuple[Scale, ...]:
    """The host time behind an idle reason shrinks to ``left``, or cautiously to ``cautious_left``."""
    return tuple(
        Scale(rank, track, moments, left, cautious_left)
        for rank in ranks
        for track, moments in idle_time(profile, rank).by_track(reason).items()
        if len(moments)
    )


def _shares(profile: Profile, reason: str) -> dict[int, Fact]:
    ranks = [view.rank.rank for view in profile.ranks if len(view.launches)]
    return measure_ranks(profile, ranks, "device_idle_pct", reason=reason)


@check(
    *("cpu.device_idle", "Device idle time", "Is the device idle while the host launches nothing?"),
    stage="inter_operator",
    causes=("operator_dispatch",),
    needs=(Need.DEVICE,),
)
def device_idle(profile: Profile) -> Check | Finding:
    """Idle time in long pauses of the host that no other check explains."""
    shares = values(_shares(profile, "stall"))
    if not shares:
        return cannot_answer(*NOT_JOINED)
    if not has_steps(profile.run) and max(len(view.launches) for view in profile.ranks) < FEW_LAUNCHES:
        return cannot_answer(
            "no steps are marked, and the recording holds so few launches that it is start-up or a single call",
            "steps marked with the profiler's step(), after a warm-up",
        )
    shares = {rank: 0.0 if covering(profile, rank).framed else share for rank, share in shares.items()}
    chosen, worst = affected(shares, profile.thresholds["noted_pct"]), worst_of(shares)
    if not chosen:
        return clean(_overview(profile, worst))
    stall, share = measure_all(profile, "device_idle_ms", "device_idle_pct", rank=worst, reason="stall")
    idle = idle_time(profile, worst)
    name = covering(profile, worst).name
    text = "The device is idle {0} per step ({1}) in long pauses during which the host launches nothing"
    text += ", most of it inside {n0}." if name else "."
    return Finding(
        cause="operator_dispatch",
        claim=say(text, stall, share, names=(name,) if name else ()),
        confidence=confidence((share.value, profile.thresholds["cause_share_pct"]), at_most=UNEXPLAINED_CAP),
        ranks=chosen,
        steps=tuple(int(step) for step in np.unique(idle.gaps["step"][idle.gaps["stall_ns"] > 0])),
        change=removal(profile, chosen, "stall", 0.0, 0.5),
        details=(_overview(profile, worst),),
        symptom_of=late_host_causes(profile, worst),
        hints={"where": name} if name else {},
    )


def _overview(profile: Profile, rank: int) -> Sentence:
    return say(
        "The device is idle for {0} of the step: {1} waiting for data, {2} with a non-empty launch queue, {3} after the"
        " host had waited for the device, {4} between close launches and {5} in longer pauses of the host.",
        *(idle_share(profile, rank, reason) for reason in REASONS),
    )


@check(
    *("cpu.queued_idle", "Idle with queued kernels", "Is the device idle with a non-empty launch queue?"),
    stage="inter_operator",
    needs=(Need.DEVICE,),
)
def queued_idle(profile: Profile) -> Check:
    """Idle time of the device although kernels are queued."""
    shares = _shares(profile, "launched")
    if not shares:
        return cannot_answer(*NOT_JOINED)
    worst = worst_of(values(shares))
    if shares[worst].value < profile.thresholds["cause_share_pct"]:
        text = "Queued kernels wait for an idle device during {0} of the step ({1} per step)."
        return clean(say(text, shares[worst], measure(profile, "device_idle_ms", rank=worst, reason="launched")))
    return cannot_answer(
        "the device is idle with a non-empty launch queue for a noticeable share of the step, and what the queued"
        " kernels wait for is not recorded (device_idle_ms with reason launched gives the amount)",
        "the other ranks' traces, and stream synchronisation events (enable_cuda_sync_events=True)",
    )
