"""A timeline as a Gantt picture: one row per lane, one bar per operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from hermes_agent.evidence.printable import printable
from hermes_agent.report.pictures.charts import LABEL_PX, ROW_PX, Canvas, Picture, configured
from hermes_agent.report.pictures.export import file_svg
from hermes_agent.report.pictures.palette import PARTS, light
from tools.whatif.timeline import Timeline, bounded

MOST_BARS, MOST_LANES = 4000, 48  # a file of about 2 MB that every browser opens at once
WIDTH = 1200
FEW_BARS, EDGE_PX = 300, 0.5  # an edge keeps neighbours apart; around many it would hide the narrow ones
LANE_CHARS, NAME_CHARS, TITLE_CHARS = 44, 120, 140
MOST_KINDS = len(PARTS)  # one colour each; further ones share the last
OTHER = "other"


def gantt_svg(timeline: Timeline) -> str:
    """The picture as SVG: the busiest lanes and longest bars, with a sentence on what is left out."""
    shown = bounded(timeline, MOST_BARS, MOST_LANES)
    canvas = Canvas(WIDTH, light)
    title = alt.TitleParams(text=printable(shown.title, TITLE_CHARS), subtitle=_subtitle(shown), anchor="start")
    return file_svg(configured(_chart(shown, canvas), canvas, title))


def _subtitle(shown: Timeline) -> str:
    text = f"{len(shown.bars)} bars"
    return text + (f"; {shown.left_out} shorter ones or of less busy lanes are left out" if shown.left_out else "")


def _chart(shown: Timeline, canvas: Canvas) -> Picture:
    labels = _labels(shown.lanes)
    kinds = _kinds(shown)
    rows = [
        {
            "lane": labels[each.lane, each.group],
            "kind": kinds[each.kind],
            "start": each.start_ms,
            "end": each.end_ms,
            "text": f"{printable(each.name, NAME_CHARS)}: {each.start_ms:.6g} to {each.end_ms:.6g} ms",
        }
        for each in shown.bars
    ]
    named = list(dict.fromkeys(kinds.values()))
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=named, range=[canvas.colour(part) for part in PARTS[: len(named)]]),
        legend=alt.Legend(title=None, orient="bottom", columns=6, symbolType="square"),
    )
    y = alt.Y("lane:N", sort=list(labels.values()), title=None, axis=alt.Axis(labelLimit=2 * LABEL_PX))
    x = alt.X("start:Q", title="ms")
    values: dict[str, Any] = {"values": rows}
    bars = alt.Chart(values).mark_bar(stroke=canvas.colour("card"), strokeWidth=EDGE_PX if len(rows) <= FEW_BARS else 0)
    size = {"width": canvas.width - 2 * LABEL_PX, "height": ROW_PX * len(labels)}
    drawn: Picture = bars.encode(x=x, x2="end:Q", y=y, color=colour, description="text:N").properties(**size)
    return drawn


def _labels(lanes: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """What is written in front of each lane; two lanes never share a row."""
    labels, used = dict[tuple[str, str], str](), set[str]()
    for lane, group in lanes:
        name = printable(lane, LANE_CHARS)
        label = f"{name}, {group}" if group else name
        while label in used:
            label += "'"
        used.add(label)
        labels[lane, group] = label
    return labels


def _kinds(shown: Timeline) -> dict[str, str]:
    """The printed name of each kind, those that take longest first; the rest is of one colour."""
    taken: dict[str, float] = {}
    for each in shown.bars:
        taken[each.kind] = taken.get(each.kind, 0.0) + each.lasting_ms
    longest: list[Any] = sorted(taken, key=lambda kind: (-taken[kind], kind))
    own = longest if len(longest) <= MOST_KINDS else longest[: MOST_KINDS - 1]
    return {kind: printable(kind, LANE_CHARS) if kind in own else OTHER for kind in longest}
