"""The explicit list of checks, and what is derived from it."""

from __future__ import annotations

from tools.analyzers.communication.arrival import arrival_skew, recorded_straggler
from tools.analyzers.communication.exposed import exposed
from tools.analyzers.communication.messages import small_packet
from tools.analyzers.communication.network import interface, retransmission, shared_link
from tools.analyzers.communication.transfer import slow_link, transfer
from tools.analyzers.communication.uneven_work import data_skew, expert_load
from tools.analyzers.computation.kernel_groups import alignment, double, layout, memory_bound, small_grid
from tools.analyzers.computation.rank_speed import launching_speed as host_speed
from tools.analyzers.computation.rank_speed import slow_device
from tools.analyzers.computation.roofline import against_roofline, precision
from tools.analyzers.cpu.blocked import interpreter_lock, step_writes
from tools.analyzers.cpu.contention import contention
from tools.analyzers.cpu.dispatch import small_operators
from tools.analyzers.cpu.environment import environment
from tools.analyzers.cpu.pauses import garbage_collection, operator_compilation
from tools.analyzers.cpu.profiling import profiling_overhead
from tools.analyzers.cpu.synchronization import host_synchronization, launch_blocking
from tools.analyzers.io.data_wait import data_loader, uploads
from tools.analyzers.memory.pressure import allocation, page_faults, peak, recomputation
from tools.analyzers.overlap.critical_path import critical_path
from tools.analyzers.overlap.idle import device_idle, queued_idle
from tools.analyzers.overlap.pipeline import bubble, imbalance
from tools.analyzers.steps.step_time import change_point, fluctuation, level, rhythm, slowest_rank, trend
from tools.analyzers.storage.saves import periodic_stall, traced_saves
from tools.analyzers.support.spec import CheckSpec
from tools.errors import UsageError
from tools.findings import Check
from tools.knowledge.taxonomy import causes
from tools.views.profile import Profile

# In the order of a report. Within a block, checks that the run's sources cannot answer at all come last.
BLOCKS: tuple[tuple[CheckSpec, ...], ...] = (
    (level, fluctuation, trend, change_point, rhythm, slowest_rank),
    (critical_path,),
    (device_idle, queued_idle),
    (data_loader, uploads),
    (
        *(small_operators, host_synchronization, launch_blocking),
        *(operator_compilation, profiling_overhead, environment, host_speed),
    ),
    (garbage_collection,),
    (precision, double, alignment, layout, small_grid, against_roofline, memory_bound, slow_device),
    (recorded_straggler, exposed, arrival_skew, transfer, small_packet, slow_link),
    (allocation, peak, recomputation),
    (contention, interpreter_lock),
    (periodic_stall, step_writes, traced_saves),
    (retransmission, shared_link, interface),
    (page_faults,),
    (bubble, imbalance),
    (data_skew, expert_load),
)
CHECKS = tuple(spec for block in BLOCKS for spec in block)
BY_NAME = {spec.name: spec for spec in CHECKS}
UNWATCHED = ("offload_stall", "power_governor")  # mechanisms that the checks of their cause do not cover


def spec_of(name: str) -> CheckSpec:
    """The check of that name."""
    if name not in BY_NAME:
        raise UsageError(f"there is no check {name!r}; known are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def check_of(profile: Profile, name: str) -> Check | None:
    """The answer of one check, computed once per profile; None where the question does not arise."""
    spec = spec_of(name)
    return profile.memo(f"check:{name}", lambda: spec.answer(profile))


def answer_instead(profile: Profile, check: Check) -> Check:
    """Put an answer in the place of a check that broke, so that everyone who asks for it later gets this one."""
    profile.memo(f"check:{check.name}", lambda: check)
    return check


def in_order(profile: Profile) -> tuple[CheckSpec, ...]:
    """All checks in the order of a report of this run."""
    return tuple(spec for block in BLOCKS for spec in sorted(block, key=lambda each: each.out_of_reach(profile)))


def all_checks(profile: Profile) -> tuple[Check, ...]:
    """The answers of all checks whose question arises, in the order of a report."""
    answers = (check_of(profile, spec.name) for spec in in_order(profile))
    return tuple(answer for answer in answers if answer is not None)


def checks_for(cause: str, mechanism: str | None = None) -> tuple[str, ...]:
    """Names of the checks that look for a cause, or for one mechanism of it; () when none does."""
    if mechanism in UNWATCHED:
        return ()
    looking = [spec for spec in CHECKS if cause in spec.causes]
    own = [spec.name for spec in looking if mechanism in spec.mechanisms]
    return tuple(own or (spec.name for spec in looking))


def has_own_check(mechanism: str | None) -> bool:
    """Whether a mechanism is looked for by other checks than its cause as a whole, or by none."""
    own = [cause.id for cause in causes().values() if mechanism in cause.mechanisms]
    return any(checks_for(cause, mechanism) != checks_for(cause) for cause in own)


def unwatched_causes() -> tuple[str, ...]:
    """The causes of the taxonomy that no check looks for."""
    return tuple(cause for cause in causes() if not checks_for(cause))
