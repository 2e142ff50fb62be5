"""Does the step wait for the host program? The checks of the family, each in its own file."""

from __future__ import annotations

from tools.analyzers.cpu.compilation import operator_compilation
from tools.analyzers.cpu.dispatch import small_operators
from tools.analyzers.cpu.environment import environment
from tools.analyzers.cpu.host_operators import host_speed
from tools.analyzers.cpu.profiling import profiling_overhead
from tools.analyzers.cpu.synchronization import host_synchronization, launch_blocking
from tools.findings import Check
from tools.views.profile import Profile


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Dispatch, waits for the device, compilation, the profiler's own cost, the environment and slow hosts."""
    return (
        small_operators(profile),
        host_synchronization(profile),
        launch_blocking(profile),
        operator_compilation(profile),
        profiling_overhead(profile),
        environment(profile),
        host_speed(profile),
    )
