"""Captures of some steps of a rank: by torch.profiler, or anything else with the same few methods."""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter_ns
from typing import Any, Protocol

from hermes_agent.monitor.format import CAPTURE_ENDED, CAPTURED, Answer, capture_folder
from hermes_agent.monitor.ring import CaptureRequest, RingWriter
from hermes_agent.monitor.run_files import captured_bytes, make_folder, replace

PIECE_BYTES = 1 << 20


class Profiler(Protocol):
    """Profiles some steps. ``start`` raises RuntimeError when it cannot."""

    def start(self, first_step: int, steps: int) -> None:
        """Begin with the step ``first_step``."""

    def step(self) -> None:
        """Mark the end of a step and the begin of the next."""

    def stop(self) -> None:
        """End the profiling, without writing anything."""

    def export(self, path: Path) -> None:
        """Write the trace to a new file of a private folder; called on another thread than the training's."""


class TorchProfiler:
    """torch.profiler with shapes and, unless ``stacks`` is False, Python frames; steps carry the training's numbers."""

    def __init__(self, stacks: bool = True) -> None:
        self._stacks = stacks
        self._profile: Any = None

    def start(self, first_step: int, steps: int) -> None:
        """Begin; raises RuntimeError when torch is not loaded or the script profiles already."""
        torch = sys.modules.get("torch")
        if torch is None:
            raise RuntimeError("torch is not loaded in this process")
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("another profiler is running in this process")
        from torch.profiler import ProfilerAction, ProfilerActivity, profile, supported_activities

        kinds = (ProfilerActivity.CPU, getattr(ProfilerActivity, "CUDA", None), getattr(ProfilerActivity, "XPU", None))
        activities = [kind for kind in kinds if kind in supported_activities()]
        self._profile = profile(
            activities=activities,
            record_shapes=True,
            with_stack=self._stacks,
            schedule=lambda _: ProfilerAction.RECORD,
        )
        self._profile.step_num = first_step
        self._profile.start()

    def step(self) -> None:
        """Close the annotation of a step and open the next."""
        self._profile.step()

    def stop(self) -> None:
        """Wait for the device's records and close the last annotation."""
        self._profile.stop()

    def export(self, path: Path) -> None:
        """Write the Kineto trace, compressed, and free it."""
        plain = path.with_suffix(".part")
        self._profile.export_chrome_trace(str(plain))
        self._profile = None
        with plain.open("rb") as source, gzip.open(path, "wb", compresslevel=3) as target:
            shutil.copyfileobj(source, target)
        plain.unlink()


@dataclass(frozen=True)
class CaptureLimits:
    """Limits of a rank's captures; ``seconds`` are the window of ``captures``."""

    captures: int = 6
    seconds: float = 3600.0
    total_bytes: int = 1 << 30  # of all captures in the run folder
    steps: int = 20


