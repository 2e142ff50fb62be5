"""A diagnosis as one HTML file that holds everything it shows and loads nothing.

Pictures are SVG drawn beforehand, not drawn by Vega in the page: its bundle alone has 0.9 MB, and compiles expressions
at run time, which the page's Content-Security-Policy forbids. Everything from a run goes through Jinja2's escaping.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hermes_agent.evidence.citations import written
from hermes_agent.evidence.printable import printable
from hermes_agent.locations.places import origin
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis, EvidenceRecord, SourceRecord
from hermes_agent.model.display import cause_heading, cause_title, counted, numbered, rank_count, rank_list
from hermes_agent.report.headline import headline_cause
from hermes_agent.report.html.text import link, linked, web_address
from hermes_agent.report.pictures.export import inline_svg
from hermes_agent.report.pictures.palette import style_variables
from hermes_agent.report.pictures.registry import Drawn, drawable, most_telling
from hermes_agent.report.sections import cause_facts, cause_lines, interval_meaning, sections
from hermes_agent.version import VERSION
from tools.knowledge.taxonomy import EFFORTS

if TYPE_CHECKING:
    from tools.views.profile import Profile

HERE = Path(__file__).parent
WIDE_PX, NARROW_PX = 780, 320
MOST_SOURCES = 64  # files listed, those that were not read in full first
MOST_EVIDENCE = 2000
MOST_ASKING = 8  # checks that are named with what they need
CELL_CHARS, NAME_CHARS = 300, 80
OUTCOMES: Mapping[Literal["found", "clean", "cannot_answer"], str] = {
    "found": "found something",
    "cannot_answer": "cannot answer",
    "clean": "clean",
}


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
class PageCause:
    """One cause as the page shows it."""

    heading: str
    facts: str
    claim: str
    lines: tuple[str, ...]
    evidence: tuple[str, ...]
    against: tuple[str, ...]
    advice: tuple[object, ...]


@dataclass(frozen=True)
class PageEvidence:
    """One figure as a row."""

    id: str
    figure: str
    metric: str
    arguments: str
    where: str
    source: str


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
    shown = {name: found.get(name) for name in ("comparison", "leads", "hypotheses", "routes", "ranks", "notes")}
    return environment.get_template("page.html").render(diagnosis=diagnosis, sections=shown, page=page)


def _page(diagnosis: Diagnosis, profile: Profile | None, paths: Sequence[Path]) -> Page:
    style = ":root {\n" + style_variables() + "\n}\n" + (HERE / "page.css").read_text(encoding="utf-8")
    script = (HERE / "page.js").read_text(encoding="utf-8")
    drawn, missing = drawable(diagnosis, profile)
    order = [name for name in most_telling(diagnosis) if name in drawn]
    pictures = [_picture(drawn[name]) for name in order]
    needs = _needs(diagnosis)
    outcomes = Counter(check.status for check in diagnosis.checks)
    return Page(
        title=_title(diagnosis, paths),
        about=_about(diagnosis),
        confidence=_confidence(diagnosis),
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        known=_known(diagnosis),
        figures=_figures(diagnosis),
        causes=tuple(_cause(cause, diagnosis) for cause in diagnosis.causes),
        ranges=" ".join(interval_meaning(diagnosis)),
        gains=_gains(diagnosis),
        first=pictures[0] if pictures else None,
        pictures=tuple(pictures[1:]),
        missing=tuple((name.replace("_", " "), reason) for name, reason in missing.items()),
        unanswered=tuple((need, _asking(checks)) for need, checks in needs.items()),
        unanswered_count=f"{outcomes['cannot_answer']} of {counted(len(diagnosis.checks), 'check')} cannot answer",
        coverage=_coverage(diagnosis),
        sources_title=_sources_title(diagnosis),
        sources=_sources(diagnosis),
        outcomes=", ".join(f"{outcomes[status]} {name}" for status, name in OUTCOMES.items()),
        checks=_checks(diagnosis),
        evidence=tuple(map(_evidence, diagnosis.evidence[:MOST_EVIDENCE])),
        evidence_count=counted(len(diagnosis.evidence), "figure"),
        commands=_commands(diagnosis, paths),
    )


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


def _known(diagnosis: Diagnosis) -> frozenset[str]:
    records = (diagnosis.evidence[:MOST_EVIDENCE], diagnosis.advice, diagnosis.cases, diagnosis.leads)
    return frozenset(row.id for rows in (*records, diagnosis.hypotheses) for row in rows)


def _title(diagnosis: Diagnosis, paths: Sequence[Path]) -> str:
    """The run by the names of its paths or URLs, else of its files."""
    used = [source.path for source in diagnosis.run.sources if source.status != "excluded"]
    names = (
        [path.name or str(path) for path in paths] or [path.rsplit("/", 1)[-1] for path in used] or ["without files"]
    )
    first = f"Run {printable(names[0], NAME_CHARS)}"
    return first if len(names) == 1 else f"{first} and {len(names) - 1:,} more"


def _origin(path: Path) -> str:
    """The path, or the URL that it is a copy of."""
    return origin(path) or str(path)


def _about(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    if not run.ranks and run.recorded is not None:
        return f"{counted(len(run.recorded.ranks), 'rank')}, no trace: records of whole steps only"
    return f"{rank_count(run)}, {counted(len(run.steps), 'step')}, {', '.join(run.devices) or 'CPU only'}"


def _confidence(diagnosis: Diagnosis) -> str:
    """The confidence in the cause that the headline names."""
    cause = headline_cause(diagnosis)
    return "" if cause is None else f"confidence {cause.confidence:.2f} in {cause_title(cause.cause, cause.mechanism)}"


def _figures(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """Step times, each with its id."""
    times = diagnosis.step_time_ms
    if times is None:
        return ()
    rows = [("Step", times.mean, times.median, times.p95, times.evidence)]
    if times.unprofiled is not None and times.unprofiled.evidence != times.evidence:  # else there are no others
        other = times.unprofiled
        rows.append(("Unprofiled step", other.mean, other.median, other.p95, other.evidence))
    return tuple(
        (f"{name}, {statistic}", f"{written(value, 'ms')} [{identifier}]")
        for name, mean, median, p95, evidence in rows
        for statistic, value, identifier in zip(("mean", "median", "p95"), (mean, median, p95), evidence, strict=True)
    )


def _cause(cause: CauseRecord, diagnosis: Diagnosis) -> PageCause:
    own = [each for each in diagnosis.advice if (each.for_, each.mechanism) == (cause.cause, cause.mechanism)]
    return PageCause(
        cause_heading(cause.cause, cause.mechanism),
        cause_facts(cause, diagnosis),
        cause.claim,
        tuple(cause_lines(cause)),
        tuple(cause.evidence),
        tuple(cause.evidence_against),
        tuple(own),
    )


def _gains(diagnosis: Diagnosis) -> tuple[tuple[str, ...], ...]:
    rows = []
    for item in diagnosis.advice:
        gain = ("not predicted", "", "")
        if item.predicted_step_ms is not None and item.predicted_speedup is not None and item.interval is not None:
            low, high = item.interval
            gain = (
                written(item.predicted_step_ms, "ms"),
                f"{item.predicted_speedup:.2f}x",
                f"{low:.2f}x to {high:.2f}x",
            )
        rows.append((item.optimization, cause_title(item.for_, item.mechanism), EFFORTS[item.effort], *gain))
    return tuple(rows)


def _needs(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """What to record, with the checks that would answer then, in the order of the diagnosis."""
    needs: dict[str, list[str]] = {need: [] for need in diagnosis.next_measurements}
    for check in diagnosis.checks:
        if check.status == "cannot_answer":
            needs.setdefault(check.needs or check.reason, []).append(check.analyzer)
    return {need: checks or ["the verdict"] for need, checks in needs.items()}


def _asking(checks: Sequence[str]) -> str:
    more = len(checks) - MOST_ASKING
    return ", ".join(checks[:MOST_ASKING]) + (f" and {counted(more, 'more check')}" if more > 0 else "")


def _coverage(diagnosis: Diagnosis) -> tuple[str, ...]:
    run, recorded = diagnosis.run, diagnosis.run.recorded
    lines = [f"Traced: {rank_count(run)}, {numbered('step', run.steps)}." if run.steps else "No step was traced."]
    if run.cut_ranks:
        lines.append(f"Cut, so nothing is measured on them: {rank_list(run.cut_ranks)}.")
    if recorded is not None and recorded.steps:
        steps = sum(last - first + 1 for first, last in recorded.steps)
        lines.append(f"Recorded without a profiler: {counted(len(recorded.ranks), 'rank')}, {counted(steps, 'step')}.")
    if diagnosis.causes:
        saved = sum(cause.impact_pct for cause in diagnosis.causes)
        lines.append(f"The savings of the causes found add up to {written(saved, '%')} of the step.")
    return (*lines, f"{_sources_title(diagnosis)}.")


def _sources_title(diagnosis: Diagnosis) -> str:
    counts = Counter(source.status for source in diagnosis.run.sources)
    return f"Files: {', '.join(f'{counts[each]:,} {name}' for each, name in READ.items() if counts[each])}"


READ: Mapping[Literal["complete", "partial", "excluded"], str] = {
    "complete": "read in full",
    "partial": "read in part",
    "excluded": "not read",
}


def _sources(diagnosis: Diagnosis) -> tuple[tuple[str, ...], ...]:
    """The files, those first that were not read in full."""
    ordered = sorted(diagnosis.run.sources, key=lambda source: source.status == "complete")
    rows = tuple(map(_source, ordered[:MOST_SOURCES]))
    left_out = len(ordered) - len(rows)
    return (*rows, (f"and {counted(left_out, 'more file')}", "", "", "", "")) if left_out else rows


def _source(source: SourceRecord) -> tuple[str, ...]:
    ranks = rank_list(source.ranks) if source.ranks else ""
    return source.path, source.format, ranks, READ[source.status], source.note


def _checks(diagnosis: Diagnosis) -> tuple[tuple[str, ...], ...]:
    order = list(OUTCOMES)
    return tuple(
        (
            check.analyzer,
            OUTCOMES[check.status],
            f"{check.reason.rstrip('.')}." if check.status == "cannot_answer" else " ".join(check.text),
        )
        for check in sorted(diagnosis.checks, key=lambda check: order.index(check.status))
    )


def _evidence(row: EvidenceRecord) -> PageEvidence:
    arguments = ", ".join(f"{name}={value}" for name, value in row.arguments.items() if value is not None)
    where = [rank_list(row.ranks) if row.ranks else "", numbered("step", row.steps) if row.steps else ""]
    of_baseline = "baseline: " if row.run == "baseline" else ""
    files = [path.rsplit("/", 1)[-1] for path in row.source.path.split(", ")]
    named = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"
    return PageEvidence(
        row.id,
        written(row.value, row.unit),
        row.metric,
        printable(arguments, CELL_CHARS),
        ", ".join(filter(None, where)),
        printable(f"{of_baseline}{named}: {row.source.selector}", CELL_CHARS),
    )


def _commands(diagnosis: Diagnosis, paths: Sequence[Path]) -> tuple[str, ...]:
    run = " ".join(shlex.quote(printable(_origin(path))) for path in paths) or "RUN"
    baseline = " --baseline BASELINE" if diagnosis.comparison is not None else ""
    shown = diagnosis.evidence[:1]
    return (
        f"hermes-dx diagnose {run}{baseline} -v   # every check with its figures",
        *(f"hermes-dx show {row.id}   # the rows behind a figure" for row in shown),
        f"hermes-dx chat {run}   # questions about the run",
        f"hermes-dx diagnose {run} --perfetto trace.json   # the steps with the causes, for Perfetto",
    )
