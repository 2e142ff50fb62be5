"""One call from a request to a diagnosis, with events on the way."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import NOT_LOOKED_UP, Diagnosis
from hermes_agent.model.events import DiagnosisReady, DiagnosisWorded, Emit, Notice, NotStored
from hermes_agent.model.request import Request
from hermes_agent.workflow import stored
from hermes_agent.workflow.execution import LONGEST_REASON, Made, made_here, not_kept
from hermes_agent.workflow.way import Kept, Question, StepsNotKeptError, Way, source_wanted
from tools.errors import HermesError
from tools.leftovers import private_folder, remove_leftovers
from tools.sources.workers import LostProcessError

if TYPE_CHECKING:
    from hermes_agent.llm.tool_loop import ResultStore
    from hermes_agent.workflow.own_process import OwnProcess
    from hermes_agent.workflow.proposals import Proposals
    from hermes_agent.workflow.workspace import Workspace


__all__ = ["Kept", "Question", "Writer", "diagnose"]

LOG = logging.getLogger("hermes_dx.workflow")

Writer = Callable[[Diagnosis, Emit], Diagnosis]


def diagnose(
    request: Request,
    emit: Emit,
    writer: Writer | None = None,
    kept: Kept | None = None,
    proposals: Proposals | None = None,
    question: Question | None = None,
    results: ResultStore | None = None,
    process: OwnProcess | None = None,
) -> Diagnosis:
    """The diagnosis of a run: stored when nothing has changed since, else made by the workflow.

    ``writer`` adds a model's words, after the answer from templates was emitted; only that answer is stored.
    ``proposals``: a model may add hypotheses to what is unexplained, after that answer too; they are tested like all
    others. ``kept``: keep each step, and go on after the last one that an earlier call finished. ``question``: a person
    may be asked for one source that would decide between hypotheses. The diagnosis without it is given at once and
    ``SourceWanted`` emitted after it; the next call with the same question and its answer goes on, or begins again
    where the files have changed since. An answer that adds nothing leaves the question open, with ``refused`` set.
    ``results`` takes what the tools gave, under the handles that are reported. ``process``: make the diagnosis there,
    so that the threads of this process go on undisturbed.
    Raises ``InputError`` when a source cannot be read or holds no training run, ``NotComparableError`` when the
    baseline cannot be compared with the run.
    """
    begun = time.perf_counter()
    try:
        made, cached = _made_or_stored(request, emit, Way(kept, question, results, process))
    except BaseException:
        if question is not None:
            question.answer = None  # of this call alone
        raise
    diagnosis = made.diagnosis
    emit(DiagnosisReady(diagnosis, time.perf_counter() - begun, cached))
    if question is not None and question.wanted is not None and not question.refused:
        emit(question.wanted)
    worded = diagnosis
    if proposals is not None and diagnosis.leads:
        worded = _with_proposals(diagnosis, request, made.workspace, proposals, emit)
    if writer is None and worded is diagnosis:
        return diagnosis
    worded = worded if writer is None else writer(worded, emit)
    emit(DiagnosisWorded(worded))
    return worded


def _with_proposals(
    diagnosis: Diagnosis, request: Request, made: Workspace | None, proposals: Proposals, emit: Emit
) -> Diagnosis:
    """The diagnosis with a model's hypotheses; a stored one has its run read again for it."""
    from hermes_agent.workflow.proposals import with_proposals
    from hermes_agent.workflow.workspace import Workspace

    try:
        profile = (made or Workspace(request)).profile()
        return with_proposals(diagnosis, profile, proposals(diagnosis, emit), emit)
    except HermesError as error:  # the run is gone since it was diagnosed: its diagnosis holds as it is
        emit(Notice(printable(f"No further hypotheses: {error}", LONGEST_REASON)))
        return diagnosis


def _made_or_stored(request: Request, emit: Emit, way: Way) -> tuple[Made, bool]:
    """The diagnosis from templates, and whether it was stored before."""
    if request.cache_dir is None:
        made = _made(request, emit, way, "")
        _finish(way, made.request, emit)
        return made, False
    with suppress(OSError):  # said when the diagnosis cannot be stored
        private_folder(request.cache_dir)
    remove_leftovers(request.cache_dir)
    name = stored.key(request)
    if way.question is not None:
        way.question.about(name)
    waits = _waits(way)
    found = None if request.summaries or waits else stored.find(request.cache_dir, name)  # what is missing is made
    if found is not None and not found.recall_note.startswith(NOT_LOOKED_UP):  # the case library may work now
        stored.remember(request.cache_dir, name, request)
        _finish(way, request, emit)
        if way.question is not None and found.source_wanted is not None:
            way.question.wanted, way.question.key = source_wanted(found.source_wanted), name
        return Made(found, request, transient=False), True
    made = _made(request, emit, way, name)
    _store(made, request, name, emit)
    _finish(way, made.request, emit)
    return made, False


def _made(request: Request, emit: Emit, way: Way, key: str) -> Made:
    """Make the diagnosis in the process that was given for it, else in this one."""
    if way.process is not None:
        try:
            return way.process.made(request, emit, way, key)
        except LostProcessError:
            LOG.warning("no process could be started to diagnose in", exc_info=True)
    return made_here(request, emit, way, key)


def _store(made: Made, request: Request, name: str, emit: Emit) -> None:
    """Store a diagnosis for later calls, or say why not."""
    assert request.cache_dir is not None
    if made.transient:
        emit(NotStored("A trace that was left out may be read the next time, so this answer was not stored."))
        return
    if made.request != request:  # a person has attached a source
        if stored.key(request) != name:
            emit(NotStored("The files have changed while they were diagnosed, so this answer was not stored."))
            return
        name = stored.key(made.request)
    if not stored.keep(request.cache_dir, name, made.request, made.diagnosis):
        emit(NotStored(f"{request.cache_dir}: nothing can be stored there; check its permissions and the space left."))


def _waits(way: Way) -> bool:
    """Return whether a diagnosis that was kept waits for the answer of a person."""
    if way.question is None:
        return False
    if way.question.wanted is not None or way.question.answer is not None:
        return True
    with suppress(StepsNotKeptError):  # said when its steps cannot be kept
        return way.kept is not None and way.kept.waits
    return False


def _finish(way: Way, request: Request, emit: Emit) -> None:
    """Drop the steps that were kept, unless the diagnosis waits for an answer, and keep what it was made of."""
    if way.question is not None:
        way.question.request = request
    if way.kept is not None and (way.question is None or way.question.wanted is None):
        try:
            way.kept.finish(request)
        except StepsNotKeptError as error:
            emit(not_kept(error))
