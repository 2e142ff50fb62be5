"""Why is the device idle? The host's long pauses between launches, and launched work that does not start."""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.affected import affected, worst_of
from tools.analyzers.support.confidence import confidence
from tools.findings import Check, Fact, Finding, Sentence, cannot_answer, clean, found
from tools.intervals import IntervalSet, covered, length
from tools.metrics.idle import idle_time
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Scale

NO_DEVICE = "no work on a device is recorded, so there is no device idle time"
NOT_JOINED = "no launch on the host is joined to work on the device, so it cannot be told who waited for whom"
NEEDS_LAUNCHES = "host and device activity in one trace (ProfilerActivity.CPU and CUDA)"
NEEDS_DEVICE = "a trace with device activity (ProfilerActivity.CUDA); without a device see cpu.small_operators"

LATE_HOST = ("cpu_contention", "garbage_collection", "operator_compilation", "checkpoint_stall")  # what makes it late
WAITING = ("synchronization", "dispatch", "stall")  # idle time of a device in which the host is late
RECORDING_SHARE = 0.5  # of that time: where recording takes as much of the host, it is what makes the host late
UNEXPLAINED_CAP = 0.45  # pauses without a recorded reason: a hypothesis, below the confidence of a verdict


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Device idle time that no other check explains, and idle time with work outstanding."""
    names = ("cpu.device_idle", "cpu.queued_idle")
    if not profile.run.has_device:
        return tuple(cannot_answer(name, NO_DEVICE, NEEDS_DEVICE) for name in names)
    ranks = [view.rank.rank for view in profile.ranks if len(view.launches)]
    if not ranks:
        return tuple(cannot_answer(name, NOT_JOINED, NEEDS_LAUNCHES) for name in names)
    return _host_stalls(profile, ranks), _queued(profile, ranks)


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
    profile: Profile, ranks: tuple[int, ...], reason: str, factor: float, kept_factor: float
) -> tuple[Scale, ...]:
    """The host time behind an idle reason shrinks to ``factor``, or cautiously to ``kept_factor``."""
    return tuple(
        Scale(rank, track, moments, factor, kept_factor)
        for rank in ranks
        for track, moments in idle_time(profile, rank).by_track(reason).items()
        if len(moments)
    )


def _host_stalls(profile: Profile, ranks: list[int]) -> Check:
    shares = {rank: idle_share(profile, rank, "stall").value for rank in ranks}
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        return clean("cpu.device_idle", _overview(profile, worst_of(shares)))
    return found("cpu.device_idle", _stall(profile, chosen, worst_of(shares)))


def _overview(profile: Profile, rank: int) -> Sentence:
    reasons = ("all", "data", "launched", "synchronization", "dispatch", "stall")
    return Sentence(
        "The device is idle for {0} of the step: {1} waiting for data, {2} although work is launched, {3} after the"
        " host had waited for the device, {4} between close launches and {5} in longer pauses of the host.",
        tuple(idle_share(profile, rank, reason) for reason in reasons),
    )


def _stall(profile: Profile, ranks: tuple[int, ...], worst: int) -> Finding:
    amount = measure(profile, "device_idle_ms", rank=worst, reason="stall")
    share = idle_share(profile, worst, "stall")
    view = profile.rank(worst)
    name = covering_name(view, idle_time(profile, worst).sets["stall"])
    table = idle_time(profile, worst).gaps
    stalled = table[table["stall_ns"] > 0]
    return Finding(
        cause="operator_dispatch",
        claim=Sentence(
            "The device is idle {0} per step ({1}) in long pauses during which the host launches nothing"
            + (", most of it inside {n0}." if name else "."),
            (amount, share),
            (name,) if name else (),
        ),
        confidence=confidence((share.value, profile.thresholds["cause_share_pct"]), at_most=UNEXPLAINED_CAP),
        ranks=ranks,
        steps=tuple(int(step) for step in np.unique(stalled["step"])),
        change=removal(profile, ranks, "stall", factor=0.0, kept_factor=0.5),
        details=(_overview(profile, worst),),
        disproved_by="host activity recorded with stacks shows the pauses to be waits for the device or another rank",
        signals=("device idle while the host launches nothing", "long host pauses between launches"),
        symptom_of=late_host_causes(profile, worst),
        hints={"where": name} if name else {},
    )


def covering_name(view: RankProfile, moments: IntervalSet) -> str:
    """The name of the host activity that covers at least half of the moments; the most specific kind first."""
    total = length(moments)
    names = view.events.frame["name"].cat
    for kind in (EventKind.RUNTIME, EventKind.OPERATOR, EventKind.PYTHON, EventKind.ANNOTATION):
        rows = np.flatnonzero((view.kind == kind) & view.on_training_thread & ~view.named("profiler_step"))
        weights = covered(moments, view.start[rows], view.end[rows])
        by_name = np.bincount(names.codes.to_numpy()[rows], weights=weights, minlength=len(names.categories))
        if total and len(by_name) and 2 * by_name.max() >= total:
            return str(names.categories[int(by_name.argmax())])
    return ""


def _queued(profile: Profile, ranks: list[int]) -> Check:
    shares = {rank: idle_share(profile, rank, "launched").value for rank in ranks}
    worst = worst_of(shares)
    facts = (idle_share(profile, worst, "launched"), measure(profile, "device_idle_ms", rank=worst, reason="launched"))
    if shares[worst] < profile.thresholds["cause_share_pct"]:
        text = "Launched work that waits for an idle device makes up {0} of the step ({1} per step)."
        return clean("cpu.queued_idle", Sentence(text, facts))
    return cannot_answer(
        "cpu.queued_idle",
        "the device is idle for a noticeable share of the step although work is launched, and what that work waits"
        " for is not recorded (device_idle_ms with reason launched gives the amount)",
        "the other ranks' traces, and stream synchronisation events (enable_cuda_sync_events=True)",
    )
