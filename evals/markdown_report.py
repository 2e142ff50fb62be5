"""The calibration curve and predicted against measured gain as small SVG pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evals.outcome import Gain
from evals.regression import Regression
from evals.statistics import Bin
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

SIDE, EDGE = 260, 40
MOST_SPEEDUP = 4.0


def calibration_svg(curve: Sequence[Bin]) -> str:
    """Stated confidence to the right, share that was right upwards; a dot's area is the number of cases."""
    dots = [_dot(each.confidence, each.accuracy, 3.0 + each.cases**0.5) for each in curve]
    return _frame("stated confidence", "was right", dots)


def gains_svg(gains: Sequence[Gain]) -> str:
    """Measured speedup to the right, predicted upwards with its interval, both from 1 to 4."""
    marks = [mark for each in gains for mark in _interval(each)]
    return _frame("measured speedup, 1 to 4", "predicted", marks)


def _interval(gain: Gain) -> tuple[str, str]:
    x, low, high = (_scaled(value) for value in (gain.measured, gain.low, gain.high))
    line = f'<line x1="{_x(x):.1f}" x2="{_x(x):.1f}" y1="{_y(low):.1f}" y2="{_y(high):.1f}" stroke="#88a"/>'
    return line, _dot(x, _scaled(gain.predicted), 3.0)


def _scaled(speedup: float) -> float:
    return min(max((speedup - 1.0) / (MOST_SPEEDUP - 1.0), 0.0), 1.0)


def _x(share: float) -> float:
    return EDGE + share * SIDE


def _y(share: float) -> float:
    return EDGE / 2 + (1.0 - share) * SIDE


def _dot(x: float, y: float, radius: float) -> str:
    return f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="{radius:.1f}" fill="#36c" fill-opacity="0.7"/>'


def _frame(across: str, upwards: str, marks: Sequence[str]) -> str:
    whole = SIDE + 2 * EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{whole}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect x="{EDGE}" y="{EDGE / 2}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>',
        f'<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#999" stroke-dasharray="4 4"/>',
        *marks,
        f'<text x="{whole / 2}" y="{whole - 35}" text-anchor="middle">{across}</text>',
        f'<text x="16" y="{whole / 2}" transform="rotate(-90 16 {whole / 2})" text-anchor="middle">{upwards}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


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
