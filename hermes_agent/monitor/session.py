"""The monitor of one rank: ``step()`` after each training step is all that a script has to call."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import gethostname
from time import perf_counter_ns, thread_time_ns, time_ns
from typing import Any, TypeVar

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.capture import CaptureLimits, CaptureQueue, Profiler, TorchProfiler
from hermes_agent.monitor.environment import EnvironmentWatch, default_folder, identity
from hermes_agent.monitor.flush import Flusher, FlushPlan, RecordFiles
from hermes_agent.monitor.format import FLAGS, GC_LONGEST, RECORDS_WORD, REQUEST_WORD, WAITING, WORDS, WRITTEN_WORD
from hermes_agent.monitor.hooks import DataWatch, GarbageWatch, GradientWatch, Model, WatchedLoader
from hermes_agent.monitor.ring import RingWriter, open_ring_folder
from hermes_agent.monitor.run_files import remove
from hermes_agent.monitor.system import Sampler
from hermes_agent.monitor.verdict import LIMIT_S, Summary, verdict


@dataclass(frozen=True)
class Options:
    """The defaults are meant for training."""

    capacity: int = 4096  # records in the ring
    plan: FlushPlan = field(default_factory=FlushPlan)
    limits: CaptureLimits = field(default_factory=CaptureLimits)
    watch_loaders: bool = True  # time every torch DataLoader without wrapping it
    watch_optimizers: bool = True  # record a rank's own time by torch's optimizers, without ``watch_model``
    profiler: Callable[[], Profiler] = TorchProfiler
    host: str | None = None  # name of the machine in the records, its own where None
    end_limit_s: float = 30.0  # what ending may wait for files and traces
    verdict_limit_s: float = LIMIT_S  # what the diagnosis at the end may take, where one is wanted


T = TypeVar("T")
NEVER = -1  # no request has this number
FAILED_LIMIT_S = 2.0  # what a failure may hold up the training, once


class Monitor:
    """Records the steps of this process. It never raises into the script: after one message it is off.

    Without ``folder`` it writes to HERMES_DX_RUN_FOLDER or ``hermes-run``; without ``rank`` the launcher's is used.
    ``verdict``: when it ends, rank 0 has the records diagnosed by another process, prints what that found to standard
    error, and holds it in ``summary``, flat names and values for an experiment tracker.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        rank: int | None = None,
        batch_size: int | None = None,
        flops_per_step: float | None = None,
        peak_flops_per_s: float | None = None,
        options: Options | None = None,
        verdict: bool = False,
    ) -> None:
        self.on = False
        self.summary: Summary = {}
        self._wants_verdict = verdict
        self._opened = False
        self._broken: Exception | None = None
        self._said = False
        self._options = options or Options()
        self._owner = os.getpid()
        self._step = -1
        self._number = 0
        self._totals = [0] * layout.TOTALS
        self._gradients = GradientWatch(self._totals)
        self._data = DataWatch(self._totals)
        self._garbage = GarbageWatch(self._totals)
        with self._guarded("it could not start"):
            workload = layout.Workload(batch_size, flops_per_step, peak_flops_per_s)
            self._open(Path(folder) if folder is not None else default_folder(), rank, workload)

    @contextmanager
    def _guarded(self, failure: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the boundary to the user's script: training goes on
            self._fail(failure, error)

    def _open(self, folder: Path, rank: int | None, workload: layout.Workload) -> None:
        options = self._options
        folder = folder.absolute()
        where = open_ring_folder(folder, layout.RECORDS_AT + (options.capacity + 1) * layout.RAW.size)
        known, world_size, local_rank = identity()
        rank, host = known if rank is None else rank, options.host or gethostname()
        process = (self._owner, time_ns(), options.capacity)
        about = layout.Description(rank, world_size, local_rank, host, *process, workload)
        self._folder, self._rank = folder, about.rank
        self._files = RecordFiles(layout.records_folder(folder), about, options.plan.largest_file_bytes)
        self._ring = RingWriter(where / f"{about.stem}{layout.RING}", about)
        self._captures = CaptureQueue(folder, about.rank, self._ring, options.limits, options.profiler)
        self._sampler = Sampler(not about.local_rank, threading.get_native_id())
        self._environment = EnvironmentWatch(os.environ)
        self._environment.note_threads()
        self._flusher = Flusher(self._ring, self._files, options.plan, self._events, self._flushing_failed)
        self._flusher.start()
        self._opened = True
        ours = weakref.WeakMethod(self._forked)
        os.register_at_fork(after_in_child=lambda: (ours() or (lambda: None))())
        if options.watch_loaders:
            self._data.hook_torch()
        if options.watch_optimizers:
            self._gradients.hook_torch()
        self._garbage.start()
        self._totals[FLAGS] = layout.FIRST
        self._view, self._slots, self._request = self._ring.view, self._ring.slots, self._captures.seen
        self.on = True
        self.begin()

    def step(self, step: int | None = None, samples: int | None = None) -> None:
        """Record the step that has ended, from the last call to this one; without a number they count from 0."""
        # One flat function that stores plain numbers: see ``hermes_agent.monitor.format`` for why.
        if not self.on:
            return
        try:
            clock_ns = perf_counter_ns()
            number, view = self._number, self._view
            self._step = step = self._step + 1 if step is None else step
            if view[REQUEST_WORD] != self._request or self._captures.busy:
                self._between(step)
            data, waiting, gc, gc_runs, fetches, ready, updating, exchanged, longest, depths, flags = self._totals
            at = RECORDS_WORD + number % self._slots * WORDS
            view[at] = number
            view[at + 1] = step
            view[at + 2] = clock_ns
            view[at + 3] = thread_time_ns()
            view[at + 4] = samples or 0
            view[at + 5] = data
            view[at + 6] = waiting
            view[at + 7] = gc
            view[at + 8] = gc_runs
            view[at + 9] = fetches
            view[at + 10] = ready
            view[at + 11] = longest
            view[at + 12] = depths
            view[at + 13] = flags
            view[at + 14] = updating
            view[at + 15] = exchanged
            view[WRITTEN_WORD] = self._number = number + 1
            if ready > updating:
                self._totals[layout.READY] = 0  # an update in the next step does not end an exchange of this one
            if longest or flags:
                self._totals[GC_LONGEST] = self._totals[FLAGS] = 0
                if flags:
                    self._environment.note_threads()  # what the script set after the monitor's start
                    if self._options.watch_optimizers:
                        self._gradients.hook_torch()  # the script may have loaded torch after the monitor's start
        except Exception as error:  # the boundary to the user's script: training goes on
            self._fail("a step could not be recorded", error)

    def _between(self, step: int) -> None:
        """A capture was requested, or is under way, or the flushing thread has failed."""
        if self._broken is not None:
            raise self._broken
        self._totals[FLAGS] |= self._captures.boundary(step)
        self._request = self._captures.seen

    def begin(self) -> None:
        """Optional: the first step begins here, so that it does not hold what came before."""
        if self.on and self._step < 0:
            data, waiting, gc, gc_runs, fetches, *_ = self._totals
            clocks, exchanged = (perf_counter_ns(), thread_time_ns()), self._totals[layout.EXCHANGED]
            sums = data, waiting, gc, gc_runs, fetches
            self._ring.begin(layout.RawStep(-1, -1, *clocks, 0, *sums, 0, 0, 0, 0, exchanged=exchanged))

    def loader(self, loader: Iterable[T]) -> Iterable[T]:
        """Return the same loader with its fetches timed; not needed for torch's DataLoader."""
        return WatchedLoader(loader, self._data) if self.on else loader

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside as waiting for other ranks: a barrier, a collective that the script calls itself."""
        begun_ns = perf_counter_ns()
        try:
            yield
        finally:
            self._totals[WAITING] += perf_counter_ns() - begun_ns

    def watch_model(self, model: Model) -> None:
        """Record when the model's last gradient is ready (host time), where no optimizer of torch leads to it."""
        if self.on:
            with self._guarded("the model cannot be watched"):
                self._gradients.watch(model)

    def close(self, *, failed: bool = False) -> None:
        """Flush and end; the ring is removed when all of it is in the files. No verdict on a training that failed."""
        if self._opened and os.getpid() == self._owner:
            with self._guarded("it could not end in order"):
                self._end(self._options.end_limit_s)
            if self._wants_verdict and not failed and self._rank == 0:
                found = verdict(self._folder, self._options.verdict_limit_s)
                self.summary = found.summary
                _report(found.text)

    def _end(self, limit_s: float) -> None:
        """Remove the hooks, end what runs, mark in the ring that the rank is recorded no more; the first call only."""
        self._garbage.stop()
        self._data.unhook()
        self._gradients.stop()
        if not self._opened or os.getpid() != self._owner:
            return
        self.on = self._opened = False
        try:
            idle = self._captures.finish(limit_s)
            whole = self._flusher.stop(limit_s)
            if self._flusher.ended:  # else it may be in the middle of reading or writing
                self._sampler.close()
                self._files.close()
        finally:
            self._ring.beat(time_ns(), perf_counter_ns(), closed=True)
        if whole:
            remove(self._ring.path)
        if self._flusher.ended and idle:
            self._ring.close()

    def __enter__(self) -> Monitor:
        self.begin()
        return self

    def __exit__(self, *failure: object) -> None:
        self.close(failed=failure[0] is not None)

    def _events(self, due: bool) -> list[dict[str, Any]]:
        """Events to be written next to the steps; called by the flushing thread."""
        events: list[dict[str, Any]] = []
        while self._garbage.pauses:
            pause = self._garbage.pauses.popleft()
            end_unix_ns = self._ring.unix_ns(pause.pop("end_clock_ns"))
            events.append({"event": "gc", "step": self._step + 1, "end_unix_ns": end_unix_ns, **pause})
        while self._captures.events:
            events.append(self._captures.events.popleft())
        if due:
            now_ns = self._ring.unix_ns(perf_counter_ns())
            events += self._environment.news(now_ns, last=not self.on)
            events.append({"event": "system", "unix_ns": now_ns, "step": self._step, **self._sampler.sample()})
            if self._options.watch_loaders and self.on:
                self._data.hook_torch()
        return events

    def _forked(self) -> None:
        """A child (a loader's worker) records nothing: it has no flushing thread, and the ring has one writer."""
        self.on = self._data.on = False
        self._garbage.stop()
        self._gradients.stop()
        self._sampler.close()

    def _fail(self, what: str, error: Exception) -> None:
        self.on = False
        self._say(what, error)
        try:
            self._end(min(self._options.end_limit_s, FAILED_LIMIT_S))
        except Exception as another:  # the boundary to the user's script: training goes on
            self._say(what, another)

    def _flushing_failed(self, what: str, error: Exception | None) -> None:
        """React to a failure of the flushing thread; without an error the steps still go to the ring."""
        self._say(what, error)
        if error is not None:
            self._ring.beat(time_ns(), perf_counter_ns(), closed=True)
            self._broken = error
            self._request = NEVER  # the training thread ends the rest: it may be profiling

    def _say(self, what: str, error: Exception | None) -> None:
        if self._said:
            return
        self._said = True
        reason = f" ({type(error).__name__}: {error})" if error else ""
        _report(f"hermes-dx monitor: {what}{reason}; training goes on")


def _report(text: str) -> None:
    """Print to standard error; a script may have closed it, or nobody reads it any more."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr)
