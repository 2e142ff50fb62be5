"""The status line: run, verdict, model and elapsed time, or the running work."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from hermes_agent.llm.sanitize import one_line
from hermes_agent.tui.glyphs import UNICODE, Glyphs

TITLE_LIMIT = 40


@dataclass(frozen=True)
class Status:
    """The content of the line. ``doing`` is empty when nothing runs; ``hint`` replaces it for a moment."""

    run: str = ""
    verdict: str = ""
    model: str | None = None
    doing: str = ""
    elapsed_s: float | None = None
    hint: str = ""


def status_line(status: Status, width: int, glyphs: Glyphs) -> Content:
    """Return one line of at most ``width`` cells; the running work is never cut off by the run's name."""
    clock = "" if status.elapsed_s is None else f"{status.elapsed_s:.1f} s"
    now = status.hint or (f"{glyphs.running} {one_line(status.doing, 200)} {clock}, Esc stops" if status.doing else "")
    parts = [
        one_line(status.run, TITLE_LIMIT) or "no run",
        status.verdict,
        one_line(status.model, TITLE_LIMIT) if status.model else "no model",
        "" if status.doing else clock,
    ]
    left = f" {glyphs.dot} ".join(part for part in parts if part)
    style = "bold" if now else ""
    now = now or "/help"
    room = width - len(now) - 3
    first = Content(left).truncate(max(room, 0), ellipsis=True) if room > 0 else Content()
    gap = max(width - first.cell_length - Content(now).cell_length - 2, 1)
    return Content.assemble(" ", first, " " * gap, (now, style), " ").truncate(width)


class StatusLine(Widget):
    """Draws the status."""

    status: reactive[Status] = reactive(Status())

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="status")
        self._glyphs = glyphs

    def render(self) -> Content:
        """Return the line at the present width."""
        return status_line(self.status, self.size.width, self._glyphs)
