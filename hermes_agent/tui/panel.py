"""The fixed parts around the conversation: side panel, input line and status line."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.suggester import SuggestFromList
from textual.widget import Widget
from textual.widgets import Input, Static

from hermes_agent.llm.sanitize import clean, one_line
from hermes_agent.model import events
from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.model.display import FAMILY_TITLES, cause_heading, plain, rank_list
from hermes_agent.model.events import CauseRanked, Event, Stage
from hermes_agent.tui.messages import UNICODE, Glyphs
from hermes_agent.tui.messages import plain as outside

STAGES = tuple(Stage)
STAGE_TITLES = {
    Stage.LOAD: "load the run",
    Stage.COARSE: "step times",
    Stage.INTER_OPERATOR: "critical path",
    Stage.FAMILIES: "families of causes",
    Stage.EXPLAIN: "explain and rank",
    Stage.RECALL: "similar cases",
    Stage.PREDICT: "predict",
    Stage.WRITE: "write and cite",
}
MUTED = "$foreground 60%"  # the theme's own muted text has no colour until it is drawn on a widget
STATUS_STYLES = {"found": "$text-warning bold", "clean": "$text-success", "cannot_answer": MUTED}
STATE_STYLES = {"done": "$text-success", "running": "$text-accent bold", "waiting": MUTED}


@dataclass(frozen=True)
class CheckLine:
    """One check and its outcome."""

    stage: Stage
    name: str  # "io.data_loader"
    status: Literal["found", "clean", "cannot_answer"]

    @property
    def family(self) -> str:
        """The part of the name before the point."""
        return clean(self.name.partition(".")[0])


@dataclass(frozen=True)
class Progress:
    """The state of a diagnosis, advanced by each event; ``stored`` marks one from the cache."""

    running: Stage | None = None
    detail: str = ""
    finished: frozenset[Stage] = frozenset()
    checks: tuple[CheckLine, ...] = ()
    causes: tuple[CauseRanked, ...] = ()
    stored: bool = False
    over: bool = False

    def state(self, stage: Stage) -> Literal["waiting", "running", "done"]:
        """Return the state of a stage."""
        return "running" if self.running is stage else "done" if stage in self.finished else "waiting"


def advance(progress: Progress, event: Event) -> Progress:
    """Return the progress after one more event."""
    match event:
        case events.StageStarted(stage):
            return replace(progress, running=stage, detail="")
        case events.StageProgress(stage, done, total, detail):
            counted = f"{done}/{total} {detail}" if total else detail
            return replace(progress, running=stage, detail=counted.strip())
        case events.StageFinished(stage):
            return replace(progress, running=None, detail="", finished=progress.finished | {stage})
        case events.CheckFinished(check=name, status=status):
            # checks of the families may be reported before their stage starts
            stage = progress.running or next((each for each in STAGES if each not in progress.finished), STAGES[-1])
            return replace(progress, running=stage, checks=(*progress.checks, CheckLine(stage, name, status)))
        case CauseRanked():
            return replace(progress, causes=(*progress.causes, event))
        case events.DiagnosisReady(diagnosis, _, cached):
            checks = tuple(CheckLine(Stage.FAMILIES, each.analyzer, each.status) for each in diagnosis.checks)
            causes = tuple(_ranked(place, each) for place, each in enumerate(diagnosis.causes, start=1))
            finished = progress.finished or frozenset(STAGES)
            return Progress(None, "", finished, progress.checks or checks, causes, stored=cached, over=True)
        case _:
            return progress


def _ranked(place: int, cause: CauseRecord) -> CauseRanked:
    figures = cause.impact_ms_per_step, cause.impact_pct, cause.confidence
    return CauseRanked(place, cause.cause, cause.mechanism, cause.family, *figures, tuple(cause.ranks))


def hierarchy(progress: Progress, glyphs: Glyphs) -> Content:
    """Return every stage with its state and its checks with their outcomes."""
    lines = [Content("Hierarchy (from the cache)" if progress.stored else "Hierarchy").stylize("bold")]
    signs = {"done": glyphs.done, "running": glyphs.running, "waiting": glyphs.waiting}
    for stage in STAGES:
        state = progress.state(stage)
        lines.append(Content(f"{signs[state]} {STAGE_TITLES[stage]}").stylize(STATE_STYLES[state]))
        if state == "running" and progress.detail:
            lines.append(Content.assemble("  ", outside(progress.detail).stylize(MUTED)))
        checks = sorted((check for check in progress.checks if check.stage is stage), key=lambda each: each.family)
        for family, members in groupby(checks, key=lambda each: each.family):
            lines.append(Content(f"  {FAMILY_TITLES.get(family, plain(family))}").stylize(MUTED))
            for each in members:
                name = clean(plain(each.name.partition(".")[2] or each.name))
                lines.append(Content.assemble("  ", (glyphs.mark(each.status), STATUS_STYLES[each.status]), f" {name}"))
    signs_of = ((glyphs.mark(status), style, plain(status)) for status, style in STATUS_STYLES.items())
    key = [Content.assemble((sign, style), f" {words}").stylize_before(MUTED) for sign, style, words in signs_of]
    return Content("\n").join([*lines, Content("  ").join(key)])


def ranked(progress: Progress) -> Content:
    """Return the causes, largest saving first."""
    lines = [Content("Causes").stylize("bold")]
    for place, cause in enumerate(progress.causes, start=1):
        where = f", {rank_list(cause.ranks)}" if cause.ranks else ""
        facts = f"   {cause.impact_ms:.1f} ms, {cause.impact_pct:.1f} %{where}"
        title = cause_heading(cause.cause, cause.mechanism)
        lines.append(Content.assemble(f"{place}. {title}\n", (facts, "$text-warning")))
    if not progress.causes:
        lines.append(Content("none found" if progress.over else "not ranked yet").stylize(MUTED))
    return Content("\n").join(lines)


class SidePanel(Vertical):
    """The stages with their checks, and the ranked causes."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="side")
        self._glyphs = glyphs
        self._hierarchy = Static(id="hierarchy")
        self._stages = VerticalScroll(self._hierarchy, id="stages", can_focus=False)
        self._causes = Static(id="ranked")

    def compose(self) -> ComposeResult:
        """Draw the two parts, the upper one scrolling."""
        yield self._stages
        yield self._causes

    def draw(self, progress: Progress) -> None:
        """Show the progress of the diagnosis."""
        self._hierarchy.update(hierarchy(progress, self._glyphs))
        self._causes.update(ranked(progress))
        follow = self._stages.scroll_home if progress.over else self._stages.scroll_end
        follow(animate=False)


