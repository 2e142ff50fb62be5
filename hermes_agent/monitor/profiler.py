"""What profiles some steps of a rank: torch.profiler, or something else with the same few methods."""

from __future__ import annotations

import gzip
import shutil
import sys
from pathlib import Path
from typing import Any, Protocol


class Profiler(Protocol):
    """Profiles some steps. ``start`` raises RuntimeError when it cannot."""

    def start(self, first_step: int, steps: int) -> None:
        """Begins with the step ``first_step``."""

    def step(self) -> None:
        """Says that a step ended and another begins."""

    def stop(self) -> None:
        """Ends the profiling, without writing anything."""

    def export(self, path: Path) -> None:
        """Writes the trace; called on another thread than the training's."""


class TorchProfiler:
    """torch.profiler with shapes; steps carry the training's own numbers."""

    def __init__(self) -> None:
        self._profile: Any = None

    def start(self, first_step: int, steps: int) -> None:
        """Raises RuntimeError when torch is not loaded or the script profiles already."""
        torch = sys.modules.get("torch")
        if torch is None:
            raise RuntimeError("torch is not loaded in this process")
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("another profiler is running in this process")
        from torch.profiler import ProfilerAction, ProfilerActivity, profile, supported_activities

        kinds = (ProfilerActivity.CPU, getattr(ProfilerActivity, "CUDA", None), getattr(ProfilerActivity, "XPU", None))
        activities = [kind for kind in kinds if kind in supported_activities()]
        self._profile = profile(activities=activities, record_shapes=True, schedule=lambda _: ProfilerAction.RECORD)
        self._profile.step_num = first_step
        self._profile.start()

    def step(self) -> None:
        """Closes the annotation of a step and opens the next."""
        self._profile.step()

    def stop(self) -> None:
        """Waits for the device's records and closes the last annotation."""
        self._profile.stop()

    def export(self, path: Path) -> None:
        """Writes the Kineto trace, compressed, and lets it go."""
        plain = path.with_suffix(".part")
        self._profile.export_chrome_trace(str(plain))
        self._profile = None
        packed = path.with_suffix(".packed")
        with plain.open("rb") as source, gzip.open(packed, "wb", compresslevel=3) as target:
            shutil.copyfileobj(source, target)
        plain.unlink()
        packed.replace(path)
