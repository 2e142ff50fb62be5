"""Do the device's operators run as fast as the device could run them?"""

from __future__ import annotations

from tools.analyzers.computation.elementwise_chains import MEMORY_BOUND, memory_bound
from tools.analyzers.computation.host import host_double, host_memory_bound
from tools.analyzers.computation.layout import ALIGNMENT, LAYOUT, SMALL_GRID, alignment, layout, small_grid
from tools.analyzers.computation.precision import DOUBLE, PRECISION, double, precision
from tools.analyzers.computation.rank_speed import NAME as SLOW_DEVICE
from tools.analyzers.computation.rank_speed import host_slow_device, slow_device
from tools.analyzers.computation.roofline import ROOFLINE, against_roofline
from tools.analyzers.support.kernel_scope import device_ranks
from tools.findings import Check, cannot_answer
from tools.views.profile import Profile

DEVICE_QUESTIONS = (PRECISION, ALIGNMENT, LAYOUT, SMALL_GRID, ROOFLINE, MEMORY_BOUND, SLOW_DEVICE)
CHECKS = (precision, double, alignment, layout, small_grid, against_roofline, memory_bound, slow_device)


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Precision, shapes, layout, grids, roofline, memory traffic and the devices' speed, one check each."""
    if device_ranks(profile):
        return tuple(check(profile) for check in CHECKS)
    if profile.run.has_device:
        return _unanswered((DOUBLE, *DEVICE_QUESTIONS), "no kernel ran inside the steps")
    asked = (host_double(profile), host_memory_bound(profile), host_slow_device(profile))
    open_questions = tuple(name for name in DEVICE_QUESTIONS if name not in {check.name for check in asked})
    return (*asked, *_unanswered(open_questions, "no device work was recorded"))


def _unanswered(names: tuple[str, ...], reason: str) -> tuple[Check, ...]:
    needs = "a trace with device activity, on a run that uses a device"
    return tuple(cannot_answer(name, reason, needs) for name in names)
