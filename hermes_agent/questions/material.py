"""What answers may measure on: the run read again, its baseline and the case library, each only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from hermes_agent.model.events import Emit, Event, Notice, Stage, StageProgress
from hermes_agent.model.request import Request
from tools.errors import ExitCode, HermesError

if TYPE_CHECKING:
    from case_library.retrieval.recall import CaseIndex
    from hermes_agent.workflow.workspace import Workspace
    from tools.views.profile import Profile


class Cancelled(HermesError):
    """The person who asked no longer wants the answer."""

    exit_code = ExitCode.INTERRUPTED


class Material(Protocol):
    """A run that can be measured, and cases that can be searched."""

    def profile(self) -> Profile:
        """The run; raises InputError when it can no longer be read."""

    def baseline(self) -> Profile | None:
        """The run it is compared with, if there is one."""

    def cases(self) -> CaseIndex:
        """The case library."""


def ignore(_: Event) -> None:
    """Hears nothing."""


def never() -> bool:
    """Nobody cancels."""
    return False


class RunMaterial:
    """The material of a request, read through the columnar cache at the first question that needs it."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._emit: Emit = ignore
        self._cancelled: Callable[[], bool] = never
        self._read = False

    def listen(self, emit: Emit, cancelled: Callable[[], bool]) -> None:
        """From now on says what it does to ``emit``, and stops with ``Cancelled`` where ``cancelled`` holds."""
        self._emit, self._cancelled = emit, cancelled

    def profile(self) -> Profile:
        """The run."""
        self._pause()
        if not self._read:
            self._emit(Notice("Reading the run again to measure what was asked."))
        try:
            profile = self._workspace.profile()
            self._read = True
        finally:
            if not self._read:  # a reading that was stopped or failed is begun anew by the next question
                self.__dict__.pop("_workspace", None)
        self._pause()
        return profile

    def baseline(self) -> Profile | None:
        """The baseline."""
        self.profile()
        return self._workspace.baseline()

    def cases(self) -> CaseIndex:
        """The case library."""
        self._pause()
        return self._index

    def close(self) -> None:
        """Gives the case library's private copy back."""
        if "_index" in self.__dict__:
            self._index.close()
            del self.__dict__["_index"]

    @cached_property
    def _workspace(self) -> Workspace:
        from hermes_agent.workflow.workspace import Workspace

        return Workspace(self._request, self._progress)

    @cached_property
    def _index(self) -> CaseIndex:
        from case_library.retrieval.recall import CaseIndex

        asked = self._request
        return CaseIndex.open(cache_dir=asked.cache_dir, private_folder=asked.private_cases, embedding=asked.embedding)

    def _progress(self, stage: str, done: int, total: int, detail: str) -> None:
        self._emit(StageProgress(Stage.LOAD, done, total, f"{stage} {detail}".strip()))

    def _pause(self) -> None:
        if self._cancelled():
            raise Cancelled("The question was cancelled.")