class CaptureQueue:
    """A rank's capture requests, carried out within limits."""

    def __init__(
        self, run_folder: Path, rank: int, ring: RingWriter, limits: CaptureLimits, profiler: Callable[[], Profiler]
    ) -> None:
        self._folder, self._rank, self._ring, self._limits, self._new = run_folder, rank, ring, limits, profiler
        self.seen = ring.requested()  # id of the last request that was looked at
        self.busy = False  # whether ``boundary`` must be called although nothing new is requested
        self._waiting: CaptureRequest | None = None
        self._running: Profiler | None = None
        self._left = self._first = 0
        self._begun: deque[float] = deque()
        self._writer: threading.Thread | None = None
        self._disturbed = False
        self.events: deque[dict[str, Any]] = deque(maxlen=100)

    def boundary(self, ended_step: int) -> int:
        """Call between two steps; returns the flags of the step that ended."""
        flags = self._turn(ended_step)
        self.busy = self._disturbed or self._waiting is not None
        return flags

    def _turn(self, ended_step: int) -> int:
        if self._running is not None and self._waiting is not None:
            self._left -= 1
            if self._left > 0:
                self._running.step()
            else:
                self._end(self._running, self._waiting, ended_step)
            return CAPTURED
        flags = CAPTURE_ENDED if self._disturbed else 0
        self._disturbed = self._writer is not None and self._writer.is_alive()
        if self._ring.requested() != self.seen:
            request = self._ring.request()
            if request is None:
                return flags  # still being written, or damaged: looked at again after the next step
            self.seen, self._waiting = request.id, None
            if reason := self._objection(request):
                self._refuse(request, ended_step, reason)
            else:
                self._waiting = request
                self._ring.answer(request.id, Answer.ACCEPTED, ended_step)
        if self._waiting and ended_step + 1 >= self._waiting.first_step:
            self._start(self._waiting, ended_step + 1)
        return flags

    def finish(self, limit_s: float) -> bool:
        """End what is running and wait for what is being written; True when nothing is left."""
        if self._running is not None and self._waiting is not None:
            self._end(self._running, self._waiting, self._first + self._waiting.steps - self._left - 1)
        if self._writer is not None:
            self._writer.join(limit_s)
        return self._writer is None or not self._writer.is_alive()

    def _objection(self, request: CaptureRequest) -> str:
        limits, now = self._limits, monotonic()
        while self._begun and now - self._begun[0] > limits.seconds:
            self._begun.popleft()
        if not 1 <= request.steps <= limits.steps:
            return f"{request.steps} steps requested, 1 to {limits.steps} allowed"
        if len(self._begun) >= limits.captures:
            return f"{limits.captures} captures were made within {limits.seconds:.0f} s, the limit"
        if captured_bytes(self._folder) >= limits.total_bytes:
            return f"the captures fill {limits.total_bytes} bytes, the limit"
        if self._writer is not None and self._writer.is_alive():
            return "the last capture is still being written"
        return ""

    def _refuse(self, request: CaptureRequest, step: int, reason: str, failed: bool = False) -> None:
        self._ring.answer(request.id, Answer.FAILED if failed else Answer.REFUSED, step, reason)
        event = "capture_failed" if failed else "capture_refused"
        self.events.append({"event": event, "request": request.id, "step": step, "reason": reason})

    def _start(self, request: CaptureRequest, step: int) -> None:
        profiler = self._new()
        try:
            profiler.start(step, request.steps)
        except (RuntimeError, ImportError, AttributeError) as error:
            self._waiting = None
            self._refuse(request, step, str(error))
            return
        self._running, self._left, self._first = profiler, request.steps, step
        self._begun.append(monotonic())
        self._ring.answer(request.id, Answer.RUNNING, step)

    def _end(self, profiler: Profiler, request: CaptureRequest, last_step: int) -> None:
        self._running = self._waiting = None
        self._disturbed = True  # what stopping takes falls into the next step
        profiler.stop()
        arguments = (profiler, request, self._first, last_step)
        self._writer = threading.Thread(target=self._write, args=arguments, name="hermes-dx-capture", daemon=True)
        self._writer.start()

    def _write(self, profiler: Profiler, request: CaptureRequest, first: int, last: int) -> None:
        begun_ns = perf_counter_ns()
        path = capture_folder(self._folder, request.id) / f"rank{self._rank}.pt.trace.json.gz"
        try:
            make_folder(path.parent)
            # A profiler opens its file by name: in the run folder others could have put a link there.
            with tempfile.TemporaryDirectory(prefix="hermes-dx-") as private:
                whole = Path(private) / path.name
                profiler.export(whole)
                with whole.open("rb") as trace:
                    size = replace(path, iter(lambda: trace.read(PIECE_BYTES), b""))
        except (OSError, RuntimeError) as error:
            self._refuse(request, last, str(error), failed=True)
            return
        self._ring.answer(request.id, Answer.WRITTEN, last)
        about = {"event": "capture", "request": request.id, "first_step": first, "last_step": last}
        write_ms = (perf_counter_ns() - begun_ns) // 1_000_000
        self.events.append({**about, "path": str(path.relative_to(self._folder)), "bytes": size, "write_ms": write_ms})
