"""The material of answers: the run read again, its baseline and the case library, each only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_agent.llm.model import Cancelled
from hermes_agent.model.events import Emit, Event, Notice, ignore
from hermes_agent.model.request import Request

if TYPE_CHECKING:
    from case_library.retrieval.recall import CaseIndex
    from hermes_agent.workflow.workspace import Workspace
    from tools.views.profile import Profile


def never() -> bool:
    """A question that is never cancelled."""
    return False


class Material:
    """The material of a request, read through the columnar cache at the first question that needs it."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._workspace: Workspace | None = None
        self.listen(ignore, never)

    def listen(self, emit: Emit, cancelled: Callable[[], bool]) -> None:
        """Report progress to ``emit`` from now on, and stop with ``Cancelled`` where ``cancelled`` holds."""
        self._emit, self._cancelled = emit, cancelled

    def report(self, event: Event) -> None:
        """Pass an event to the listener of the question."""
        self._emit(event)

    def profile(self) -> Profile:
        """The run."""
        workspace = self._opened()
        if not workspace.loaded:
            self._emit(Notice("Reading the run again to measure what was asked."))
        profile = workspace.profile()
        self._pause()
        return profile

    def baseline(self) -> Profile | None:
        """The baseline."""
        self.profile()
        return self._opened().baseline()

    def cases(self) -> CaseIndex:
        """The case library."""
        return self._opened().case_index()

    def close(self) -> None:
        """Close the case library's private copy."""
        if self._workspace is not None:
            self._workspace.close()

    def _opened(self) -> Workspace:
        from hermes_agent.workflow.workspace import Workspace

        self._pause()
        self._workspace = self._workspace or Workspace(self._request, lambda event: self._emit(event))
        return self._workspace

    def _pause(self) -> None:
        if self._cancelled():
            raise Cancelled("The question was cancelled.")
