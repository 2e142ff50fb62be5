"""A process of its own for a diagnosis: the threads of this one, such as that of a screen, go on undisturbed.

Plain data crosses: what to diagnose there, events and the diagnosis back. The process stays while its diagnosis waits
for the answer of a person, and ends with this one.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from logging.handlers import QueueHandler
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any

from hermes_agent.llm.model import Cancelled
from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Emit, Event, SourceWanted
from hermes_agent.model.request import Request
from hermes_agent.workflow.execution import Made, made_here, not_kept
from hermes_agent.workflow.way import Kept, Question, StepsNotKeptError, Way
from tools.errors import HermesError
from tools.sources.workers import ReadingProcess

LOG = logging.getLogger("hermes_dx.workflow")
LOOK_EVERY_S = 0.05  # whether a person has cancelled
GARBAGE_SEARCH_EVERY = 100_000  # new objects; reading a trace makes hundreds of thousands that stay
NICENESS = 5  # keys that are typed come first where cores are few
LOST = "the process that diagnosed the run ended before its answer, perhaps for lack of memory"


@dataclass(frozen=True)
class Order:
    """A diagnosis to make. ``session``: keeps its steps in the store of sessions, "" where none does."""

    request: Request
    key: str
    session: str
    asks: bool
    answer: tuple[Path, ...] | None
    results: Mapping[str, str]
    last_handle: str


@dataclass(frozen=True)
class Outcome:
    """What came of an order; ``results``: all of tools so far, by handle."""

    diagnosis: Diagnosis
    request: Request
    transient: bool
    wanted: SourceWanted | None
    refused: str
    results: Mapping[str, str]


@dataclass(frozen=True)
class Failure:
    """What ended an order without a diagnosis."""

    error: Exception


class OwnProcess:
    """The process for the diagnoses of one session, started at its first; used from one thread at a time."""

    cancelled: Callable[[], bool]  # asked while it works; then the process ends

    def __init__(self) -> None:
        self.cancelled = _never
        self._process: ReadingProcess | None = None
        self._line: Connection[Any, Any] | None = None

    def start(self) -> None:
        """Start the process, which imports what a diagnosis needs; raises LostProcessError where it cannot start."""
        if self._process is not None:
            return
        own, other = Pipe()
        with other:
            try:
                self._process = ReadingProcess([other.fileno()])
            except BaseException:
                own.close()
                raise
            self._line = own
            self._process.ask(Serving(other.fileno(), LOG.getEffectiveLevel()))

    def made(self, request: Request, emit: Emit, way: Way, key: str) -> Made:
        """Make the diagnosis there; raises what ``made_here`` raises, Cancelled and LostProcessError at the start."""
        self.start()
        try:
            outcome = self._outcome(_order(request, way, key), emit)
        except BaseException:
            self.close()
            raise
        if way.results is not None:
            way.results.restore(outcome.results)
        if way.question is not None:
            way.question.wanted, way.question.answer, way.question.key = outcome.wanted, None, key
            way.question.refused = outcome.refused
        if outcome.wanted is None:
            self.close()
        return Made(outcome.diagnosis, outcome.request, outcome.transient)

    def close(self) -> None:
        """End the process; the next diagnosis starts another."""
        if self._process is not None:
            self._process.close()
        if self._line is not None:
            self._line.close()
        self._line = self._process = None

    def _outcome(self, order: Order, emit: Emit) -> Outcome:
        line = self._line
        assert line is not None
        try:
            line.send(order)
            while True:
                arrived = line.poll(LOOK_EVERY_S)
                if self.cancelled():
                    raise Cancelled("the diagnosis was cancelled")
                if not arrived:
                    continue
                match line.recv():
                    case Outcome() as outcome:
                        return outcome
                    case Failure(error):
                        raise error
                    case logging.LogRecord() as record if logging.getLogger(record.name).isEnabledFor(record.levelno):
                        logging.getLogger(record.name).handle(record)
                    case logging.LogRecord():
                        pass
                    case event:
                        emit(event)
        except (EOFError, ConnectionError) as error:
            raise HermesError(f"{LOST}; diagnose it again") from error


def _never() -> bool:
    return False


def _order(request: Request, way: Way, key: str) -> Order:
    question, results = way.question, way.results or ResultStore()
    answer = None if question is None or question.answer is None else tuple(question.answer)
    session = "" if way.kept is None else way.kept.session
    return Order(request, key, session, question is not None, answer, dict(results.texts), results.last)


@dataclass(frozen=True)
class Serving:
    """The work of the other process: carry out the orders that come on an inherited descriptor."""

    descriptor: int
    log_level: int

    def answer(self) -> None:
        """Carry out orders until the asking side closes the line."""
        gc.set_threshold(GARBAGE_SEARCH_EVERY)
        os.nice(NICENESS)
        line = _Line(Connection(self.descriptor))
        root = logging.getLogger()
        root.addHandler(_ToAsker(line))
        root.setLevel(self.log_level)
        logging.captureWarnings(True)
        question = Question()
        with suppress(EOFError, ConnectionError):
            while True:
                order: Order = line.connection.recv()
                line.send(_carried_out(order, question, line.send))


@dataclass(frozen=True)
class _Line:
    """The line to the asking process, used by all threads."""

    connection: Connection[Any, Any]
    lock: Lock = field(default_factory=Lock)

    def send(self, what: Event | Outcome | Failure | logging.LogRecord) -> None:
        with self.lock:
            self.connection.send(what)


class _ToAsker(QueueHandler):
    """Sends log records to the asking process, which shows or drops them; standard error may be a screen."""

    def __init__(self, line: _Line) -> None:
        super().__init__(line)  # type: ignore[arg-type] # ``enqueue`` alone uses it
        self._line = line

    def enqueue(self, record: logging.LogRecord) -> None:
        self._line.send(record)


def _carried_out(order: Order, question: Question, emit: Emit) -> Outcome | Failure:
    results = ResultStore()
    results.restore(order.results)
    results.number_after([order.last_handle])
    question.about(order.key)
    question.answer = order.answer
    way = Way(_kept(order, emit), question if order.asks else None, results)
    try:
        made = made_here(order.request, emit, way, order.key)
    except HermesError as error:
        return Failure(error)
    except Exception as error:  # the boundary of this process: a defect is reported by the one that asked
        LOG.exception("the diagnosis failed")
        return Failure(RuntimeError(f"{type(error).__name__}: {error}"))
    return Outcome(made.diagnosis, made.request, made.transient, question.wanted, question.refused, results.texts)


def _kept(order: Order, emit: Emit) -> Kept | None:
    """Where the steps are kept, over a connection of this process."""
    from hermes_agent.sessions.store import SessionStore

    if not order.session or order.request.cache_dir is None:
        return None
    try:
        return Kept(SessionStore(order.request.cache_dir), order.session)
    except HermesError as error:
        emit(not_kept(StepsNotKeptError(str(error))))
        return None
