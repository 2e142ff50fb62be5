"""The fixed parts around the conversation: side panel and status line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from hermes_agent.llm.sanitize import clean, one_line
from hermes_agent.model import events
from hermes_agent.model.display import cause_heading, cause_title, family_title, plain, rank_list
from hermes_agent.model.events import CauseRanked, Event, Stage
from hermes_agent.tui.answer_tables import wrapped
from hermes_agent.tui.messages import UNICODE, Glyphs
from hermes_agent.tui.messages import plain as outside

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import CauseRecord, HypothesisRecord

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
HYPOTHESIS_STYLES = {
    "open": "$text-accent bold",
    "supported": "$text-warning bold",
    "refuted": "$text-success",
    "untestable": MUTED,
}
BATCH_S = 0.15  # between two drawings of the panel, each of which takes some 20 ms
INDENT = "  "
FINDINGS_CELLS = 36  # of the panel's 40 in chat.tcss, without its border, padding and scroll bar
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
    hypotheses: tuple[HypothesisRecord, ...] = ()
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
        case events.HypothesisJudged(record):
            others = {each.id: each for each in progress.hypotheses}
            return replace(progress, hypotheses=tuple({**others, record.id: record}.values()))
        case events.DiagnosisReady(diagnosis, _, cached):
            reported = {each.name for each in progress.checks}  # after a kill or an attached source not all of them
            rest = (each for each in diagnosis.checks if each.analyzer not in reported)
            checks = (*progress.checks, *(CheckLine(Stage.FAMILIES, each.analyzer, each.status) for each in rest))
            causes = tuple(_ranked(place, each) for place, each in enumerate(diagnosis.causes, start=1))
            found = tuple(diagnosis.hypotheses) or progress.hypotheses
            return Progress(None, "", frozenset(STAGES), checks, causes, found, stored=cached, over=True)
        case _:
            return progress


def _ranked(place: int, cause: CauseRecord) -> CauseRanked:
    figures = cause.impact_ms_per_step, cause.impact_pct, cause.confidence
    return CauseRanked(place, cause.cause, cause.mechanism, cause.family, *figures, tuple(cause.ranks), cause.at_most)


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
            lines.append(Content(f"  {family_title(family)}").stylize(MUTED))
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
        facts = f"   {'at most ' if cause.at_most else ''}{cause.impact_ms:.1f} ms, {cause.impact_pct:.1f} %"
        title = cause_heading(cause.cause, cause.mechanism)
        family = f"\n   {family_title(cause.family)}{where}"
        lines.append(Content.assemble(f"{place}. {title}\n", (facts, "$text-warning"), (family, MUTED)))
    if not progress.causes:
        lines.append(Content("none found" if progress.over else "not ranked yet").stylize(MUTED))
    return Content("\n").join(lines)


def considered(progress: Progress, glyphs: Glyphs) -> Content:
    """Return the hypotheses with their status; nothing where there is none."""
    if not progress.hypotheses:
        return Content()
    lines = [Content("Hypotheses").stylize("bold")]
    for each in progress.hypotheses:
        where = f", {rank_list(each.ranks)}" if each.ranks else ""
        sign = {"supported": glyphs.found, "refuted": glyphs.refuted}.get(each.status, glyphs.cannot_answer)
        text = f" {cause_title(each.cause, each.mechanism)}{where}"
        style = HYPOTHESIS_STYLES[each.status]
        line = Content.assemble((f"{sign} {each.id} {each.status}", style), outside(text))
        lines += _hanging(line)
    return Content("\n").join(lines)


def _hanging(line: Content) -> list[Content]:
    """The lines of a text at the width of the panel, all but the first indented."""
    first, *rest = wrapped(line, FINDINGS_CELLS - len(INDENT))
    return [first, *(Content.assemble(INDENT, each) for each in rest)]


class SidePanel(Vertical):
    """The stages with their checks, the hypotheses and the ranked causes."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="side")
        self._glyphs = glyphs
        self._hierarchy = Static(id="hierarchy")
        self._stages = VerticalScroll(self._hierarchy, id="stages", can_focus=False)
        self._causes = Static(id="ranked")
        self._hypotheses = Static(id="considered")
        self._findings = VerticalScroll(self._causes, self._hypotheses, id="findings", can_focus=False)
        self._progress = Progress()
        self._waits = False  # something new is drawn soon

    def compose(self) -> ComposeResult:
        """Draw the two parts, each scrolling."""
        yield self._stages
        yield self._findings

    def draw(self, progress: Progress) -> None:
        """Show the progress of the diagnosis; checks that end shortly after each other are drawn at once."""
        self._progress = progress
        if not self.is_mounted:
            self._draw()
        elif not self._waits:
            self._waits = True
            self.set_timer(BATCH_S, self._draw)

    def _draw(self) -> None:
        self._waits, progress = False, self._progress
        self._hierarchy.update(hierarchy(progress, self._glyphs))
        self._causes.update(ranked(progress))
        self._hypotheses.update(considered(progress, self._glyphs))
        self._hypotheses.display = bool(progress.hypotheses)
        follow = self._stages.scroll_home if progress.over else self._stages.scroll_end
        follow(animate=False)

    def scroll_findings(self, pages: int) -> None:
        """Scroll causes and hypotheses by a page."""
        scroll = self._findings.scroll_page_up if pages < 0 else self._findings.scroll_page_down
        scroll(animate=False)


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
