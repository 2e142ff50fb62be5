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


class Comparisons:
    """The jobs that need two runs."""

    def __init__(self, app: HermesChat, controller: Controller) -> None:
        self._app, self._controller = app, controller

    def compare(self, before: str, after: str) -> None:
        """Show what changed from one open run to another."""
        first, second = self._controller.runs.named(before), self._controller.runs.named(after)
        if first is second:
            raise UsageError("/compare needs two different runs; /open PATH opens another, /runs lists them.")

        def act(emit: Emit, cancelled: Cancelled) -> sections.Section:
            from hermes_agent.run_comparison import compared

            runs = (each.session.profile(emit, cancelled) for each in (first, second))
            record = compared(*runs)
            lines = (record.headline, *(f"- {change}" for change in record.changes), *record.notes)
            return sections.Section(f"From @{first.name} to @{second.name}", lines)

        command = f"/compare @{first.name} @{second.name}"
        self._controller.add(Job("comparing", act, lambda section: self._show(command, section, about="")))

    def confirm(self, advice: str, after: str, opener: Callable[[], ChatSession] | None) -> None:
        """Hold what following an advice brought against its prediction; ``after`` is an open run, or is opened."""
        run = self._controller.runs.current
        other = None if opener else self._controller.runs.named(after).session

        def act(emit: Emit, cancelled: Cancelled) -> tuple[str, ...]:
            from hermes_agent.confirm import RunOf, confirm

            later = other or (opener or self._app.openings.demo)()
            try:
                before, behind = (
                    RunOf(each.diagnose(emit, cancelled), each.profile(emit, cancelled), each.request.paths[0])
                    for each in (run.session, later)
                )
                found = confirm(before, behind, advice)
                draft = self._app.openings.draft
                return (*found.sentences, *(draft(found, before) if draft else ()))
            finally:
                if other is None:
                    later.close()

        def done(lines: tuple[str, ...]) -> None:
            section = sections.Section(f"{advice} put to the test", lines)
            self._show(f"/confirm {advice} {after}", section, about=run.name)

        self._controller.add(Job(f"confirming {advice}", act, done))

    def _show(self, command: str, section: sections.Section, about: str) -> None:
        self._app.conversation.show_sections((section,), about)
        self._controller.kept.entries.append(Compared(command, section.title, section.paragraphs))
