"""The results as one Markdown report; pictures lie beside it as SVG."""

from __future__ import annotations

from pathlib import Path

from evals.pictures import calibration_svg, gains_svg
from evals.regression import Regression
from evals.summary import Group, Results, SourceDetails
from evals.tables import COLUMNS, counts_line, overall, percent, regression_lines, title


def write_report(results: Results, path: Path, command: str, regression: Regression | None = None) -> None:
    """Writes the report, and its pictures into the same folder under its name."""
    path.write_text(report(results, path.stem, command, regression), encoding="utf-8")
    for details in results.details:
        if details.curve:
            _picture(path, details.source, "calibration").write_text(calibration_svg(details.curve), encoding="utf-8")
        known = [r.gain for r in results.cases if r.tags.source == details.source and r.gain is not None]
        if known:
            _picture(path, details.source, "gains").write_text(gains_svg(known), encoding="utf-8")


def _picture(path: Path, source: str, what: str) -> Path:
    return path.with_name(f"{path.stem}_{source}_{what}.svg")


def report(results: Results, stem: str, command: str, regression: Regression | None = None) -> str:
    """The text of the report."""
    lines = ["# Evaluation", "", f"Made by `{command}`; {counts_line(results)}; answers by {results.model}.", ""]
    lines += ["Sources are never pooled; intervals are 95 % bootstrap intervals over cases.", ""]
    lines += [*_table(overall(results)), *_unseen(results)]
    for details in results.details:
        lines += [f"## {details.source}", ""]
        lines += _details(details, stem)
        for dimension in ("kind", "family", "difficulty"):
            chosen = [g for g in results.groups if g.source == details.source and g.dimension == dimension]
            lines += _by_tag(dimension, chosen)
    lines += ["## Misses", "", *_misses(results), ""]
    if regression:
        lines += [
            "## Against the saved results",
            "",
            *(f"- {line}" for line in regression_lines(regression) if line),
            "",
        ]
    return "\n".join(lines)


def _unseen(results: Results) -> list[str]:
    """Says so when no recorded run is left that nobody looked at while the analyzers were written."""
    if any(result.tags.source != "synthetic" and result.tags.split == "test" for result in results.cases):
        return []
    return ["No real or lab run is in the split test: the analyzers were written with these runs at hand.", ""]


def _table(groups: list[Group]) -> list[str]:
    head = ["score", *(title(group) for group in groups)]
    rows = [head, ["---"] * len(head), ["without a miss", *(f"{g.right} of {g.cases}" for g in groups)]]
    rows += [
        [label, *(percent(group.scores.get(name)) for group in groups)]
        for name, label in COLUMNS
        if any(name in group.scores for group in groups)
    ]
    return [*(f"| {' | '.join(row)} |" for row in rows), ""]


def _by_tag(dimension: str, groups: list[Group]) -> list[str]:
    lines = [f"| {dimension} | cases | without a miss | first cause | verdict |", "|---|---|---|---|---|"]
    lines += [
        f"| {g.value} | {g.cases} | {g.right} | {percent(g.scores.get('top_1'))} | {percent(g.scores.get('verdict'))} |"
        for g in groups
    ]
    return [*lines, ""]


def _details(details: SourceDetails, stem: str) -> list[str]:
    lines: list[str] = []
    if details.calibration_error is not None:
        lines += [f"Expected calibration error of the first cause's confidence: {details.calibration_error:.2f}.", ""]
        lines += ["| stated | mean stated | right | cases |", "|---|---|---|---|"]
        lines += [
            f"| {b.low:.1f} to {b.high:.1f} | {b.confidence:.2f} | {b.accuracy:.2f} | {b.cases} |"
            for b in details.curve
        ]
        lines += ["", f"![calibration]({stem}_{details.source}_calibration.svg)", ""]
    if details.gains is not None:
        lines += [
            f"Predicted against measured gain over {details.gains.cases} cases: median error "
            f"{details.gains.median_error_pct:.1f} % of the step, interval covers {percent(details.gains.covered)}.",
            "",
            f"![gains]({stem}_{details.source}_gains.svg)",
            "",
        ]
    lines += ["| labelled | came first (cases) |", "|---|---|"]
    for label, counts in details.confusion.items():
        lines.append(f"| {label} | {', '.join(f'{name} {count}' for name, count in counts.items())} |")
    return [*lines, ""]


def _misses(results: Results) -> list[str]:
    lines = [f"- `{r.id}` ({r.tags.source}): {'; '.join(r.misses)}" for r in results.cases if r.misses]
    lines += [f"- `{r.id}` {r.status}: {r.reason}" for r in results.cases if r.status != "scored"]
    return [line.replace("|", "\\|") for line in lines] or ["None."]
