"""The monitor of one rank: ``step()`` after each training step is all that a script has to call."""

from __future__ import annotations

import os
import struct
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_THREAD, getrusage
from time import perf_counter_ns, time_ns
from types import TracebackType
from typing import Any, TypeVar

from hermes_agent.monitor.capture import CaptureDesk
from hermes_agent.monitor.description import Description, Workload, default_folder, host_name, identity
from hermes_agent.monitor.flush import Flusher, RecordFiles
from hermes_agent.monitor.garbage import GarbageWatch
from hermes_agent.monitor.gradients import GradientWatch, Model
from hermes_agent.monitor.layout import FIRST, LARGEST_US, RECORD, RECORDS_AT, REQUEST_AT, UNKNOWN_DEPTH, UNKNOWN_US
from hermes_agent.monitor.loaders import NO_DEPTHS, DataWatch, WatchedLoader
from hermes_agent.monitor.options import Options
from hermes_agent.monitor.places import open_ring_folder, records_folder
from hermes_agent.monitor.ring import RingWriter
from hermes_agent.monitor.system import Sampler

T = TypeVar("T")
Counters = tuple[int, int, int, int, int, int, int, int, int, int]


class Monitor:
    """Records the steps of this process. It never raises into the script: what fails is said once, and it is off."""

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        rank: int | None = None,
        batch_size: int | None = None,
        flops_per_step: float | None = None,
        peak_flops_per_s: float | None = None,
        options: Options | None = None,
    ) -> None:
        self.on = False
        self._said = False
        self._options = options or Options()
        self._owner = os.getpid()
        self._step = -1
        self._waiting_ns = 0
        self._gradients = GradientWatch()
        self._data = DataWatch()
        self._garbage = GarbageWatch()
        try:
            workload = Workload(batch_size, flops_per_step, peak_flops_per_s)
            self._open(Path(folder) if folder is not None else default_folder(), rank, workload)
        except Exception as error:  # the boundary to the user's script: training goes on
            self._fail("it could not start", error)

    def _open(self, folder: Path, rank: int | None, workload: Workload) -> None:
        options = self._options
        folder = folder.absolute()
        where = open_ring_folder(folder, RECORDS_AT + options.capacity * RECORD.size)
        about = self._describe(where, rank, workload)
        self._files = RecordFiles(records_folder(folder), about, options.plan.largest_file_bytes)
        self._ring = RingWriter(Path(about.ring), about)
        self._desk = CaptureDesk(folder, about.rank, self._ring, options.limits, options.profiler)
        self._sampler = Sampler(whole_host=not about.local_rank)
        self._flusher = Flusher(self._ring, self._files, options.plan, self._events, self._say)
        ours = weakref.WeakMethod(self._forked)
        os.register_at_fork(after_in_child=lambda: (ours() or _nothing)())
        if options.watch_loaders:
            self._data.hook_torch()
        self._garbage.start()
        self._flusher.start()
        self._flags = FIRST
        self._request = self._desk.seen & 0xFF
        self.on = True
        self.begin()

    def _describe(self, where: Path, rank: int | None, workload: Workload) -> Description:
        known, world_size, local_rank = identity()
        number, start_ns, pid = known if rank is None else rank, time_ns(), os.getpid()
        ring = where / f"rank{number:05d}-{start_ns // 1_000_000}-{pid}.ring"
        capacity = self._options.capacity
        return Description(number, world_size, local_rank, host_name(), pid, start_ns, str(ring), capacity, workload)

    def step(self, step: int | None = None, samples: int | None = None) -> None:
        """To be called when a step has ended; ``step`` is its number, else they are counted from 0.

        The span since the last call is the step's, the first one's since the monitor was made.
        """
        if not self.on:
            return
        try:
            self._ended(self._step + 1 if step is None else step, samples or 0)
        except Exception as error:  # the boundary to the user's script: training goes on
            self._fail("a step could not be recorded", error)

    def begin(self) -> None:
        """Optional: the first step begins here, so that it does not hold what came before."""
        if self.on and self._step < 0:
            data, garbage, usage = self._data, self._garbage, getrusage(RUSAGE_THREAD)
            cpu_us = int((usage.ru_utime + usage.ru_stime) * 1e6)
            switches = (usage.ru_nvcsw, usage.ru_nivcsw, usage.ru_majflt)
            self._last: Counters = (
                *(perf_counter_ns(), data.total_ns, self._waiting_ns, garbage.total_ns, garbage.runs, cpu_us),
                *(*switches, data.fetches),
            )

    def loader(self, loader: Iterable[T]) -> Iterable[T]:
        """The same loader, its fetches timed; not needed for torch's DataLoader."""
        return WatchedLoader(loader, self._data) if self.on else loader

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what waits for other ranks: a barrier, a collective that the script calls itself."""
        begun_ns = perf_counter_ns()
        try:
            yield
        finally:
            self._waiting_ns += perf_counter_ns() - begun_ns

    def watch_model(self, model: Model) -> None:
        """Notes when the model's last gradient is ready: what a rank takes until then is its own, not the others'.

        Host time: on an accelerator it says when the work was launched.
        """
        if not self.on:
            return
        try:
            self._gradients.watch(model)
        except Exception as error:  # the boundary to the user's script: training goes on
            self._fail("the model cannot be watched", error)

    def close(self) -> None:
        """Flushes and ends; the ring is removed when all of it is in the files."""
        if not self.on or os.getpid() != self._owner:
            return
        self.on = False
        try:
            self._let_go()
            self._desk.finish(self._options.end_limit_s)
            whole = self._flusher.stop(self._options.end_limit_s)
            self._ring.beat(time_ns(), closed=True)
            if whole:
                self._files.close()
                self._ring.path.unlink(missing_ok=True)
        except Exception as error:  # the boundary to the user's script: training goes on
            self._fail("it could not end in order", error)

    def __enter__(self) -> Monitor:
        self.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ended(self, step: int, samples: int) -> None:
        """One flat function: between steps the caches are cold, and every call and object costs more than it looks."""
        data, garbage, ring, gradients = self._data, self._garbage, self._ring, self._gradients
        usage = getrusage(RUSAGE_THREAD)
        cpu_us = int((usage.ru_utime + usage.ru_stime) * 1e6)
        before = self._last
        now = self._last = (
            perf_counter_ns(),
            data.total_ns,
            self._waiting_ns,
            garbage.total_ns,
            garbage.runs,
            cpu_us,
            usage.ru_nvcsw,
            usage.ru_nivcsw,
            usage.ru_majflt,
            data.fetches,
        )
        in_flight, results, pinned = data.depths
        flags = self._flags
        if ring.map[REQUEST_AT] != self._request or self._desk.busy:
            flags |= self._desk.boundary(step)
            self._request = self._desk.seen & 0xFF
        self._step = step
        fields = (
            step,
            time_ns(),
            (now[0] - before[0]) // 1000,
            (now[1] - before[1]) // 1000,
            (gradients.ready_ns - before[0]) // 1000 if gradients.ready_ns else UNKNOWN_US,
            (now[2] - before[2]) // 1000,
            (now[3] - before[3]) // 1000,
            garbage.longest_ns // 1000,
            now[4] - before[4],
            now[5] - before[5],
            now[6] - before[6],
            now[7] - before[7],
            now[8] - before[8],
            now[9] - before[9],
            samples,
            in_flight,
            results,
            pinned,
            flags,
        )
        try:
            ring.write(*fields)
        except struct.error:  # longer than an hour, or another number that does not fit
            ring.write(*fields[:2], *(min(max(each, UNKNOWN_DEPTH), LARGEST_US) for each in fields[2:]))
        garbage.longest_ns = gradients.ready_ns = self._flags = 0
        data.depths = NO_DEPTHS

    def _events(self, due: bool) -> list[dict[str, Any]]:
        """What is to be written beside the steps; called by the flushing thread."""
        events: list[dict[str, Any]] = []
        while self._garbage.pauses:
            events.append({"event": "gc", "step": self._step + 1, **self._garbage.pauses.popleft()._asdict()})
        while self._desk.told:
            events.append(self._desk.told.popleft())
        if due:
            events.append({"event": "system", "unix_ns": time_ns(), "step": self._step, **self._sampler.sample()})
            if self._options.watch_loaders and self.on:
                self._data.hook_torch()
        return events

    def _forked(self) -> None:
        """A child (a loader's worker) records nothing: it has no flushing thread, and the ring has one writer."""
        self.on = self._data.on = False
        self._garbage.stop()

    def _let_go(self) -> None:
        self._garbage.stop()
        self._data.unhook()
        self._gradients.stop()

    def _fail(self, what: str, error: Exception) -> None:
        self.on = False
        self._let_go()
        self._say(what, error)

    def _say(self, what: str, error: Exception | None) -> None:
        if self._said:
            return
        self._said = True
        reason = f" ({type(error).__name__}: {error})" if error else ""
        print(f"hermes-dx monitor: {what}{reason}; training goes on", file=sys.stderr)


def _nothing() -> None:
    return None
