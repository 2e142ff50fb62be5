"""The runs that clients work on: found by name or allowed path, diagnosed once, a few of them open at a time."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from hermes_agent.config.settings import Settings
from hermes_agent.llm.model import Cancelled
from hermes_agent.llm.redact import Redactor
from hermes_agent.llm.sanitize import one_line
from hermes_agent.mcp_server.allowed import AllowedFolders
from hermes_agent.model.events import Emit
from hermes_agent.model.request import Request
from hermes_agent.registered_runs import RegisteredRuns
from hermes_agent.session import Session
from hermes_agent.statements.facts import hosts_of
from tools.errors import InputError, UsageError
from tools.sources.inventory import take_inventory
from tools.sources.options import Limits

MOST_OPEN = 4  # sessions, each with a run in memory once something was measured; the one not used for longest goes
MOST_HANDLES = 1000
SLUG_CHARS = 40
LONGEST_NAME, NEAREST, CLOSE = 100, 3, 0.6  # of names that are compared, named, and how alike (difflib) they are
POLL_S = 0.1  # between two looks whether a caller that waits was cancelled

IsCancelled: TypeAlias = Callable[[], bool]
FileStates: TypeAlias = "tuple[tuple[str, int, int], ...]"


@dataclass
class OpenRun:
    """A run with its session; ``lock`` is held by the one caller that works on it.

    ``plain``: its handle is a registered name. ``names`` are the registered names that it was opened by, and without
    which it is refused; ``inside`` the paths that have to lie in an allowed folder.
    """

    request: Request
    plain: bool
    names: tuple[str, ...] = ()
    inside: tuple[Path, ...] = ()
    session: Session | None = None
    states: FileStates = ()
    redactor: Redactor | None = None
    lock: Lock = field(default_factory=Lock)


class OpenRuns:
    """All runs of one server. Safe for several threads; each run is used by one of them at a time."""

    def __init__(self, settings: Settings, base: Request, allowed: AllowedFolders, most_open: int = MOST_OPEN) -> None:
        """``base`` is the request of every run but for its paths; a model and private cases are left out of both.

        Private cases stay in where ``cases.send_private`` says that a remote model may read them: the client's model
        is one.
        """
        if not settings.cases.send_private:
            settings = settings.model_copy(update={"cases": settings.cases.model_copy(update={"private_dir": None})})
            base = replace(base, private_cases=None)
        self.settings = settings.without_model()
        self.allowed = allowed
        self._base = base
        self._most_open = most_open
        self._runs: OrderedDict[str, OpenRun] = OrderedDict()  # by handle, the one used last at the end
        self._guard = Lock()
        self._diagnosing = Lock()  # one diagnosis at a time: it uses all cores

    def registered(self) -> RegisteredRuns:
        """The registered runs as they are now."""
        return RegisteredRuns.load(self.settings)

    def opened(self) -> dict[str, tuple[Path, ...]]:
        """The paths of the runs that were opened by path or in part, by handle."""
        registered = self.registered().runs
        with self._guard:
            made = {handle: run for handle, run in self._runs.items() if not run.plain}
        return {handle: run.request.paths for handle, run in made.items() if registered.keys() >= {*run.names}}

    def handle(
        self, run: str, baseline: str = "", steps: tuple[int, int] | None = None, ranks: tuple[int, ...] = ()
    ) -> str:
        """The handle of a run: its own name, or where it has none or only a part is asked for, a name made for it.

        Raises UsageError for what is neither registered nor in an allowed folder, InputError where it is gone.
        """
        runs = self.registered()
        part = bool(baseline or steps or ranks)
        if not part and run not in runs.runs and self._made(run, runs) is not None:
            return run
        sides = [self._found(each, runs) for each in (run, baseline) if each]
        request = replace(self._base, paths=sides[0].request.paths, steps=steps, ranks=ranks)
        if baseline:
            request = replace(request, baseline=sides[1].request.paths)
        plain = run in runs.runs and not part
        handle = run if plain else _made_name(run, request)
        names = tuple(name for side in sides for name in side.names)
        wanted = OpenRun(request, plain, names, tuple(path for side in sides for path in side.inside))
        with self._guard:
            known = self._runs.setdefault(handle, wanted)
            if (known.request, known.names) != (request, names):
                self._runs[handle] = wanted
                _close_idle(known)
            self._runs.move_to_end(handle)
            while len(self._runs) > MOST_HANDLES:
                self._forget_oldest()
        return handle

    @contextmanager
    def using(
        self, handle: str, emit: Emit, cancelled: IsCancelled, *, fresh: bool = False
    ) -> Iterator[tuple[Session, Redactor | None]]:
        """The session of a run, diagnosed, for this caller alone; ``fresh``: made again where its files changed."""
        with self._guard:
            run = self._runs.get(handle)
        if run is None:
            raise UsageError(f"the run {handle} is no longer open; open it again with open_run")
        with held(run.lock, cancelled):
            session = run.session
            if session is None or (fresh and _states(run.request) != run.states):
                session = self._diagnose(run, emit, cancelled)
            self._close_others(handle)
            yield session, run.redactor

    def close(self) -> None:
        """Close the sessions that nobody uses."""
        with self._guard:
            for run in self._runs.values():
                _close_idle(run)

    @property
    def busy(self) -> bool:
        """Whether a thread still works on a run, for a client that may have gone."""
        with self._guard:
            return self._diagnosing.locked() or any(run.lock.locked() for run in self._runs.values())

    def _made(self, handle: str, registered: RegisteredRuns) -> OpenRun | None:
        """The run of a handle that was made for it; raises UsageError where a name that it rests on is gone."""
        with self._guard:
            run = self._runs.get(handle)
        if run is None or run.plain:
            return None
        for name in run.names:
            registered.get(name)
        return run

    def _found(self, run: str, registered: RegisteredRuns) -> OpenRun:
        """The run of a registered name, of the handle of an opened one, or inside an allowed folder."""
        if run in registered.runs:
            return OpenRun(Request(registered.get(run).paths), True, (run,))
        if (made := self._made(run, registered)) is not None:
            return made
        try:
            path = self.allowed.find(run)
        except (InputError, UsageError):
            names = [*registered.runs, *self.opened(), *self.allowed.names()]
            if near := get_close_matches(run[:LONGEST_NAME], dict.fromkeys(names), NEAREST, cutoff=CLOSE):
                raise UsageError(f"there is no run {one_line(run, 100)}; did you mean {' or '.join(near)}?") from None
            raise
        return OpenRun(Request((path,)), False, inside=(path,))

    def _diagnose(self, run: OpenRun, emit: Emit, cancelled: IsCancelled) -> Session:
        _closed(run)
        for path in run.inside:  # a link may have taken the place of a folder since
            self.allowed.find(str(path))
        states = _states(run.request)
        session = Session(run.request, self.settings)
        try:
            with held(self._diagnosing, cancelled):
                diagnosis = session.diagnose(emit)
        except BaseException:
            session.close()
            raise
        run.session, run.states = session, states
        if self.settings.redact:
            run.redactor = Redactor(hosts_of(diagnosis))
        return session

    def _close_others(self, handle: str) -> None:
        """Close the sessions beyond the most that may be open, those not used for longest first."""
        with self._guard:
            if handle in self._runs:
                self._runs.move_to_end(handle)
            idle = [run for name, run in self._runs.items() if run.session is not None and name != handle]
            for run in idle[: max(len(idle) + 1 - self._most_open, 0)]:
                _close_idle(run)

    def _forget_oldest(self) -> None:
        handle, run = next(iter(self._runs.items()))
        _close_idle(run)
        del self._runs[handle]


@contextmanager
def held(lock: Lock, cancelled: IsCancelled) -> Iterator[None]:
    """Hold a lock; raises Cancelled where the caller goes away while it waits."""
    while not lock.acquire(timeout=POLL_S):
        if cancelled():
            raise Cancelled("The request was cancelled.")
    try:
        yield
    finally:
        lock.release()


def _closed(run: OpenRun) -> None:
    if run.session is not None:
        run.session.close()
        run.session = None


def _close_idle(run: OpenRun) -> None:
    if run.lock.acquire(blocking=False):
        try:
            _closed(run)
        finally:
            run.lock.release()


def _states(request: Request) -> FileStates:
    """Name, size and time of every file of the run and its baseline; raises InputError without a run."""
    paths = [(request.paths), *([request.baseline] if request.baseline else [])]
    files = [file for each in paths for file in take_inventory(each, Limits()).files]
    try:
        found = [(str(file), file.stat()) for file in files]
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from error
    return tuple((name, status.st_size, status.st_mtime_ns) for name, status in found)


def _made_name(run: str, request: Request) -> str:
    """``traces-1a2b3c``: the same for the same run, baseline, steps and ranks."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", Path(run).name).strip("-")[:SLUG_CHARS] or "run"
    asked = repr((request.paths, request.baseline, request.steps, request.ranks))
    return f"{slug}-{hashlib.blake2b(asked.encode(), digest_size=4).hexdigest()}"
