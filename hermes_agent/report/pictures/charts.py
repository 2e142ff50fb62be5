"""Each picture as an Altair chart of its figures; the text of a mark (``description``) becomes its hover title."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import altair as alt

from hermes_agent.evidence.citations import written
from hermes_agent.model.display import PART_TITLES, family_title
from hermes_agent.report.pictures.data import CriticalPath, StepPoint, StepTimes
from hermes_agent.report.pictures.palette import HEAT_LEVELS, PARTS, Colour
from hermes_agent.report.pictures.roofline import Roofline, operator_text, operator_type
from hermes_agent.report.pictures.rows import Bar, Grid, columns

FONT = "sans-serif"
LABEL_PX = 190  # for the longest label of a row
ROW_PX, COLUMN_PX, HEIGHT_PX = 26, 7, 240
NARROW_PX = 480
NARROW_LEGEND_CHARS = 34  # of the longest labels of two columns
MOST_COLUMNS = 48
ROOM_FOR_VALUE_PX = 48  # of a cell of the heatmap
NAMED_LONG = 3  # long steps that are labelled
NEAR_END = 0.08  # of the columns: half a label is about as wide
LABEL_GAP_PX = 8  # between the numbers of steps below a picture
LABELLED_CHARS = 24
PEAK_NAMES_PX = 150


@dataclass(frozen=True)
class Canvas:
    """The width of a picture in pixels with its labels, its colours by name, and the size of its text."""

    width: int
    colour: Colour
    font_px: int = 13

    @property
    def narrow(self) -> bool:
        """True for a phone."""
        return self.width < NARROW_PX

    def columns(self, least_px: int = COLUMN_PX) -> int:
        """The most columns that can be told apart."""
        return min(max((self.width - LABEL_PX // 2) // least_px, 8), MOST_COLUMNS)


Align = Literal["left", "center", "right"]
Picture: TypeAlias = alt.Chart | alt.LayerChart | alt.FacetChart


def _data(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"values": list(rows)}


def _legend(title: str | None, canvas: Canvas, most: int = 3, labels: Sequence[str] = ()) -> alt.Legend:
    """A legend below a picture; on a phone long labels stand one below the other, since a wider one shrinks it all."""
    longest = [max(map(len, labels[first::2]), default=0) for first in (0, 1)]
    narrow = 1 if sum(longest) > NARROW_LEGEND_CHARS else 2
    return alt.Legend(
        title=title, orient="bottom", columns=narrow if canvas.narrow else most, symbolType="square", columnPadding=18
    )


def series(times: StepTimes, canvas: Canvas) -> Picture:
    """Step times from 0 up, long steps in another colour and named; a line at the median."""
    shown = columns(times, canvas.columns() * 2)
    rows = [
        {
            "step": each.label,
            "ms": each.longest.ms,
            "kind": "long step" if each.longest.long else "step",
            "said": f"{_point(each.longest)}: {written(each.longest.ms, 'ms')}",
        }
        for each in shown
    ]
    order = [each.label for each in shown]
    x = alt.X("step:O", sort=order, title=_binned("step", len(shown) < len(times.points)), axis=_steps_axis())
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=["step", "long step"], range=[canvas.colour("heat3"), canvas.colour("marked")]),
        legend=_legend(None, canvas) if times.long else None,
    )
    base = alt.Chart(_data(rows))
    bars = base.mark_bar().encode(x=x, y=alt.Y("ms:Q", title="ms"), color=colour, description="said:N")
    longest = sorted((row for row in rows if row["kind"] == "long step"), key=lambda row: -float(row["ms"]))
    named = [
        {**row, "text": written(float(row["ms"]), "ms"), "align": _align(order.index(row["step"]), len(order))}
        for row in _apart(longest, order)
    ]
    lines = [{"ms": times.median_ms, "said": f"median {written(times.median_ms, 'ms')}"}]
    rule = alt.Chart(_data(lines)).mark_rule(strokeDash=[5, 4], color=canvas.colour("ink"))
    return alt.layer(
        bars,
        *_labels(named, order, canvas),
        rule.encode(y="ms:Q", description="said:N"),
    ).properties(width=canvas.width - 70, height=HEIGHT_PX)


def _align(place: int, count: int) -> Align:
    """The side of its column on which a label has room: at the ends of a picture it would run over the axis."""
    if count * NEAR_END > 1 and place < count * NEAR_END:
        return "left"
    return "right" if count * NEAR_END > 1 and place >= count * (1 - NEAR_END) else "center"


def _labels(named: Sequence[dict[str, Any]], order: Sequence[str], canvas: Canvas) -> list[alt.Chart]:
    """The texts above long steps, a layer for each side that they begin at."""
    layers = []
    for align in get_args(Align):
        rows = [row for row in named if row["align"] == align]
        text = alt.Chart(_data(rows)).mark_text(dy=-7, align=align, color=canvas.colour("ink"), aria=False)
        if rows:
            layers.append(text.encode(x=alt.X("step:O", sort=list(order)), y="ms:Q", text="text:N"))
    return layers


def _point(each: StepPoint) -> str:
    return f"step {each.step}" if each.rank is None else f"step {each.step}, rank {each.rank}"


def _apart(longest: Sequence[dict[str, Any]], order: Sequence[str]) -> list[dict[str, Any]]:
    """The longest steps whose labels do not run into each other."""
    chosen: list[dict[str, Any]] = []
    for row in longest:
        place = order.index(row["step"])
        if all(abs(place - order.index(each["step"])) * MOST_COLUMNS > len(order) * 5 for each in chosen):
            chosen.append(row)
    return chosen[:NAMED_LONG]


def _steps_axis() -> alt.Axis:
    return alt.Axis(labelAngle=0, labelOverlap="greedy", labelSeparation=LABEL_GAP_PX, grid=False)


def _few_ticks(canvas: Canvas) -> alt.Axis:
    return alt.Axis(tickCount=4 if canvas.narrow else 8)


def _binned(noun: str, merged: bool) -> str:
    return f"{noun}s, the longest of each column" if merged else noun


def heatmap(found: Grid, canvas: Canvas) -> Picture:
    """Ranks by steps, darker (brighter on a dark page) is longer; the longest has an outline."""
    worst = max(value for row in found.values for value in row if value == value)
    rows = [
        {
            "rank": label,
            "step": step,
            "level": found.level(value, HEAT_LEVELS),
            "text": f"{value:.1f}",
            "worst": value == worst,
            "said": f"{label}, step {step}: {written(value, 'ms')}",
        }
        for label, values in zip(found.rows, found.values, strict=True)
        for step, value in zip(found.columns, values, strict=True)
        if value == value
    ]
    levels = range(HEAT_LEVELS)
    limits = [written(found.limit_ms(level, HEAT_LEVELS), "ms") for level in levels]
    names = " : ".join(f"datum.value == {level} ? 'from {limit}'" for level, limit in enumerate(limits)) + " : ''"
    scale = alt.Scale(domain=list(levels), range=[canvas.colour(f"heat{level}") for level in levels])
    legend = alt.Legend(
        title=None,
        orient="bottom",
        columns=2 if canvas.narrow else 3,
        symbolType="square",
        columnPadding=18,
        labelExpr=names,
    )
    x = alt.X("step:O", sort=list(found.columns), title=_binned("step", found.binned), axis=_steps_axis())
    y = alt.Y("rank:N", sort=list(found.rows), title=None)
    base = alt.Chart(_data(rows))
    cells = base.mark_rect(stroke=canvas.colour("card"), strokeWidth=1).encode(
        x=x, y=y, color=alt.Color("level:O", scale=scale, legend=legend), description="said:N"
    )
    outline = base.transform_filter("datum.worst").mark_rect(
        fill=None, stroke=canvas.colour("marked"), strokeWidth=3, aria=False
    )
    layers = [cells, outline.encode(x=x, y=y)]
    width = canvas.width - LABEL_PX // 2
    if width / len(found.columns) >= ROOM_FOR_VALUE_PX:
        on_dark = alt.condition(
            f"datum.level >= {HEAT_LEVELS // 2}", alt.value(canvas.colour("card")), alt.value(canvas.colour("ink"))
        )
        layers.append(base.mark_text(aria=False).encode(x=x, y=y, text="text:N", color=on_dark))
    return alt.layer(*layers).properties(width=width, height=max(ROW_PX * len(found.rows), 60))


def breakdown(bars: Sequence[Bar], canvas: Canvas) -> Picture:
    """One bar per rank or group from 0, the parts of its mean step stacked."""
    rows = [
        {
            "rank": bar.label,
            "part": PART_TITLES[part],
            "order": place,
            "ms": ms,
            "said": f"{bar.label}, {PART_TITLES[part]}: {written(ms, 'ms')} of {written(bar.step_ms, 'ms')}",
        }
        for bar in bars
        for place, (part, ms) in enumerate(zip(PARTS, bar.parts, strict=True))
        if ms > 0
    ]
    occurring = [part for part in PARTS if any(row["part"] == PART_TITLES[part] for row in rows)]
    scale = alt.Scale(domain=[PART_TITLES[part] for part in occurring], range=[canvas.colour(p) for p in occurring])
    chart = alt.Chart(_data(rows)).mark_bar(stroke=canvas.colour("card"), strokeWidth=1)
    stacked: Picture = chart.encode(
        x=alt.X("ms:Q", title="ms of a mean step", axis=_few_ticks(canvas)),
        y=alt.Y("rank:N", sort=[bar.label for bar in bars], title=None, axis=_row_axis(canvas)),
        color=alt.Color(
            "part:N", scale=scale, legend=_legend(None, canvas, labels=[PART_TITLES[p] for p in occurring])
        ),
        order=alt.Order("order:Q"),
        description="said:N",
    )
    return stacked.properties(width=_beside_labels([bar.label for bar in bars], canvas), height=_height(len(bars)))


def _row_axis(canvas: Canvas) -> alt.Axis:
    return alt.Axis(labelLimit=LABEL_PX if not canvas.narrow else LABEL_PX * 2 // 3)


def _beside_labels(labels: Sequence[str], canvas: Canvas) -> int:
    most = LABEL_PX if not canvas.narrow else LABEL_PX * 2 // 3
    return canvas.width - min(max(map(len, labels)) * 8, most) - 20


def _height(rows: int) -> int:
    return max((ROW_PX + 6) * rows, 60)


def critical_path(found: CriticalPath, canvas: Canvas) -> Picture:
    """One bar per family of work on the critical path, with what the step loses without it."""
    rows = [
        {
            "family": family_title(share.family),
            "ms": share.ms,
            "text": written(share.ms, "ms"),
            "said": ", saves ".join(written(ms, "ms") for ms in (share.ms, share.saved_ms) if ms is not None),
        }
        for share in found.shares
    ]
    labels = [str(row["family"]) for row in rows]
    room = alt.Scale(domainMax=1.6 * found.shares[0].ms)  # for the text behind a bar
    base = alt.Chart(_data([{**row, "hover": f"{row['family']}: {row['said']}"} for row in rows])).encode(
        y=alt.Y("family:N", sort=labels, title=None, axis=_row_axis(canvas)),
        x=alt.X(
            "ms:Q",
            title="ms of a mean step",
            axis=_few_ticks(canvas),
            scale=room,
        ),
    )
    bars = base.mark_bar(color=canvas.colour("heat3")).encode(description="hover:N")
    texts = base.mark_text(align="left", dx=6, color=canvas.colour("ink"), aria=False)
    texts = texts.encode(text="text:N" if canvas.narrow else "said:N")
    width = _beside_labels(labels, canvas)
    return alt.layer(bars, texts).properties(width=width, height=_height(len(rows)))


def roofline(found: Roofline, canvas: Canvas) -> Picture:
    """Operators by operations per byte and per second, both logarithmic, under the limits of the device."""
    rows = [
        {
            "intensity": each.flops_per_byte,
            "rate": each.flops_per_s / 1e12,
            "ms": each.ms_per_step,
            "type": operator_type(each),
            "said": operator_text(each),
        }
        for each in found.operators
    ]
    ridge = max(found.peaks.values()) / found.memory_bytes_per_s
    intensities = [each.flops_per_byte for each in found.operators]
    low, high = min([*intensities, ridge]) / 2, max([*intensities, ridge]) * 4
    rates = [each.flops_per_s / 1e12 for each in found.operators]
    lowest = min([*rates, low * found.memory_bytes_per_s / 1e12])
    highest = max([*rates, *(peak / 1e12 for peak in found.peaks.values())])
    few = alt.Axis(format="~g", tickCount=3 if canvas.narrow else 5)
    x = alt.X("intensity:Q", scale=alt.Scale(type="log", domain=[low, high]), title="operations per byte", axis=few)
    y = alt.Y("rate:Q", scale=alt.Scale(type="log", domain=[lowest / 1.5, highest * 1.6]), title="TFLOP/s", axis=few)
    types = list(dict.fromkeys(str(row["type"]) for row in rows))
    shades = [canvas.colour(part) for part in PARTS]
    colour = alt.Color(
        "type:N",
        scale=alt.Scale(domain=types, range=[shades[place % len(shades)] for place in range(len(types))]),
        legend=alt.Legend(title=None, orient="bottom", columns=1 if canvas.narrow else 3),
    )
    size = alt.Size("ms:Q", legend=None, scale=alt.Scale(range=[40, 500]))
    points = alt.Chart(_data(rows)).mark_circle(opacity=0.85, stroke=canvas.colour("card"))
    layers = [points.encode(x=x, y=y, color=colour, size=size, shape="type:N", description="said:N")]
    for name, peak in found.peaks.items():
        knee = peak / found.memory_bytes_per_s
        roof = [{"intensity": at, "rate": min(peak, at * found.memory_bytes_per_s) / 1e12} for at in (low, knee, high)]
        said = f"{name}: peak {written(peak, 'FLOP/s')}"
        line = alt.Chart(_data([{**each, "said": said} for each in roof]))
        layers.append(line.mark_line(color=canvas.colour("muted")).encode(x=x, y=y, description="said:N"))
        text = alt.Chart(_data([{**roof[-1], "said": said}]))
        layers.append(
            text.mark_text(align="right", dy=-8, color=canvas.colour("ink"), aria=False).encode(x=x, y=y, text="said:N")
        )
    return alt.layer(*layers).properties(width=canvas.width - 70, height=HEIGHT_PX + 60)


def configured(chart: Picture, canvas: Canvas, title: alt.TitleParams | None) -> dict[str, Any]:
    """Return the Vega-Lite specification in the report's colours and type size."""
    ink, muted, line = (canvas.colour(name) for name in ("ink", "muted", "line"))
    text = {"labelFontSize": canvas.font_px, "titleFontSize": canvas.font_px, "labelColor": ink, "titleColor": muted}
    styled = (
        (chart if title is None else chart.properties(title=title))
        .configure(background=canvas.colour("card"), font=FONT, padding=6)
        .configure_axis(**text, titleFontWeight="normal", gridColor=line, domainColor=line, tickColor=line)
        .configure_legend(**text, labelLimit=LABEL_PX * 2)
        .configure_view(stroke=None)
        .configure_text(fontSize=canvas.font_px)
        .configure_title(color=ink, subtitleColor=muted)
    )
    specification: dict[str, Any] = styled.to_dict(validate=False)  # its parts were validated as they were made
    return specification
