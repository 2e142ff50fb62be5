"""What a trace lacks that a verdict needs: the work of a device, or anything of the host that feeds it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tools.run.device_use import uses_device
from tools.run.events import DEVICE_WORK, HOST_WORK, EventKind
from tools.run.model import COUNTER_RANGES
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.steps.coarse import by_nsight

WHOLE_EXPORT = "whole steps with `nsys profile --trace=cuda,nvtx,osrt`, and an NVTX range around each"
MAY_BE_DEVICE = "a process of the trace may be a device, and its work is not counted as nothing shows that it is one"
DEVICE_NAMED = (
    "the trace with the device's work under a category such as kernel, or its process under the device's name"
)
WHOLE_TRACE = "the whole trace with ProfilerActivity.CPU and CUDA, and let the profiler finish writing"
NO_DEVICE_WORK = (
    "the trace is of a program on a device but holds none of its work: it was recorded without it, or is cut"
)
CAPTURED = "most recorded launches are captured into a graph, which does not run them on the device"
COUNTED = "the trace holds counter ranges of CUPTI, for which kernels are run again, and no times of kernels"
UNKNOWN_EVENTS = "none of the recorded events is an operator, a kernel or a call by a category that is known"
KNOWN_WORK = [int(kind) for kind in (*HOST_WORK, *DEVICE_WORK)]
WANTED = {  # by why the work of a device is not known
    CAPTURED: "a trace of steps in which the captured graph runs",
    UNKNOWN_EVENTS: "a trace of the same steps by torch.profiler",
    COUNTED: "the same steps without `profiler_metrics` in the profiler's `experimental_config`",
}
FEWEST_LAUNCHES = 20  # fewer launches than this may be chance
MISSING_SHARE = 0.5  # of the launches: with fewer than this recorded on the device, what it did is not known
DEVICE_ALONE = (
    "no problem is visible in what the device ran, but nothing of the host was recorded: its input of data, its other"
    " work and what it waits for were not observed"
)
NO_STEPS_SEEN = (
    "no problem is visible in the recorded time, but no steps are marked and no training step was seen in it, so"
    " nothing shows that training steps look like it"
)
HOST_TOO = "the same steps recorded with the host's operators and calls"
HOST_BY_NSIGHT = f"{HOST_TOO} (`nsys profile --trace=cuda,nvtx,osrt`), and an NVTX range around each step"


def host_missing(profile: Profile, rank: int | None = None) -> bool:
    """Whether a device was recorded alone: of its rank (of any rank) nothing of the host but marks of steps and calls
    around all of the device's work, which do not show what the host did meanwhile."""
    views = profile.ranks if rank is None else (profile.rank(rank),)
    return any(view.rank.has_device and not _shows_host(view) for view in views)


def _shows_host(view: RankProfile) -> bool:
    host = np.isin(view.kind, [int(kind) for kind in HOST_WORK]) & ~view.named("profiler_step")
    work = np.concatenate((view.kernels, view.copies))
    if len(work):
        host &= (view.start > view.start[work].min()) | (view.end < view.end[work].max())
    return bool(host.any())


def host_too(profile: Profile) -> str:
    """The recording that shows the host as well."""
    return HOST_BY_NSIGHT if by_nsight(profile) else HOST_TOO


def device_work_missing(profile: Profile) -> str:
    """Why a device cannot be judged: it is named without any work, or hardly any launched kernel is recorded; or ""."""
    for rank in profile.ranks:
        if any(device.possible for device in rank.rank.devices):
            return MAY_BE_DEVICE
        if (rank.kind == EventKind.OTHER).any() and not np.isin(rank.kind, KNOWN_WORK).any():
            return UNKNOWN_EVENTS
        if uses_device(rank.rank, profile.run.layout.backend) and not rank.rank.has_device:
            return NO_DEVICE_WORK
        calls = np.flatnonzero(rank.named("kernel_launch") & (rank.kind == EventKind.RUNTIME))
        calls, launched = calls[~_captured(rank, calls)], len(calls)
        if launched >= FEWEST_LAUNCHES and len(calls) < MISSING_SHARE * launched:
            return CAPTURED
        recorded = np.isin(calls, rank.launches["launch_row"].to_numpy())
        if _works_to_the_end(rank, calls) and recorded.any():
            recorded = recorded[: int(np.flatnonzero(recorded)[-1]) + 1]  # kernels of the others come after the end
        if len(calls) >= FEWEST_LAUNCHES and recorded.sum() < MISSING_SHARE * len(recorded):
            if COUNTER_RANGES in rank.rank.metadata:
                return COUNTED
            return "the trace holds no kernel of most recorded launches: it is cut, or kernels were not recorded"
    return ""


def _captured(rank: RankProfile, calls: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for launches between the begin and the end of a stream capture: they go into a graph and run nothing."""
    runtime = rank.kind == EventKind.RUNTIME
    begins, ends = (np.sort(rank.start[runtime & rank.named(name)]) for name in ("capture_begin", "capture_end"))
    if not len(begins):
        return np.zeros(len(calls), dtype=np.bool_)
    at = rank.start[calls]
    begun = np.searchsorted(begins, at, side="right")
    ended = np.searchsorted(ends, at, side="right")
    return np.asarray(begun > ended, dtype=np.bool_)


def _works_to_the_end(rank: RankProfile, calls: NDArray[np.int64]) -> bool:
    """Whether the device still works when the last launch is made: then what is queued was not lost."""
    work = np.concatenate((rank.kernels, rank.copies))
    return bool(len(calls) and len(work) and rank.end[work].max() >= rank.start[calls].max())
