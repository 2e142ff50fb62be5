"""What the analyzers answer when there are records or step logs and no trace: the coarse questions, and nothing else.

A check that needs to see inside of steps says that it cannot answer. Where records show an accelerator, time that only
the host loses is a hypothesis: whether the device had work meanwhile is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from tools.analyzers.communication.retransmission import retransmission
from tools.analyzers.cpu.compilation import recorded_compilation
from tools.analyzers.cpu.contention import analyze as contention
from tools.analyzers.cpu.environment import environment
from tools.analyzers.cpu.garbage_collection import analyze as garbage_collection
from tools.analyzers.cpu.profiling import untraced_profiler
from tools.analyzers.io.loader_records import recorded_data_wait
from tools.analyzers.memory.page_faults import analyze as page_faults
from tools.analyzers.steps.recorded_straggler import recorded_straggler
from tools.analyzers.steps.series_steps import level, series_checks
from tools.analyzers.storage.checkpoint import periodic_stall
from tools.analyzers.support.recorded import behind_device
from tools.findings import Check, cannot_answer
from tools.views.coarse import capture_of
from tools.views.profile import Profile

Answer = Callable[[Profile], tuple[Check, ...]]
REASON = "no trace was read, and records do not tell what a step consists of"

NEED_A_TRACE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "critical_path": ("parallel.critical_path",),
        "idle": ("cpu.device_idle", "cpu.queued_idle"),
        "io": ("io.upload",),
        "cpu": ("cpu.small_operators", "cpu.host_synchronization", "cpu.launch_blocking", "cpu.host_speed"),
        "computation": (
            *("computation.fp64", "computation.memory_bound", "computation.slow_device", "computation.precision"),
            *("computation.alignment", "computation.layout", "computation.small_grid", "computation.roofline"),
        ),
        "communication": (
            *("communication.exposed", "communication.arrival_skew", "communication.transfer"),
            *("communication.small_packet", "communication.slow_link"),
        ),
        "memory": ("memory.allocation", "memory.peak", "memory.recomputation"),
        "checkpoint": ("storage.step_writes", "storage.traced_save"),
        "retransmission": ("communication.shared_link", "communication.interface"),
        "pipeline": ("pipeline.bubble", "pipeline.imbalance"),
        "uneven_work": ("communication.data_skew", "communication.expert_load"),
    }
)


def answers(name: str) -> Answer:
    """What answers in the place of the analyzer of that name."""
    return lambda profile: (*_recorded(profile, name), *_open(profile, name))


def _open(profile: Profile, name: str) -> tuple[Check, ...]:
    needs = capture_of(profile)
    return tuple(cannot_answer(check, REASON, needs) for check in NEED_A_TRACE.get(name, ()))


def _recorded(profile: Profile, name: str) -> tuple[Check, ...]:
    checks = _FROM_RECORDS[name](profile) if name in _FROM_RECORDS else ()
    behind = profile.accelerated and name not in MEASURED_ON_STEPS
    return tuple(_behind_device(check) if behind else check for check in checks)


def _behind_device(check: Check) -> Check:
    return replace(check, findings=tuple(behind_device(finding) for finding in check.findings))


def _step_time(profile: Profile) -> tuple[Check, ...]:
    assert profile.series is not None
    return level(profile), *series_checks(profile, profile.series)


def _cpu(profile: Profile) -> tuple[Check, ...]:
    compiled, profiled = "cpu.operator_compilation", "cpu.profiling_overhead"
    return (
        recorded_compilation(profile, compiled) or cannot_answer(compiled, REASON, capture_of(profile)),
        untraced_profiler(profile, profiled) or cannot_answer(profiled, REASON, capture_of(profile)),
        environment(profile),
    )


_FROM_RECORDS: Mapping[str, Answer] = MappingProxyType(
    {
        "step_time": _step_time,
        "io": lambda profile: (recorded_data_wait(profile),),
        "cpu": _cpu,
        "garbage_collection": garbage_collection,
        "communication": lambda profile: (recorded_straggler(profile),),
        "contention": contention,
        "checkpoint": lambda profile: (periodic_stall(profile),),
        "retransmission": lambda profile: (retransmission(profile),),
        "page_faults": page_faults,
    }
)
MEASURED_ON_STEPS = ("step_time", "io", "checkpoint", "retransmission")  # whole steps are longer, or io has judged
