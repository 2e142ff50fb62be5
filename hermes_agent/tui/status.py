"""The status line: run, verdict, model and elapsed time, or what is going on now."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from hermes_agent.llm.sanitize import one_line
from hermes_agent.tui.glyphs import UNICODE, Glyphs

TITLE_LIMIT = 40


@dataclass(frozen=True)
class Status:
    """What the line says. ``doing`` is empty when nothing runs; ``hint`` replaces it for a moment."""

    run: str = ""
    verdict: str = ""
    model: str | None = None
    doing: str = ""
    elapsed_s: float | None = None
    hint: str = ""


class Changes(TypedDict, total=False):
    """What may change in the status."""

    run: str
    verdict: str
    model: str | None
    doing: str
    elapsed_s: float | None
    hint: str


def status_line(status: Status, width: int, glyphs: Glyphs) -> Content:
    """One line of at most ``width`` cells; what goes on now is never cut off by the run's name."""
    clock = "" if status.elapsed_s is None else f"{status.elapsed_s:.1f} s"
    now = status.hint or (f"{glyphs.running} {one_line(status.doing, 200)} {clock}, Esc stops" if status.doing else "")
    parts = [
        one_line(status.run, TITLE_LIMIT) or "no run",
        status.verdict,
        one_line(status.model, TITLE_LIMIT) if status.model else "no model",
        "" if status.doing else clock,
    ]
    left = f" {glyphs.dot} ".join(part for part in parts if part)
    if not now:
        now = "/help"
    room = width - len(now) - 3
    first = Content(left).truncate(max(room, 0), ellipsis=True) if room > 0 else Content()
    gap = max(width - first.cell_length - Content(now).cell_length - 2, 1)
    return Content.assemble(" ", first, " " * gap, (now, "bold" if status.doing or status.hint else ""), " ").truncate(
        width
    )


class StatusLine(Widget):
    """Draws the status."""

    status: reactive[Status] = reactive(Status())

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="status")
        self._glyphs = glyphs

    def render(self) -> Content:
        """The line at the present width."""
        return status_line(self.status, self.size.width, self._glyphs)

    def tell(self, **changes: Unpack[Changes]) -> None:
        """Shows the status with something changed."""
        self.status = replace(self.status, **changes)
