"""The pictures of the chat by name: what each shows, from what, and the words that ask for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from textual.content import Content

from hermes_agent.evidence.citations import written
from hermes_agent.model.display import family_title
from hermes_agent.report.pictures import data
from hermes_agent.tui.messages import Glyphs
from hermes_agent.tui.pictures import draw
from tools.errors import UsageError
from tools.knowledge.thresholds import Thresholds

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.events import Emit
    from hermes_agent.tui.work import Cancelled
    from tools.agent_tools.result import Result
    from tools.views.profile import Profile


class Measured(Protocol):
    """The part of a session that pictures are drawn from."""

    def call(self, name: str, arguments: dict[str, object], emit: Emit, cancelled: Cancelled) -> Result:
        """Return the result of a tool."""

    def profile(self, emit: Emit, cancelled: Cancelled) -> Profile:
        """Return the run."""


@dataclass(frozen=True)
class Source:
    """What a picture may read: the diagnosis at hand, and the run through its tools, which may take long."""

    diagnosis: Diagnosis
    session: Measured
    emit: Emit
    cancelled: Cancelled
    thresholds: Thresholds


@dataclass(frozen=True)
class Drawn:
    """A picture ready to be drawn at any width, and what it says in words."""

    title: str
    draw: Callable[[int, Glyphs], Content]
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    """One picture; ``argument`` as in the help, ``asked`` matches questions that want to see it."""

    name: str
    argument: str
    help: str
    make: Callable[[Source, str], Drawn]
    asked: re.Pattern[str]
    words: tuple[str, ...] = ()


def _series(source: Source, argument: str) -> Drawn:
    limit_pct = source.thresholds["fluctuation_pct"]
    try:
        times, title = data.step_times(source.diagnosis, limit_pct), "Step time, slowest rank of each step"
    except UsageError:
        times, title = _recorded(source, limit_pct), "Step time of unprofiled steps"
    return Drawn(title, partial(draw.series, times))


def _recorded(source: Source, limit_pct: float) -> data.StepTimes:
    """The unprofiled steps of a run without traces."""
    from tools.agent_tools.steps import StepRow

    asked = {"source": "records", "sort": "step", "limit": MOST_RECORDED}
    rows = [row for row in source.session.call("series", asked, source.emit, source.cancelled).rows]
    steps = [row for row in rows if isinstance(row, StepRow)]
    if not steps:
        raise UsageError(data.NO_STEPS)
    return data.recorded_times(steps[0].rank, ((row.step, row.duration_ms) for row in steps), limit_pct)


def _timeline(source: Source, argument: str) -> Drawn:
    from hermes_agent.tui.pictures.lanes import lanes

    if argument and not argument.isdecimal():
        raise UsageError(f"{argument!r} is no step; write its number, for example /timeline 12.")
    found = lanes(source.session.profile(source.emit, source.cancelled), int(argument) if argument else None)
    which = "" if argument else ", the longest"
    return Drawn(f"Step {found.step}{which}: what each rank does, over time", partial(draw.timeline, found))


def _heatmap(source: Source, argument: str) -> Drawn:
    found = data.heat(source.diagnosis, argument or "own")
    return Drawn("Ranks by steps", partial(draw.heatmap, found))


def _breakdown(source: Source, argument: str) -> Drawn:
    return Drawn("Time per step, mean over steps", partial(draw.stacked, data.means_of(source.diagnosis)))


def _critical_path(source: Source, argument: str) -> Drawn:
    found = data.critical_path(source.session.call("critical_path", {}, source.emit, source.cancelled))
    cited = f" [{found.step_id}]" if found.step_id else ""
    parts = [
        f"{family_title(share.family)} {written(share.ms, 'ms')}{f' [{share.ids[0]}]' if share.ids[0] else ''}"
        for share in found.shares
    ]
    text = f"The critical path of a step takes {written(found.step_ms, 'ms')}{cited}: {', '.join(parts)}."
    return Drawn("Critical path of a mean step", partial(draw.path, found), (text,))


MOST_RECORDED = 500  # steps of records in one page of the tool
SHOW = r"\b(show|draw|plot|display|picture|see)\b.*"
PICTURES = (
    Picture(
        "timeline",
        "[STEP]",
        "one step over time, a lane per rank",
        _timeline,
        re.compile(r"\b(time ?lines?|gantt|lanes)\b"),
    ),
    Picture(
        "series",
        "",
        "step times, long steps marked",
        _series,
        re.compile(rf"{SHOW}\b(step times?|series|all steps)\b|\b(plot|chart|graph) of (the )?steps?\b|times longer"),
    ),
    Picture(
        "heatmap",
        "[PART]",
        "ranks by steps, darker is longer",
        _heatmap,
        re.compile(r"\bheat ?-?maps?\b"),
        tuple(data.MEASURES),
    ),
    Picture(
        "breakdown",
        "",
        "parts of a step per rank, stacked",
        _breakdown,
        re.compile(rf"{SHOW}\bbreak ?downs?\b|\bstacked\b"),
    ),
    Picture(
        "critical-path",
        "",
        "families of work on the critical path",
        _critical_path,
        re.compile(r"\bcritical[ -]path\b"),
    ),
)


def picture_for(question: str) -> Picture | None:
    """The picture that a question asks to see, None where it asks for none."""
    words = question.lower()
    return next((picture for picture in PICTURES if picture.asked.search(words)), None)
