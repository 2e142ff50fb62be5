"""Runs held against each other: what changed between two, and what following an advice brought."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hermes_agent.tui import sections
from hermes_agent.tui.history import Compared
from hermes_agent.tui.work import Cancelled, ChatSession, Job
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.events import Emit
    from hermes_agent.tui.app import HermesChat
    from hermes_agent.tui.controller import Controller
    from hermes_agent.tui.runs import OpenRun


class Comparisons:
    """The jobs that need two runs."""

    def __init__(self, app: HermesChat, controller: Controller) -> None:
        self._app, self._controller = app, controller

    def compare(self, before: str, after: str) -> None:
        """Show what changed from one open run to another."""
        first, second = self._controller.runs.named(before), self._controller.runs.named(after)
        if first is second:
            raise UsageError("/compare needs two different runs; /open PATH opens another, /runs lists them.")

        run, command = self._controller.runs.current, f"/compare @{first.name} @{second.name}"

        def act(emit: Emit, cancelled: Cancelled) -> Compared:
            from hermes_agent.run_comparison import compared

            runs = (each.session.profile(emit, cancelled) for each in (first, second))
            record = compared(*runs)
            lines = (record.headline, *(f"- {change}" for change in record.changes), *record.notes)
            return self._kept(run, Compared(command, f"From @{first.name} to @{second.name}", lines))

        self._controller.add(Job("comparing", act, lambda found: self._show(found, about="")))

    def confirm(self, advice: str, after: str, opener: Callable[[], ChatSession] | None) -> None:
        """Hold what following an advice brought against its prediction; ``after`` is an open run, or is opened."""
        run = self._controller.runs.current
        other = None if opener else self._controller.runs.named(after).session

        def act(emit: Emit, cancelled: Cancelled) -> Compared:
            from hermes_agent.confirm import RunOf, confirm

            later = other or (opener or self._app.openings.demo)()
            try:
                before, behind = (
                    RunOf(each.diagnose(emit, cancelled), each.profile(emit, cancelled), each.request.paths[0])
                    for each in (run.session, later)
                )
                found = confirm(before, behind, advice)
                draft = self._app.openings.draft
                lines = (*found.sentences, *(draft(found, before) if draft else ()))
                return self._kept(run, Compared(f"/confirm {advice} {after}", f"{advice} put to the test", lines))
            finally:
                if other is None:
                    later.close()

        self._controller.add(Job(f"confirming {advice}", act, lambda found: self._show(found, about=run.name)))

    def _kept(self, run: OpenRun, found: Compared) -> Compared:
        """Keep what was found with the session of the run in front; called by jobs."""
        self._controller.kept.memory.add(run.kept, run.session, found.as_turn())
        return found

    def _show(self, found: Compared, about: str) -> None:
        self._app.conversation.show_sections((sections.Section(found.title, found.lines),), about)
        self._controller.kept.entries.append(found)