TITLE_LIMIT = 40


class StatusLine(Widget):
    """Run, verdict, model and elapsed time, or the running work; ``hint`` replaces it for a moment."""

    run_title: reactive[str] = reactive("")
    verdict: reactive[str] = reactive("")
    model: reactive[str] = reactive("")
    doing: reactive[str] = reactive("")  # empty when nothing runs
    hint: reactive[str] = reactive("")
    elapsed_s: reactive[float | None] = reactive(None)

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="status")
        self._glyphs = glyphs

    def render(self) -> Content:
        """Return the line at the present width."""
        return self.line(self.size.width)

    def line(self, width: int) -> Content:
        """Return one line of at most ``width`` cells; the running work is never cut off by the run's name."""
        clock = "" if self.elapsed_s is None else f"{self.elapsed_s:.1f} s"
        doing = f"{self._glyphs.running} {one_line(self.doing, 200)} {clock}, Esc stops" if self.doing else ""
        now = self.hint or doing or "/help"
        run = one_line(self.run_title, TITLE_LIMIT) or "no run"
        model = one_line(self.model, TITLE_LIMIT) or "no model"
        left = f" {self._glyphs.dot} ".join(filter(None, (run, self.verdict, model, "" if doing else clock)))
        room = width - len(now) - 3
        first = Content(left).truncate(room, ellipsis=True) if room > 0 else Content()
        gap = max(width - first.cell_length - Content(now).cell_length - 2, 1)
        style = "" if now == "/help" else "bold"
        return Content.assemble(" ", first, " " * gap, (now, style), " ").truncate(width)


LONGEST = 4000  # characters; a longer paste is cut
REMEMBERED = 200  # lines


class Prompt(Input):
    """Up and Down walk through the typed lines; Tab completes a command, elsewhere it leaves the input."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "walk(-1)", "earlier", show=False),
        Binding("down", "walk(1)", "later", show=False),
        Binding("tab", "complete", "complete", show=False),
    ]

    @dataclass
    class Ambiguous(Message):
        """Several completions are possible, or none."""

        lines: Sequence[str]

    def __init__(self, words: Sequence[str], candidates: Callable[[str], Sequence[str]]) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            placeholder="Ask about the run, or / for commands",
            suggester=SuggestFromList(words),
            max_length=LONGEST,
            select_on_focus=False,
        )
        self._candidates = candidates
        self._history: list[str] = []
        self._at, self._draft = 0, ""

    def remember(self, text: str) -> None:
        """Add a line to the history; repeating the last one adds nothing."""
        if self._history[-1:] != [text]:
            self._history = [*self._history, text][-REMEMBERED:]
        self._at, self._draft = len(self._history), ""

    def fill(self, text: str) -> None:
        """Replace the text, to be completed by the person."""
        self.value = text
        self.cursor_position = len(text)
        self.focus()

    def go_on(self, character: str) -> None:
        """Take a character that was typed elsewhere, and all that follow."""
        self.focus()
        self.insert_text_at_cursor(character)

    def action_walk(self, step: int) -> None:
        """Show an earlier or later typed line, and after the last one the unfinished one."""
        if self._at == len(self._history):
            self._draft = self.value
        self._at = min(max(self._at + step, 0), len(self._history))
        self.fill([*self._history, self._draft][self._at])

    def action_complete(self) -> None:
        """Complete a command as far as the candidates agree; any other text moves on to the next widget."""
        if not self.value.startswith("/"):
            self.screen.focus_next()
            return
        lines = self._candidates(self.value)
        shared = os.path.commonprefix(lines)  # noqa: RUF071 - characters are meant
        if len(shared) > len(self.value):
            self.fill(shared)
        elif lines != [self.value]:
            self.post_message(self.Ambiguous(lines))
