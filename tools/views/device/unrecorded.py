"""Device work that a trace does not hold although the host asks for it: it is unknown, and no zero."""

from __future__ import annotations

import re

import numpy as np

from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.views.steps.coarse import by_nsight

COPYING = re.compile(r"(?:cuda|hip|cu)Memcpy(?!.*(?:Attribute|Node|Symbol))")
FEWEST_LAUNCHES = 20  # fewer launches than this may be chance
CUDA_TRACED = "the same steps with `nsys profile --trace=cuda,nvtx,osrt`"
ACTIVITIES = "host and device activity in one trace (ProfilerActivity.CPU and CUDA)"


def without_kernels(profile: Profile) -> tuple[str, str] | None:
    """Why kernels are unknown and what records them, where devices work and hold none; None where kernels are there.

    An export without the table of kernels, or with an empty one, still holds copies and launches.
    """
    for view in profile.ranks:
        if not view.rank.has_device or len(view.kernels):
            continue
        calls = view.kind == EventKind.RUNTIME
        if int((view.named("kernel_launch") & calls).sum()) >= FEWEST_LAUNCHES:
            return "no kernel is recorded, although the host launches some", _needs(profile)
        if by_nsight(profile) and not calls.any():
            return "neither kernels nor the calls that launch them are recorded", _needs(profile)
    return None


def without_copies(profile: Profile) -> tuple[str, str] | None:
    """Why copies are unknown and what records them, where a device has none; None where that is known to be all."""
    for view in profile.ranks:
        if not view.rank.has_device or bool((view.kind == EventKind.MEMCPY).any()):
            continue
        calls = np.flatnonzero(view.kind == EventKind.RUNTIME)
        if any(COPYING.match(name) for name in view.distinct_names(calls)):
            return "no copy of a device is recorded, although the host asks for some", _needs(profile)
        if by_nsight(profile) and not len(calls):
            return "neither copies of a device nor the calls that ask for them are recorded", _needs(profile)
    return None


def without_launches(profile: Profile) -> dict[int, tuple[str, str]]:
    """The ranks with a device of which no call is joined to its work: why their host is unknown, what records it."""
    why = "no call of the host is joined to work on the device, so what the device waits for is unknown"
    lacking = [view.rank.rank for view in profile.ranks if view.rank.has_device and not len(view.launches)]
    return dict.fromkeys(lacking, (why, _needs(profile)))


def _needs(profile: Profile) -> str:
    return CUDA_TRACED if by_nsight(profile) else ACTIVITIES
