"""Ask a profile single checks, as the registry does."""

from __future__ import annotations

from collections.abc import Callable

from tools.analyzers.registry import CHECKS, check_of
from tools.findings import Check
from tools.views.profile import Profile

CPU = (
    *("cpu.small_operators", "cpu.host_synchronization", "cpu.launch_blocking", "cpu.operator_compilation"),
    *("cpu.profiling_overhead", "cpu.environment", "cpu.host_speed"),
)
COMPUTATION = tuple(spec.name for spec in CHECKS if spec.family == "computation")
COMMUNICATION = tuple(
    f"communication.{name}" for name in ("exposed", "arrival_skew", "transfer", "small_packet", "slow_link")
)
STORAGE = ("storage.periodic_stall", "storage.step_writes", "storage.traced_save")
NETWORK = ("communication.retransmission", "communication.shared_link", "communication.interface")
STEP_TIME = tuple(spec.name for spec in CHECKS if spec.stage == "coarse")


def asking(*names: str) -> Callable[[Profile], tuple[Check, ...]]:
    """A function that gives the answers of these checks, without those whose question does not arise."""
    return lambda profile: tuple(answer for name in names if (answer := check_of(profile, name)) is not None)


def ask(profile: Profile, name: str) -> Check:
    """The answer of one check."""
    (answer,) = asking(name)(profile)
    return answer
