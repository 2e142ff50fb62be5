"""A diagnosis as one HTML file that holds everything it shows and loads nothing.

Pictures are SVG drawn beforehand, not drawn by Vega in the page: its bundle alone has 0.9 MB, and compiles expressions
at run time, which the page's Content-Security-Policy forbids. Everything from a run goes through Jinja2's escaping.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.report.html.answer import PageCause, about_run, confidence, gains, page_cause, run_title, step_figures
from hermes_agent.report.html.coverage import (
    check_rows,
    coverage,
    outcomes,
    sources,
    sources_title,
    unanswered,
    unanswered_count,
)
from hermes_agent.report.html.evidence import PageEvidence, commands, evidence_count, evidence_rows, known_ids
from hermes_agent.report.html.text import link, linked, web_address
from hermes_agent.report.pictures.drawn import Drawn
from hermes_agent.report.pictures.export import inline_svg
from hermes_agent.report.pictures.palette import style_variables
from hermes_agent.report.pictures.registry import drawable, most_telling
from hermes_agent.report.sections import interval_meaning, sections
from hermes_agent.version import VERSION

if TYPE_CHECKING:
    from tools.views.profile import Profile

HERE = Path(__file__).parent
WIDE_PX, NARROW_PX = 780, 320


@dataclass(frozen=True)
class PagePicture:
    """A picture drawn for a screen and for a phone, with its table."""

    name: str
    title: str
    finding: str
    wide: Markup
    narrow: Markup
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    command: str


@dataclass(frozen=True)
class Page:
    """What the template shows in addition to the diagnosis and its sections."""

    title: str
    about: str
    confidence: str
    policy: str
    style: Markup
    script: Markup
    known: frozenset[str]
    figures: tuple[tuple[str, str], ...]
    causes: tuple[PageCause, ...]
    ranges: str
    gains: tuple[tuple[str, ...], ...]
    first: PagePicture | None
    pictures: tuple[PagePicture, ...]
    missing: tuple[tuple[str, str], ...]
    unanswered: tuple[tuple[str, str], ...]
    unanswered_count: str
    coverage: tuple[str, ...]
    sources_title: str
    sources: tuple[tuple[str, ...], ...]
    outcomes: str
    checks: tuple[tuple[str, ...], ...]
    evidence: tuple[PageEvidence, ...]
    evidence_count: str
    commands: tuple[str, ...]
    version: str = VERSION


def render_html(diagnosis: Diagnosis, profile: Profile | None, paths: Sequence[Path] = ()) -> str:
    """The report. ``profile`` is the run, None where it is not at hand; ``paths`` are what was diagnosed."""
    page = _page(diagnosis, profile, paths)
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["linked"] = partial(linked, known=page.known)
    environment.filters["link"] = partial(link, known=page.known)
    environment.filters["web"] = web_address
    found = sections(diagnosis)
    names = ("comparison", "leads", "hypotheses", "routes", "ranks", "record_next", "notes")
    shown = {name: found.get(name) for name in names}
    return environment.get_template("page.html").render(diagnosis=diagnosis, sections=shown, page=page)


def _page(diagnosis: Diagnosis, profile: Profile | None, paths: Sequence[Path]) -> Page:
    style = ":root {\n" + style_variables() + "\n}\n" + (HERE / "page.css").read_text(encoding="utf-8")
    script = (HERE / "page.js").read_text(encoding="utf-8")
    drawn, missing = drawable(diagnosis, profile)
    order = [name for name in most_telling(diagnosis) if name in drawn]
    pictures = [_picture(drawn[name]) for name in order]
    return Page(
        title=run_title(diagnosis, paths),
        about=about_run(diagnosis),
        confidence=confidence(diagnosis),
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        known=known_ids(diagnosis),
        figures=step_figures(diagnosis),
        causes=tuple(page_cause(cause, diagnosis) for cause in diagnosis.causes),
        ranges=" ".join(interval_meaning(diagnosis)),
        gains=gains(diagnosis),
        first=pictures[0] if pictures else None,
        pictures=tuple(pictures[1:]),
        missing=_by_reason(missing),
        unanswered=unanswered(diagnosis),
        unanswered_count=unanswered_count(diagnosis),
        coverage=coverage(diagnosis),
        sources_title=sources_title(diagnosis),
        sources=sources(diagnosis),
        outcomes=outcomes(diagnosis),
        checks=check_rows(diagnosis),
        evidence=evidence_rows(diagnosis),
        evidence_count=evidence_count(diagnosis),
        commands=commands(diagnosis, paths),
    )


def _by_reason(missing: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The pictures that cannot be drawn, those with the same reason together: names and reason."""
    names: dict[str, list[str]] = {}
    for name, reason in missing.items():
        names.setdefault(reason, []).append(name.replace("_", " "))
    return tuple((_alternatives(each), reason) for reason, each in names.items())


def _alternatives(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _policy(style: str, script: str) -> str:
    """Nothing is loaded and nothing runs but this style and this script, by their hashes (CSP level 2)."""
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (style, script)]
    allowed = f"style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _picture(drawn: Drawn) -> PagePicture:
    return PagePicture(
        drawn.name,
        drawn.title,
        drawn.finding,
        Markup(inline_svg(drawn, WIDE_PX)),
        Markup(inline_svg(drawn, NARROW_PX)),
        drawn.heads,
        drawn.rows,
        drawn.command,
    )
