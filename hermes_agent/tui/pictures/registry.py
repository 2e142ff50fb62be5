"""The pictures of the chat by name: what each shows, from what, and the words that ask for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from textual.content import Content

from hermes_agent.evidence.citations import written
from hermes_agent.model.display import counted, family_title
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
    from tools.views.steps.series import RunSeries


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
    from hermes_agent.report.pictures import recorded

    limit_pct = source.thresholds["fluctuation_pct"]
    series = _recorded(source)
    if series is None:
        times = data.step_times(source.diagnosis, limit_pct)
        return Drawn("Step time, slowest rank of each step", partial(draw.series, times))
    found = recorded.step_times(series, limit_pct)
    times = found.times
    rank = recorded.named_rank(series)
    title = f"Step time{'' if rank is None else f' of rank {rank}'} by {recorded.SOURCES[series.origin]}"
    marked = {point.step for point in times.points if point.traced}
    return Drawn(title, partial(draw.series, times), (*_before(found.before), *_numbers(source.diagnosis, marked)))


def _before(steps: int) -> tuple[str, ...]:
    """A sentence where the records hold steps before those that are drawn."""
    return (f"Neither drawn nor counted here: {counted(steps, 'step')} recorded before.",) if steps else ()


def _numbers(diagnosis: Diagnosis, marked: Set[int]) -> tuple[str, ...]:
    """A sentence where the traces number the marked steps in another way."""
    numbers = diagnosis.run.steps
    if not marked or not numbers or marked <= set(numbers):
        return ()
    return (f"The traces number the marked steps {min(numbers)} to {max(numbers)}.",)


def _recorded(source: Source) -> RunSeries | None:
    """The steps by records of whole steps, where these know more of them than the traces."""
    known = source.diagnosis.step_time_ms
    if known is not None and known.unprofiled is None and source.diagnosis.breakdown:
        return None
    series = source.session.profile(source.emit, source.cancelled).series
    traced = {row.step for row in source.diagnosis.breakdown if row.step is not None}
    return series if series is not None and len(series.whole.numbers()) > len(traced) else None


def _timeline(source: Source, argument: str) -> Drawn:
    from hermes_agent.tui.pictures.lanes import lanes

    if argument and not argument.isdecimal():
        raise UsageError(f"{argument!r} is no step; write its number, for example /timeline 12.")
    rows = data.rows_of_step(source.diagnosis, int(argument) if argument else None)
    chosen = data.chosen_ranks({row.rank: data.part_ms(row) for row in rows}, data.known_ranks(source.diagnosis))
    found = lanes(source.session.profile(source.emit, source.cancelled), rows[0].step or 0, chosen.ranks)
    which = "" if argument else ", the longest"
    title = f"Step {found.step}{which}: what each rank does, over time"
    return Drawn(title, partial(draw.timeline, found, chosen))


def _heatmap(source: Source, argument: str) -> Drawn:
    from hermes_agent.report.pictures import recorded

    series = _recorded(source)
    wanted = (argument,) if argument else ("own", "wall")
    found = None if series is None else next(filter(None, (recorded.heat(series, each) for each in wanted)), None)
    if found is not None and series is not None:
        notes = (
            *_before(found.before),
            *_numbers(source.diagnosis, found.heat.traced),
            *_traced_alone(found.heat, argument),
        )
        title = f"Ranks by steps, by {recorded.SOURCES[series.origin]}"
        return Drawn(title, partial(draw.heatmap, found.heat, found.chosen), notes)
    heat = data.heat(source.diagnosis, argument or "own")
    chosen = data.chosen_ranks(data.rank_figures(heat), data.known_ranks(source.diagnosis))
    return Drawn("Ranks by steps", partial(draw.heatmap, heat, chosen))


def _traced_alone(heat: data.Heat, argument: str) -> tuple[str, ...]:
    """How to see the parts of steps, which traces alone know."""
    if argument or heat.measure == "own":
        return ()
    return ("Only whole steps are recorded there; `/heatmap own` shows the own time of the traced steps.",)


def _breakdown(source: Source, argument: str) -> Drawn:
    rows = data.means_of(source.diagnosis)
    return Drawn("Time per step, mean over steps", partial(draw.stacked, rows, data.known_ranks(source.diagnosis)))


def _critical_path(source: Source, argument: str) -> Drawn:
    found = data.critical_path(source.session.call("critical_path", {}, source.emit, source.cancelled))
    cited = f" [{found.step_id}]" if found.step_id else ""
    parts = [
        f"{family_title(share.family)} {written(share.ms, 'ms')}{f' [{share.ids[0]}]' if share.ids[0] else ''}"
        for share in found.shares
    ]
    text = f"The critical path of a step takes {written(found.step_ms, 'ms')}{cited}: {', '.join(parts)}."
    return Drawn("Critical path of a mean step", partial(draw.path, found), (text, SAVES))


SAVES = "Saves: how much shorter a step gets where that work takes no time."
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
