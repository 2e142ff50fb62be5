"""The conversation: its messages, and the time breakdown as one stacked bar per rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget

from hermes_agent.model.diagnosis import BreakdownRow, Diagnosis
from hermes_agent.model.display import PART_TITLES
from hermes_agent.tui import sections
from hermes_agent.tui.messages import Glyphs, PlainMessage, SectionMessage, plain

PARTS = tuple(PART_TITLES)
PART_STYLES = ("$success", "$primary", "$secondary", "$warning", "$error", "$foreground 60%")
RANKS_SHOWN = 16
LABEL_CELLS = 10  # "rank 1023 "
FIGURE_CELLS = 13  # " 123456.7 ms"
LEGEND_GAP = "  "


def part_ms(row: BreakdownRow) -> tuple[float, ...]:
    """Return the parts of a row in ms, in the order of ``PARTS``."""
    return tuple(float(getattr(row, f"{part}_ms")) for part in PARTS)


def cells(values: Sequence[float], whole: float, width: int) -> tuple[int, ...]:
    """Return the cells of each value if ``whole`` fills ``width`` cells; by largest remainder, so sums agree."""
    if whole <= 0 or width <= 0:
        return (0,) * len(values)
    exact = [max(value, 0.0) * width / whole for value in values]
    spare = min(round(sum(exact)), width) - sum(map(int, exact))
    order = sorted(range(len(values)), key=lambda index: int(exact[index]) - exact[index])
    rounded_up = order[: max(spare, 0)]
    return tuple(int(each) + (index in rounded_up) for index, each in enumerate(exact))


def picture(rows: Sequence[BreakdownRow], width: int, glyphs: Glyphs) -> Content:
    """Return the bars of all ranks with a legend under them; ``rows`` hold one mean per rank."""
    shown = rows[:RANKS_SHOWN]
    longest_ms = max((row.wall_ms for row in shown), default=0.0)
    bar_cells = max(width - LABEL_CELLS - FIGURE_CELLS, 8)
    lines = []
    for row in shown:
        counts = cells(part_ms(row), longest_ms, bar_cells)
        bar = [(sign * count, style) for sign, count, style in zip(glyphs.parts, counts, PART_STYLES, strict=True)]
        rest = f"{' ' * (bar_cells - sum(counts))}{row.wall_ms:>9.1f} ms"
        lines.append(Content.assemble(f"rank {row.rank}".ljust(LABEL_CELLS), *bar, rest))
    if len(rows) > RANKS_SHOWN:
        lines.append(Content(f"and {len(rows) - RANKS_SHOWN} more ranks: /ranks"))
    return Content("\n").join([*lines, *_legend(shown, width, glyphs)])


def _legend(rows: Sequence[BreakdownRow], width: int, glyphs: Glyphs) -> list[Content]:
    """The signs of the parts that occur, wrapped between entries."""
    lines: list[Content] = []
    for index, part in enumerate(PARTS):
        if not any(part_ms(row)[index] > 0 for row in rows):
            continue
        entry = Content.assemble((glyphs.parts[index], PART_STYLES[index]), f" {PART_TITLES[part]}")
        if lines and lines[-1].cell_length + len(LEGEND_GAP) + entry.cell_length <= width:
            lines[-1] = Content.assemble(lines[-1], LEGEND_GAP, entry)
        else:
            lines.append(entry)
    return lines


class BreakdownBars(Widget):
    """The bars, drawn again for every width."""

    DEFAULT_CSS = "BreakdownBars { height: auto; width: 1fr; }"

    def __init__(self, rows: Sequence[BreakdownRow], glyphs: Glyphs) -> None:
        super().__init__()
        self._rows, self._glyphs = tuple(rows), glyphs

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Return the number of lines at a width."""
        return picture(self._rows, width, self._glyphs).plain.count("\n") + 1

    def render(self) -> Content:
        """Return the bars at the present width."""
        return picture(self._rows, self.content_size.width, self._glyphs)


class Conversation(VerticalScroll, can_focus=False):
    """All messages, oldest first."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="conversation")
        self._glyphs = glyphs
        self._follow = True

    def watch_virtual_size(self) -> None:
        """Anchor to the end only once there is more than fits: Textual puts shorter content out of place."""
        if not self.container_size.height:
            return
        if self.max_scroll_y == 0:
            self.anchor(False)
            self.scroll_to(y=0, animate=False, force=True)
        elif self._follow and not self.is_anchored:
            self.anchor()

    def follow(self, wanted: bool = True) -> None:
        """Keep the end in view from now on, or stay here."""
        self._follow = wanted
        self.anchor(wanted and self.max_scroll_y > 0)

    def ask(self, text: str) -> None:
        """Show a line that the person typed."""
        self.mount(PlainMessage([plain(text)], "question"))
        self.follow()

    def say(self, *lines: str | Content, kind: str = "hint") -> None:
        """Show a few lines: a hint, the answer of a command, an error."""
        self.mount(PlainMessage(lines, kind))

    def show_sections(self, chosen: Iterable[sections.Section]) -> None:
        """Show parts of a diagnosis."""
        self.mount_all([SectionMessage(section) for section in chosen])

    def show_diagnosis(self, diagnosis: Diagnosis) -> None:
        """Show the whole diagnosis, the answer first, and keep its beginning in view."""
        means = [row for row in diagnosis.breakdown if row.step is None]
        first = SectionMessage(sections.headline(diagnosis))
        title = sections.Section("Time per step, mean over steps", ())
        bars = SectionMessage(title, BreakdownBars(means, self._glyphs))
        rest = [SectionMessage(section) for view in sections.DETAILS for section in view(diagnosis)]
        self.mount_all([first, bars, *rest])
        self.follow(False)
        self.call_after_refresh(self.scroll_to_widget, first, animate=False, top=True)
