"""One job at a time, in a thread; what comes meanwhile waits its turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from textual.app import App
from textual.message import Message

from hermes_agent.tui.work import Job, perform


class Worker:
    """The queue of jobs of an app; used from the app's own thread only."""

    def __init__(self, app: App[int], clock: Callable[[], float]) -> None:
        self._app = app
        self._clock = clock
        self._waiting: deque[Job] = deque()
        self._begun_s = 0.0
        self.job: Job | None = None

    def add(self, job: Job) -> None:
        """Does the job now, or after those before it."""
        self._waiting.append(job)
        self._next()

    def over(self, job: Job) -> None:
        """The job ended; the next one begins."""
        if self.job is job:
            self.job = None
        self._next()

    def stop(self) -> tuple[Job, ...]:
        """Asks the running job to stop and forgets those waiting, which are returned."""
        if self.job is not None:
            self.job.stop.set()
        dropped = tuple(self._waiting)
        self._waiting.clear()
        return dropped

    @property
    def elapsed_s(self) -> float:
        """Seconds since the running job began."""
        return self._clock() - self._begun_s

    @property
    def doing(self) -> str:
        """What runs now, in words; empty when nothing does."""
        if self.job is None:
            return ""
        return "stopping" if self.job.stop.is_set() else self.job.title

    def _next(self) -> None:
        if self.job is not None or not self._waiting:
            return
        self.job = self._waiting.popleft()
        self._begun_s = self._clock()
        post: Callable[[Message], bool] = self._app.post_message
        self._app.run_worker(partial(perform, self.job, post), thread=True, exit_on_error=False, name=self.job.title)
