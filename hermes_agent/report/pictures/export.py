"""Pictures as PNG and SVG files, and as SVG inside a page; drawn by vl-convert without a browser or a network."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import altair as alt
import vl_convert

from hermes_agent.evidence.citations import without_citations
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.report.pictures.charts import Canvas, configured
from hermes_agent.report.pictures.drawn import Drawn
from hermes_agent.report.pictures.palette import light, variable
from hermes_agent.report.pictures.registry import chosen

if TYPE_CHECKING:
    from tools.views.profile import Profile

VEGA_LITE = "6.4"  # the version that Altair 6.3 writes
WIDTH, SCALE = 800, 2.0  # pixels of a file, and of a PNG per pixel of it
MEASURED_PX = 14  # labels of a page are placed for this size and written smaller (page.css)
TITLE_SIZE, SUBTITLE_SIZE = 17, 13
TITLE_CHARS, SUBTITLE_CHARS, TITLE_LINES = 78, 108, 3
UNIT = re.compile(r"(?<=\d) (?=\S)")  # a figure and its unit stay on one line
SVG = "{http://www.w3.org/2000/svg}"
NO_MARKS = ("axis", "legend", "title")
LEFT_OUT = ("class", "role", "aria-roledescription", "aria-hidden", "aria-label", "pointer-events", "style")

ElementTree.register_namespace("", SVG[1:-1])


def render_png(diagnosis: Diagnosis, profile: Profile | None, picture: str = "") -> bytes:
    """A picture as PNG, 1,600 pixels wide; without a name the one that shows the first cause best.

    ``profile`` is the run, None where it is not at hand; raises UsageError where the picture cannot be drawn.
    """
    specification = _titled(diagnosis, chosen(diagnosis, profile, picture))
    return vl_convert.vegalite_to_png(specification, vl_version=VEGA_LITE, scale=SCALE, allowed_base_urls=[])


def render_svg(diagnosis: Diagnosis, profile: Profile | None, picture: str = "") -> str:
    """The same as SVG."""
    return file_svg(_titled(diagnosis, chosen(diagnosis, profile, picture)))


def _titled(diagnosis: Diagnosis, drawn: Drawn) -> dict[str, Any]:
    """The picture under the finding of the diagnosis, for a reader who sees nothing else of it."""
    canvas = Canvas(WIDTH, light)
    title = alt.TitleParams(
        text=_lines(without_citations(diagnosis.headline), TITLE_CHARS),
        subtitle=_lines(f"{drawn.title}. {drawn.finding}", SUBTITLE_CHARS),
        anchor="start",
        frame="bounds",
        fontSize=TITLE_SIZE,
        subtitleFontSize=SUBTITLE_SIZE,
        offset=14,
    )
    return configured(drawn.chart(canvas), canvas, title)


def _lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(UNIT.sub("\u00a0", text), width, max_lines=TITLE_LINES, placeholder=" …")


def file_svg(specification: dict[str, Any]) -> str:
    """The picture for a file of its own: drawn for a light ground, which a browser's forced dark mode leaves alone."""
    return _svg(specification).replace("<svg ", '<svg style="color-scheme: only light" ', 1)


def _svg(specification: dict[str, Any]) -> str:
    return vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE, allowed_base_urls=[])


def inline_svg(drawn: Drawn, width: int) -> str:
    """The picture for a page: its colours from the page's style sheet, the text of a mark as its hover title.

    It is hidden from screen readers, which are given the figure's caption and its table.
    """
    canvas = Canvas(width, variable, MEASURED_PX)
    root = ElementTree.fromstring(_svg(configured(drawn.chart(canvas), canvas, None)))
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    for element in list(root.iter()):
        _plain_mark(element)
    for parent in list(root.iter()):
        for child in [each for each in parent if each.get("display") == "none"]:
            parent.remove(child)
    return ElementTree.tostring(root, encoding="unicode")


def _plain_mark(element: ElementTree.Element) -> None:
    said = element.get("aria-label")
    is_mark = element.get("role") == "graphics-symbol" and element.get("aria-roledescription") not in NO_MARKS
    hidden = element.get("aria-hidden") if element.tag == f"{SVG}svg" else None
    for name in LEFT_OUT:
        element.attrib.pop(name, None)
    if hidden:
        element.set("aria-hidden", hidden)
    if said and is_mark:
        ElementTree.SubElement(element, f"{SVG}title").text = said
