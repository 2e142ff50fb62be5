"""Does the profiler itself, or a debugging setting, slow the run?"""

from __future__ import annotations

import re

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.idle import removal
from tools.analyzers.margin import confidence
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.intervals import length, merge
from tools.metrics.registry import measure
from tools.profilers.host_dispatch import host_dispatch
from tools.profilers.idle import idle_time
from tools.profilers.profile import Profile
from tools.run.model import Rank
from tools.whatif.change import Change, Scale

OVERHEAD = "cpu.profiling_overhead"
ENVIRONMENT = "cpu.environment"
VARIABLE = re.compile(
    r"[A-Z][A-Z0-9]*_[A-Z0-9_]+$"
)  # how environment variables are named; nothing else in a trace's head is
SLOW_SETTINGS = {  # variable -> (values that slow training, mechanism)
    "CUDA_LAUNCH_BLOCKING": (("1",), "debug_variable"),
    "ASCEND_LAUNCH_BLOCKING": (("1",), "debug_variable"),
    "AMD_SERIALIZE_KERNEL": (("1", "2", "3"), "debug_variable"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": (("1",), "debug_variable"),
    "TORCH_DISTRIBUTED_DEBUG": (("DETAIL",), "debug_variable"),
    "NCCL_DEBUG": (("TRACE",), "log_level"),
    "ASCEND_GLOBAL_LOG_LEVEL": (("0", "1"), "log_level"),
}


def profiling_overhead(profile: Profile) -> Check:
    """Whether recording stacks, shapes or memory takes host time on which the step depends."""
    shares = {view.rank.rank: _exposed_pct(profile, view.rank.rank) for view in profile.ranks}
    worst = worst_of(shares)
    estimate = measure(profile, "profiling_overhead_ms", rank=worst)
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if not chosen:
        text = "Recording stacks, shapes and memory takes an estimated {0} of host time per step."
        return clean(OVERHEAD, Sentence(text, (estimate,)))
    frames = measure(profile, "profiled_events_per_step", rank=worst, kind="python")
    operators = measure(profile, "profiled_events_per_step", rank=worst, kind="operator")
    return found(
        OVERHEAD,
        Finding(
            cause="profiling_overhead",
            claim=Sentence(
                "An estimated {0} of host time per step is the profiler's own: it records {1} for Python frames and"
                " {2} for operators, and the step waits for the host.",
                (estimate, frames, operators),
            ),
            confidence=confidence(
                (shares[worst], profile.thresholds["cause_share_pct"]), at_most=0.6 if frames.value else 0.4
            ),
            ranks=chosen,
            steps=estimate.steps,
            change=_removal(profile, chosen),
            against=(Sentence("No step time without the profiler is known; the amount is an estimate."),),
            disproved_by="an unprofiled step takes as long as a profiled one",
            signals=("profiler with stacks, shapes or memory active",),
        ),
    )


def _exposed_pct(profile: Profile, rank: int) -> float:
    """Share of the step that the profiler's work takes where the step depends on the host."""
    wall_ns = float(profile.rank(rank).breakdown["wall_ns"].sum())
    return 100.0 * _share(profile, rank) * _exposed_ns(profile, rank) / wall_ns


def _share(profile: Profile, rank: int) -> float:
    """Part of any stretch of host time that recording takes, if it is spread evenly."""
    wall_ms = float(profile.rank(rank).breakdown["wall_ns"].mean()) / 1e6
    return min(measure(profile, "profiling_overhead_ms", rank=rank).value / wall_ms, 0.5)


def _exposed_ns(profile: Profile, rank: int) -> int:
    if profile.rank(rank).rank.has_device:
        idle = idle_time(profile, rank)
        moments = (*idle.by_track("dispatch").values(), *idle.by_track("stall").values())
        return length(merge(*moments)) if moments else 0
    return length(host_dispatch(profile, rank).moments)


def _removal(profile: Profile, ranks: tuple[int, ...]) -> Change:
    changes: list[Scale] = []
    for rank in ranks:
        left = 1.0 - _share(profile, rank)
        if profile.rank(rank).rank.has_device:
            for reason in ("dispatch", "stall"):
                changes.extend(
                    c for c in removal(profile, (rank,), reason, left, (1.0 + left) / 2) if isinstance(c, Scale)
                )
        else:
            track = int(profile.rank(rank).training_tracks[0])
            changes.append(Scale(rank, track, host_dispatch(profile, rank).moments, left, (1.0 + left) / 2))
    return tuple(changes)


def environment(profile: Profile) -> Check:
    """Debugging settings in the recorded environment; only what a source recorded can be seen."""
    known = [view.rank for view in profile.ranks if any(VARIABLE.match(name) for name in view.rank.metadata)]
    if not known:
        return cannot_answer(
            ENVIRONMENT,
            "the sources hold no environment variables",
            "env.json beside the trace, written by `hermes-dx env > env.json` where the training runs",
        )
    findings = [finding for name in SLOW_SETTINGS if (finding := _setting(name, known)) is not None]
    if findings:
        return found(ENVIRONMENT, *findings)
    return clean(ENVIRONMENT, Sentence("None of the recorded settings is known to slow training."))


def _setting(name: str, ranks: list[Rank]) -> Finding | None:
    values, mechanism = SLOW_SETTINGS[name]
    chosen = tuple(rank.rank for rank in ranks if rank.metadata.get(name, "") in values)
    if not chosen:
        return None
    return Finding(
        cause="environment_configuration",
        mechanism=mechanism,
        claim=Sentence("The run was started with {n0} set to a value meant for debugging.", (), (name,)),
        confidence=0.9 * len(chosen) / len(ranks),
        ranks=chosen,
        impact_ms=0.0,
        impact_method="a setting's cost cannot be read from one trace",
        disproved_by="unsetting the variable leaves the step time as it is",
        signals=("debug variables set",),
        hints={"variable": name},
    )
