"""Pictures as text at a width: bars, columns and shades, readable without colour and in plain ASCII."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from hermes_agent.evidence.citations import written
from hermes_agent.model.display import PART_TITLES, counted, family_title, rank_list
from hermes_agent.report.pictures.data import (
    MEASURES,
    PARTS,
    ChosenRanks,
    CriticalPath,
    Heat,
    Lanes,
    StepTimes,
    binned,
    chosen_ranks,
    part_ms,
)
from hermes_agent.tui.messages import Glyphs
from tools.knowledge.thresholds import defaults

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import BreakdownRow

PART_STYLES = ("$success", "$primary", "$secondary", "$warning", "$error", "$foreground 60%")
LONG_STYLE = "$text-warning bold"
MUTED = "$foreground 60%"
LABEL_CELLS = 10  # "rank 1023 "
FIGURE_CELLS = 13  # " 123456.7 ms"
LEGEND_GAP = "  "
COLUMN_ROWS = 8
WIDEST_COLUMN = 8
LEAST_CELLS = 8
LONG_NAMED = 5


def cells(values: Sequence[float], whole: float, width: int) -> tuple[int, ...]:
    """Return the cells of each value if ``whole`` fills ``width`` cells; by largest remainder, so sums agree."""
    if whole <= 0 or width <= 0:
        return (0,) * len(values)
    exact = [max(value, 0.0) * width / whole for value in values]
    spare = min(round(sum(exact)), width) - sum(map(int, exact))
    order = sorted(range(len(values)), key=lambda index: int(exact[index]) - exact[index])
    rounded_up = order[: max(spare, 0)]
    return tuple(int(each) + (index in rounded_up) for index, each in enumerate(exact))


def stacked(rows: Sequence[BreakdownRow], known: int, width: int, glyphs: Glyphs) -> Content:
    """Return one stacked bar per rank with a legend under them; ``rows`` hold one mean per rank of ``known``."""
    chosen = chosen_ranks({row.rank: part_ms(row) for row in rows}, known)
    shown = [row for row in rows if row.rank in chosen.ranks]
    longest_ms = max((row.wall_ms for row in shown), default=0.0)
    bar_cells = max(width - LABEL_CELLS - FIGURE_CELLS, LEAST_CELLS)
    lines = []
    for row in shown:
        counts = cells(part_ms(row), longest_ms, bar_cells)
        bar = [(sign * count, style) for sign, count, style in zip(glyphs.parts, counts, PART_STYLES, strict=True)]
        rest = f"{' ' * (bar_cells - sum(counts))}{row.wall_ms:>9.1f} ms"
        lines.append(Content.assemble(f"rank {row.rank}".ljust(LABEL_CELLS), *bar, rest))
    lines += _not_shown(chosen, width)
    occurring = [place for place in range(len(PARTS)) if any(part_ms(row)[place] > 0 for row in shown)]
    return Content("\n").join([*lines, *_legend(occurring, width, glyphs)])


def _not_shown(chosen: ChosenRanks, width: int) -> list[Content]:
    """How the ranks were chosen and how many are not drawn; nothing where all are."""
    if not chosen.left_out:
        return []
    outliers = len(chosen.ranks) - len(chosen.typical)
    shown = f"{outliers} ranks that differ most, typical {rank_list(chosen.typical)};" if chosen.typical else ""
    text = f"{shown} {counted(chosen.left_out, 'more rank')} not shown.".strip()
    return [Content(line) for line in textwrap.wrap(text, max(width, LEAST_CELLS))]


def _legend(parts: Sequence[int], width: int, glyphs: Glyphs) -> list[Content]:
    """The signs of the parts that occur, wrapped between entries."""
    entries = [
        Content.assemble((glyphs.parts[place], PART_STYLES[place]), f" {PART_TITLES[PARTS[place]]}") for place in parts
    ]
    return _wrapped(entries, width)


def timeline(found: Lanes, chosen: ChosenRanks, width: int, glyphs: Glyphs) -> Content:
    """Return one lane per rank over the time of a step; a cell shows the part that fills most of it."""
    lines, occurring = [], set[int]()
    for lane in found.lanes:
        columns: list[tuple[str, str]] = []
        for each in binned(len(lane.bins), max(width - LABEL_CELLS - 1, LEAST_CELLS)):
            sums = [sum(lane.bins[place][part] for place in each) for part in range(len(PARTS))]
            part = max(range(len(PARTS)), key=sums.__getitem__)
            if sums[part] <= 0:
                columns.append((" ", ""))
                continue
            occurring.add(part)
            columns.append((glyphs.parts[part], PART_STYLES[part]))
        lines.append(Content.assemble(f"rank {lane.rank}".ljust(LABEL_CELLS), glyphs.axis, *columns))
    end = written(found.ms, "ms")
    lines.append(Content(f"{'':>{LABEL_CELLS}} 0{end.rjust(max(width - LABEL_CELLS - 2, len(end) + 1))}"))
    lines += _not_shown(chosen, width)
    return Content("\n").join([*lines, *_legend(sorted(occurring), width, glyphs)])


def _wrapped(entries: Sequence[Content], width: int) -> list[Content]:
    """Entries in lines, broken between them."""
    lines: list[Content] = []
    for entry in entries:
        if lines and lines[-1].cell_length + len(LEGEND_GAP) + entry.cell_length <= width:
            lines[-1] = Content.assemble(lines[-1], LEGEND_GAP, entry)
        else:
            lines.append(entry)
    return lines


def series(times: StepTimes, width: int, glyphs: Glyphs) -> Content:
    """Return step times as columns from 0 up, long steps marked under the axis and named."""
    room = max(width - LABEL_CELLS - 1, LEAST_CELLS)
    bins = binned(len(times.points), room)
    wide = max(min(room // len(bins), WIDEST_COLUMN), 1)  # cells of a column, with its gap
    gap = 1 if wide > 1 else 0
    heights = [max(times.points[place].ms for place in each) for each in bins]
    marked = [any(times.points[place].long for place in each) for each in bins]
    top = max(heights)
    labels = _labels(top, times.median_ms)
    lines = []
    for row in range(COLUMN_ROWS, 0, -1):
        columns: list[tuple[str, str]] = []
        for height, long in zip(heights, marked, strict=True):
            sign = _column_sign(height / top * COLUMN_ROWS - (row - 1) if top > 0 else 0.0, glyphs)
            columns.append((sign * (wide - gap) + " " * gap, LONG_STYLE if long else PART_STYLES[1]))
        lines.append(Content.assemble((labels.get(row, "").rjust(LABEL_CELLS), MUTED), glyphs.axis, *columns))
    marks = "".join((glyphs.mark_long if long else " ") * (wide - gap) + " " * gap for long in marked)
    if any(marked):
        lines.append(Content.assemble((f"{'long':>{LABEL_CELLS}} ", MUTED), (marks.rstrip(), LONG_STYLE)))
    traced = [any(times.points[place].traced for place in each) for each in bins]
    lines += _traced_marks(traced, wide - gap, gap, glyphs)
    lines.append(Content(_ends(str(times.points[0].step), str(times.points[-1].step), len(bins) * wide - gap)))
    return Content("\n").join([*lines, *(Content(each) for each in _about(times, bins))])


def _traced_marks(traced: Sequence[bool], wide: int, gap: int, glyphs: Glyphs) -> list[Content]:
    """A line that marks the columns with profiled steps; nothing where there is none to tell apart."""
    if not any(traced):
        return []
    marks = "".join((glyphs.mark_traced if each else " ") * wide + " " * gap for each in traced)
    return [Content.assemble((f"{'traced':>{LABEL_CELLS}} ", MUTED), (marks.rstrip(), MUTED))]


def _labels(top: float, usual: float) -> dict[int, str]:
    """The figures next to the rows: the longest step on top, and the median where it is not in the same row."""
    place = max(min(round(usual / top * COLUMN_ROWS + 0.5), COLUMN_ROWS), 1) if top > 0 else 1
    return {place: written(usual, "ms"), COLUMN_ROWS: written(top, "ms")}


def _column_sign(filled: float, glyphs: Glyphs) -> str:
    """The sign of a cell that is filled to a share from below."""
    share = min(max(filled, 0.0), 1.0)
    return glyphs.columns[round(share * (len(glyphs.columns) - 1))]


def _ends(first: str, last: str, room: int) -> str:
    """The numbers of the first and the last step under the axis."""
    lead = f"{'step':>{LABEL_CELLS}} {first}"
    return lead if first == last else f"{lead}{last.rjust(max(room - len(first), len(last) + 1))}"


def _about(times: StepTimes, columns: Sequence[range]) -> list[str]:
    several = len({point.rank for point in times.points}) > 1
    lines = []
    if len(columns) < len(times.points):
        fewest, most = min(map(len, columns)), max(map(len, columns))
        lines.append(f"Each column is the longest of {fewest if fewest == most else f'{fewest} or {most}'} steps.")
    count = sum(not point.traced for point in times.points)
    steps = "step" if count == len(times.points) else "unprofiled step"
    if count < len(times.points):
        lines.append("Traced steps include what profiling costs.")
    if not times.long:
        return [*lines, f"No {steps} is over {written(times.limit_ms, 'ms')} (the median and {times.limit_pct:g} %)."]
    named = [
        f"step {point.step} ({written(point.ms, 'ms')}{f', rank {point.rank}' if several else ''})"
        for point in times.long[:LONG_NAMED]
    ]
    more = f" and {len(times.long) - LONG_NAMED} more" if len(times.long) > LONG_NAMED else ""
    over = f"over {written(times.limit_ms, 'ms')} (the median and {times.limit_pct:g} %)"
    return [*lines, f"{len(times.long)} of {counted(count, steps)} {over}: {', '.join(named)}{more}."]


def heatmap(heat: Heat, chosen: ChosenRanks, width: int, glyphs: Glyphs) -> Content:
    """Return one row per rank and one column per step, darker where it is longer; bins show their longest."""
    room = max(width - LABEL_CELLS - 1, LEAST_CELLS)
    columns = binned(len(heat.steps), room)
    wide = max(min(room // len(columns), WIDEST_COLUMN), 1)
    low, high = min(heat.values.values()), max(heat.values.values())
    least = defaults()["heatmap_range_pct"].value / 100
    span = max(high - low, least * high)
    lines = []
    for rank in chosen.ranks:
        signs = "".join(_shade(heat, rank, [heat.steps[place] for place in each], low, span, glyphs) * wide
                        for each in columns)  # fmt: skip
        lines.append(Content.assemble(f"rank {rank}".ljust(LABEL_CELLS), glyphs.axis, (signs, PART_STYLES[1])))
    traced = [any(heat.steps[place] in heat.traced for place in each) for each in columns]
    lines += _traced_marks(traced, wide, 0, glyphs)
    lines.append(Content(_ends(str(heat.steps[0]), str(heat.steps[-1]), len(columns) * wide)))
    last = len(glyphs.shades) - 1
    scale = [
        Content.assemble((sign, PART_STYLES[1]), f" {written(low + span * place / last, 'ms')}")
        for place, sign in enumerate(glyphs.shades)
    ]
    legend = _wrapped(scale, width)
    note = [f"{MEASURES[heat.measure].capitalize()} of each rank in each step."]
    if len(columns) < len(heat.steps):
        note.append("A cell that stands for several steps shows the longest.")
    if high - low < least * high:
        note.append(f"All are within {least:.0%} of the longest.")
    worst = max(heat.values, key=lambda place: heat.values[place])
    note.append(f"Longest: {written(heat.values[worst], 'ms')}, rank {worst[0]} in step {worst[1]}.")
    return Content("\n").join([*lines, *_not_shown(chosen, width), *legend, *(Content(each) for each in note)])


def _shade(heat: Heat, rank: int, steps: Sequence[int], low: float, span: float, glyphs: Glyphs) -> str:
    found = [heat.values[rank, step] for step in steps if (rank, step) in heat.values]
    if not found:
        return " "
    place = (max(found) - low) / span if span > 0 else 0.0
    return glyphs.shades[round(min(place, 1.0) * (len(glyphs.shades) - 1))]


def path(found: CriticalPath, width: int, glyphs: Glyphs) -> Content:
    """Return one bar per family of work: its time on the critical path, and what the step loses without it."""
    named = [family_title(share.family) for share in found.shares]
    widest = max(map(len, named), default=0) + 1
    figures = [(f"{share.ms:>9.1f} ms", _saved(share.saved_ms)) for share in found.shares]
    bar_cells = max(width - widest - max((len(a) + len(b) for a, b in figures), default=0), LEAST_CELLS)
    counts = cells([share.ms for share in found.shares], found.step_ms, bar_cells)
    lines = [
        Content.assemble(
            name.ljust(widest), (glyphs.parts[0] * count + " " * (bar_cells - count), PART_STYLES[1]), *figure
        )
        for name, count, figure in zip(named, counts, figures, strict=True)
    ]
    return Content("\n").join(lines)


def _saved(ms: float | None) -> str:
    return " " * 19 if ms is None else f"  saves {ms:>8.1f} ms"
