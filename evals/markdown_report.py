"""The results as one Markdown report; pictures lie beside it as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evals.pictures import calibration_svg, gains_svg
from evals.regression import Regression
from evals.summary import POOLS, Details, Group, Results
from evals.tables import (
    COLUMNS,
    FAULT_HEAD,
    counts_line,
    fault_rows,
    gains_line,
    model_lines,
    overall,
    percent,
    regression_lines,
    title,
)


def write_report(results: Results, path: Path, command: str, regression: Regression | None = None) -> None:
    """Writes the report, and its pictures into the same folder under its name."""
    path.write_text(report(results, path.stem, command, regression), encoding="utf-8")
    for details in _wholes(results):
        if details.curve:
            _picture(path, details.pool, "calibration").write_text(calibration_svg(details.curve), encoding="utf-8")
        known = [r.gain for r in results.cases if POOLS[r.tags.source] == details.pool and r.gain is not None]
        if known:
            _picture(path, details.pool, "gains").write_text(gains_svg(known), encoding="utf-8")


def _wholes(results: Results) -> list[Details]:
    return [details for details in results.details if not details.split]


def _picture(path: Path, pool: str, what: str) -> Path:
    return path.with_name(_picture_name(path.stem, pool, what))


def _picture_name(stem: str, pool: str, what: str) -> str:
    return f"{stem}_{pool.replace(' ', '_')}_{what}.svg"


def report(results: Results, stem: str, command: str, regression: Regression | None = None) -> str:
    """The text of the report."""
    lines = ["# Evaluation", "", f"Made by `{command}`; {counts_line(results)}; answers by {results.model}.", ""]
    lines += [
        "Real runs are public traces and recordings of the lab; synthetic ones are never pooled with them. Rules and "
        "thresholds were made with the split dev at hand; docs/evaluation.md says what of test was seen. Intervals are "
        "95 % bootstrap intervals over cases.",
        "",
    ]
    lines += [*_table(overall(results)), *_unseen(results)]
    if results.totals is not None:
        lines += [*(f"- {line}" for line in model_lines(results.totals)), ""]
    for whole in _wholes(results):
        lines += [f"## {whole.pool[0].upper()}{whole.pool[1:]}", "", *_gains(results, whole, stem)]
        lines += _faults(results, whole.pool)
        lines += _details(whole, stem)
        for dimension in ("source", "kind", "family", "difficulty", "scale"):
            lines += _by_tag(dimension, _chosen(results, whole.pool, dimension))
    lines += ["## Misses", "", *_misses(results), ""]
    if regression:
        lines += [
            "## Against the saved results",
            "",
            *(f"- {line}" for line in regression_lines(regression) if line),
            "",
        ]
    return "\n".join(lines)


def _chosen(results: Results, pool: str, dimension: str) -> list[Group]:
    return [g for g in results.groups if g.pool == pool and g.dimension == dimension and not g.split]


def _unseen(results: Results) -> list[str]:
    """Says so when no recorded run is left that nobody looked at while the analyzers were written."""
    if any(result.tags.source != "synthetic" and result.tags.split == "test" for result in results.cases):
        return []
    return ["No real run is in the split test: the analyzers were written with these runs at hand.", ""]


def _table(groups: list[Group]) -> list[str]:
    head = ["score", *(title(group.pool, group.split) for group in groups)]
    rows = [head, ["---"] * len(head), ["without a miss", *(f"{g.right} of {g.cases}" for g in groups)]]
    rows += [
        [label, *(percent(group.scores.get(name)) for group in groups)]
        for name, label in COLUMNS
        if any(name in group.scores for group in groups)
    ]
    return [*_lines(rows), ""]


def _lines(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in rows]


def _faults(results: Results, pool: str) -> list[str]:
    rows = fault_rows(results, pool)
    return [*_lines([FAULT_HEAD, ["---"] * len(FAULT_HEAD), *rows]), ""] if rows else []


def _by_tag(dimension: str, groups: list[Group]) -> list[str]:
    if not groups:
        return []
    rows = [
        (
            g.value, str(g.cases), str(g.right), percent(g.scores.get("top_1")), percent(g.scores.get("verdict")),
            f"{g.seconds:.1f}",
        )
        for g in groups
    ]  # fmt: skip
    head = (dimension, "cases", "without a miss", "first cause", "verdict", "seconds a case")
    return [*_lines([head, ["---"] * len(head), *rows]), ""]


def _gains(results: Results, whole: Details, stem: str) -> list[str]:
    """Predicted against measured gain of the pool and of each split."""
    of_pool = [each for each in results.details if each.pool == whole.pool and each.gains is not None]
    lines = [f"- {each.split or 'both splits'}: {gains_line(each.gains)}" for each in of_pool if each.gains]
    if not lines:
        return []
    return [*lines, "", f"![gains]({_picture_name(stem, whole.pool, 'gains')})", ""]


def _details(details: Details, stem: str) -> list[str]:
    lines: list[str] = []
    if details.calibration_error is not None:
        lines += [f"Expected calibration error of the first cause's confidence: {details.calibration_error:.2f}.", ""]
        lines += ["| stated | mean stated | right | cases |", "|---|---|---|---|"]
        lines += [
            f"| {b.low:.1f} to {b.high:.1f} | {b.confidence:.2f} | {b.accuracy:.2f} | {b.cases} |"
            for b in details.curve
        ]
        lines += ["", f"![calibration]({_picture_name(stem, details.pool, 'calibration')})", ""]
    lines += ["| labelled | came first (cases) |", "|---|---|"]
    for label, counts in details.confusion.items():
        lines.append(f"| {label} | {', '.join(f'{name} {count}' for name, count in counts.items())} |")
    return [*lines, ""]


def _misses(results: Results) -> list[str]:
    lines = [f"- `{r.id}` ({r.tags.source}): {'; '.join(r.misses)}" for r in results.cases if r.misses]
    lines += [f"- `{r.id}` {r.status}: {r.reason}" for r in results.cases if r.status != "scored"]
    return [line.replace("|", "\\|") for line in lines] or ["None."]
