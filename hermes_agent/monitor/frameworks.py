"""What torch does in the whole process beside the training: profilers that run, and compilations."""

from __future__ import annotations

import sys
from typing import Any

COMPILATION = "_compile.compile_inner"  # torch.compile's own name for turning one frame into code


def framework_sample() -> dict[str, Any]:
    """Whether a profiler runs (1 or 0), compilations so far and the time they took; never imports torch.

    What a release of torch does not keep under these names is left out.
    """
    sample: dict[str, Any] = {}
    profiling = getattr(sys.modules.get("torch.autograd.profiler"), "_is_profiler_enabled", None)
    if isinstance(profiling, bool):
        sample["profiler_active"] = int(profiling)
    metrics = getattr(sys.modules.get("torch._dynamo.utils"), "compilation_time_metrics", None)
    if isinstance(metrics, dict):
        took_s = tuple(metrics.get(COMPILATION, ()))
        sample |= {"compilations": len(took_s), "compile_us": round(1e6 * sum(took_s))}
    return sample
