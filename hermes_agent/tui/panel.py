"""The side panel: the hierarchy as it is worked through, and the ranked causes under it."""

from __future__ import annotations

from itertools import groupby

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from hermes_agent.llm.sanitize import clean
from hermes_agent.model.display import FAMILY_TITLES, cause_title, plain, rank_list
from hermes_agent.model.events import Stage
from hermes_agent.tui.glyphs import Glyphs
from hermes_agent.tui.progress import STAGES, CauseLine, CheckLine, Progress
from hermes_agent.tui.prose import plain as outside

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


def hierarchy(progress: Progress, glyphs: Glyphs) -> Content:
    """Every stage with its state, and under it its checks with what they came to."""
    lines = [Content("Hierarchy (stored before)" if progress.stored else "Hierarchy").stylize("bold")]
    for stage in STAGES:
        state = progress.state(stage)
        sign = {"done": glyphs.done, "running": glyphs.running, "waiting": glyphs.waiting}[state]
        lines.append(Content.assemble((f"{sign} ", STATE_STYLES[state]), (STAGE_TITLES[stage], STATE_STYLES[state])))
        if state == "running" and progress.detail:
            lines.append(Content.assemble("  ", outside(progress.detail).stylize(MUTED)))
        lines += _checks([check for check in progress.checks if check.stage is stage], glyphs)
    lines.append(_key(glyphs))
    return Content("\n").join(lines)


def _checks(checks: list[CheckLine], glyphs: Glyphs) -> list[Content]:
    lines: list[Content] = []
    for family, members in groupby(sorted(checks, key=_family), key=_family):
        lines.append(Content(f"  {FAMILY_TITLES.get(family, plain(family))}").stylize(MUTED))
        lines += [
            Content.assemble("  ", (glyphs.mark(each.status), STATUS_STYLES[each.status]), f" {_question(each)}")
            for each in members
        ]
    return lines


def _family(check: CheckLine) -> str:
    return clean(check.name.partition(".")[0])


def _question(check: CheckLine) -> str:
    return clean(plain(check.name.partition(".")[2] or check.name))


def _key(glyphs: Glyphs) -> Content:
    entries = (("found", "found"), ("clean", "clean"), ("cannot_answer", "cannot answer"))
    pieces = [
        Content.assemble((glyphs.mark(status), STATUS_STYLES[status]), f" {words}").stylize_before(MUTED)
        for status, words in entries
    ]
    return Content("  ").join(pieces)


def ranked(progress: Progress) -> Content:
    """The causes by what removing them would save."""
    lines = [Content("Causes").stylize("bold")]
    lines += [_cause(place, cause) for place, cause in enumerate(progress.causes, start=1)]
    if not progress.causes:
        lines.append(Content("none found" if progress.over else "not ranked yet").stylize(MUTED))
    return Content("\n").join(lines)


def _cause(place: int, cause: CauseLine) -> Content:
    where = f", {rank_list(cause.ranks)}" if cause.ranks else ""
    facts = f"   {cause.impact_ms:.1f} ms, {cause.impact_pct:.1f} %{where}"
    return Content.assemble(f"{place}. {cause_title(cause.cause, cause.mechanism)}\n", (facts, "$text-warning"))


class SidePanel(Vertical):
    """Draws the progress it was last given."""

    def __init__(self, glyphs: Glyphs) -> None:
        super().__init__(id="side")
        self._glyphs = glyphs
        self._hierarchy = Static(id="hierarchy")
        self._stages = VerticalScroll(self._hierarchy, id="stages", can_focus=False)
        self._causes = Static(id="ranked")

    def compose(self) -> ComposeResult:
        """The two parts, the upper one scrolling."""
        yield self._stages
        yield self._causes

    def draw(self, progress: Progress) -> None:
        """Shows how far the diagnosis has come."""
        self._hierarchy.update(hierarchy(progress, self._glyphs))
        self._causes.update(ranked(progress))
        follow = self._stages.scroll_home if progress.over else self._stages.scroll_end
        follow(animate=False)
