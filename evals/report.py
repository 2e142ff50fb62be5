"""The results as one Markdown report, read on a terminal or kept as a file with its pictures next to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from evals.outcome import Gain
from evals.regression import Regression
from evals.summary import POOLS, Bin, Details, Gains, Group, Mean, ModelTotals, Results

COLUMNS = (
    ("top_1", "first cause"),
    ("also_right", "of it also right"),
    ("mechanism", "mechanism"),
    ("top_3", "in first 3"),
    ("diagnosed", "supported"),
    ("family", "family"),
    ("verdict", "verdict"),
    ("rank_scope", "ranks"),
    ("step_scope", "steps"),
    ("set_f1", "set F1"),
    ("names", "names"),
    ("healthy_false_positive", "healthy false positives"),
    ("no_forbidden_cause", "no excluded cause"),
    ("abstention", "abstains"),
    ("refusal", "refuses"),
    ("citation_existence", "ids exist"),
    ("citation_support", "citations support"),
    ("numeric_fidelity", "figures"),
    ("expected_facts", "facts"),
)
FAULT_HEAD = ("fault", "dev first", "dev clean", "test first", "test clean")
ABOUT = (
    "Real runs are public traces and recordings of the lab; runs of others were recorded by other people in other"
    " styles of code, each judged with everything and by its traces alone. They are never pooled with each other or"
    " with synthetic ones. Rules and thresholds were made with the split dev at hand; docs/evaluation.md says what of"
    " test was seen. Intervals are 95 % bootstrap intervals over cases."
)
NO_TEST = "No real run is in the split test: the analyzers were written with these runs at hand."
SIDE, EDGE = 260, 40
MOST_SPEEDUP = 4.0


def write_report(results: Results, path: Path, command: str, regression: Regression | None = None) -> None:
    """Write the report, and its pictures into the same folder under its name."""
    path.write_text(report(results, command, regression, path.stem), encoding="utf-8")
    for whole in _wholes(results):
        if whole.curve:
            path.with_name(_picture(path.stem, whole.pool, "calibration")).write_text(calibration_svg(whole.curve))
        known = [r.gain for r in results.cases if POOLS[r.tags.source] == whole.pool and r.gain is not None]
        if known:
            path.with_name(_picture(path.stem, whole.pool, "gains")).write_text(gains_svg(known))


def report(results: Results, command: str, regression: Regression | None = None, stem: str = "") -> str:
    """Return the report as Markdown, with links to its pictures where ``stem`` names them."""
    overall = [group for group in results.groups if not group.dimension]
    lines = ["# Evaluation", "", f"Made by `{command}`; {counts_line(results)}; answers by {results.model}.", "", ABOUT]
    lines += ["", *_scores(overall)]
    if not any(each.tags.source != "synthetic" and each.tags.split == "test" for each in results.cases):
        lines += [NO_TEST, ""]
    lines += [] if results.totals is None else [*(f"- {line}" for line in model_lines(results.totals)), ""]
    for whole in _wholes(results):
        lines += [f"## {whole.pool[0].upper()}{whole.pool[1:]}", "", *_gains(results, whole, stem)]
        lines += [*_table(FAULT_HEAD, fault_rows(results, whole.pool)), *_calibration(whole, stem)]
        for dimension in ("source", "kind", "family", "difficulty", "scale"):
            lines += _by_tag(results, whole.pool, dimension)
    lines += ["## Misses", "", *(_misses(results) or ["None."]), ""]
    if regression is not None:
        head = f"{regression.compared} cases compared, {len(regression.worse)} worse"
        lines += ["## Against the saved results", "", f"- {head}", *(f"- worse {line}" for line in regression.worse)]
        lines += [*(f"- better {name}" for name in regression.better), ""]
    return "\n".join(lines)


def percent(value: Mean | None) -> str:
    """Return ``85 % [70, 95] of 20``, or a dash; never 0 or 100 for what is only close to it."""
    if value is None:
        return "-"
    low, middle, high = (_share(part) for part in (value.low, value.mean, value.high))
    return f"{middle} % [{low}, {high}] of {value.cases}"


def _share(part: float) -> str:
    whole = f"{100 * part:.0f}"
    if (whole == "100" and part < 1.0) or (whole == "0" and part > 0.0):
        return f"{min(max(100 * part, 0.1), 99.9):.1f}"
    return whole


def counts_line(results: Results) -> str:
    """Return ``160 cases: 150 scored, 8 skipped, 2 failed; 92.1 s, 2 at once``."""
    counts = results.counts
    parts = [f"{counts.get(status, 0)} {status}" for status in ("scored", "skipped", "failed")]
    return f"{counts['cases']} cases: {', '.join(parts)}; {results.seconds:.1f} s, {results.at_once} at once"


def model_lines(totals: ModelTotals) -> list[str]:
    """Return what the model did and took."""
    cost = "unknown" if totals.cost is None else f"{totals.cost:.4f}"
    return [
        f"model: pass^{totals.attempts} {percent(totals.pass_all)}, one attempt {percent(totals.pass_one)}",
        f"model: answers with statements that passed {percent(totals.written_by_model)}",
        f"model: per case {totals.calls:.1f} calls, {totals.tokens:.0f} tokens, {totals.seconds:.1f} s, cost {cost}",
    ]


def gains_line(gains: Gains) -> str:
    """Return how far predicted gains are from measured ones, in one sentence without a full stop."""
    text = (
        f"predicted gain off by {gains.median_error_pct:.1f} % of the step (median of {gains.cases}), interval "
        f"covers the measured {percent(gains.covered)} (it claims {100 * gains.claimed:.0f} %)"
    )
    if gains.met is not None and gains.met.mean != gains.covered.mean:
        text += f", meets the interval measured {percent(gains.met)}"
    if gains.unpredicted and gains.median_error_all_pct is not None:
        text += f"; {gains.unpredicted} pairs without a prediction, with them {gains.median_error_all_pct:.1f} %"
    return text


def fault_rows(results: Results, pool: str) -> list[tuple[str, ...]]:
    """Return per fault and split how often the cause came first, and cases without a miss (fixed twins included)."""
    found: dict[str, dict[str, Group]] = {}
    for group in results.groups:
        if group.pool == pool and group.dimension == "fault" and group.split:
            found.setdefault(group.value, {})[group.split] = group
    return [
        (fault, *_first_and_clean(of.get("dev")), *_first_and_clean(of.get("test")))
        for fault, of in sorted(found.items())
    ]


def _first_and_clean(group: Group | None) -> tuple[str, str]:
    if group is None:
        return "-", "-"
    first = group.scores.get("top_1")
    return f"{round(first.mean * first.cases)} of {first.cases}" if first else "-", f"{group.right} of {group.cases}"


def calibration_svg(curve: Sequence[Bin]) -> str:
    """Return stated confidence (x) against the share that was right (y); a dot's area is the number of cases."""
    return _frame("stated confidence", "was right", [_dot(b.confidence, b.accuracy, 3.0 + b.cases**0.5) for b in curve])


def gains_svg(gains: Sequence[Gain]) -> str:
    """Return measured speedup (x) against the predicted one with its interval (y), both from 1 to 4."""
    marks = []
    for gain in gains:
        x, low, high, predicted = (
            min(max((speedup - 1.0) / (MOST_SPEEDUP - 1.0), 0.0), 1.0)
            for speedup in (gain.measured, gain.low, gain.high, gain.predicted)
        )
        line = f'<line x1="{_x(x):.1f}" x2="{_x(x):.1f}" y1="{_y(low):.1f}" y2="{_y(high):.1f}" stroke="#88a"/>'
        marks += [line, _dot(x, predicted, 3.0)]
    return _frame("measured speedup, 1 to 4", "predicted", marks)


def _x(share: float) -> float:
    return EDGE + share * SIDE


def _y(share: float) -> float:
    return EDGE / 2 + (1.0 - share) * SIDE


def _dot(x: float, y: float, radius: float) -> str:
    return f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="{radius:.1f}" fill="#36c" fill-opacity="0.7"/>'


def _frame(across: str, upwards: str, marks: Sequence[str]) -> str:
    whole = SIDE + 2 * EDGE
    between = "\n".join(marks)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{whole}" font-family="sans-serif" font-size="12">
<rect x="{EDGE}" y="{EDGE / 2}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>
<line x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}" stroke="#999" stroke-dasharray="4 4"/>
{between}
<text x="{whole / 2}" y="{whole - 35}" text-anchor="middle">{across}</text>
<text x="16" y="{whole / 2}" transform="rotate(-90 16 {whole / 2})" text-anchor="middle">{upwards}</text>
</svg>
"""


def _wholes(results: Results) -> list[Details]:
    return [details for details in results.details if not details.split]


def _picture(stem: str, pool: str, what: str) -> str:
    return f"{stem}_{pool.replace(' ', '_')}_{what}.svg"


def _link(stem: str, pool: str, what: str) -> list[str]:
    return [f"![{what}]({_picture(stem, pool, what)})", ""] if stem else []


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A Markdown table with aligned columns; nothing without rows."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    if len(cells) == 1:
        return []
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    aligned = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    return [*(f"| {' | '.join(row)} |" for row in aligned), ""]


def _scores(groups: Sequence[Group]) -> list[str]:
    head = ["score", *(f"{group.pool}, {group.split}" if group.split else group.pool for group in groups)]
    right = ["without a miss", *(f"{group.right} of {group.cases}" for group in groups)]
    named = [(name, label) for name, label in COLUMNS if any(name in group.scores for group in groups)]
    return _table(head, [right, *([label, *(percent(g.scores.get(name)) for g in groups)] for name, label in named)])


def _by_tag(results: Results, pool: str, dimension: str) -> list[str]:
    rows = [
        (
            g.value,
            g.cases,
            g.right,
            percent(g.scores.get("top_1")),
            percent(g.scores.get("verdict")),
            f"{g.seconds:.1f}",
        )
        for g in results.groups
        if g.pool == pool and g.dimension == dimension and not g.split
    ]
    return _table((dimension, "cases", "without a miss", "first cause", "verdict", "seconds a case"), rows)


def _gains(results: Results, whole: Details, stem: str) -> list[str]:
    """Predicted against measured gain of the pool and of each split."""
    known = [each for each in results.details if each.pool == whole.pool]
    lines = [f"- {each.split or 'both splits'}: {gains_line(each.gains)}" for each in known if each.gains is not None]
    return [*lines, "", *_link(stem, whole.pool, "gains")] if lines else []


def _calibration(whole: Details, stem: str) -> list[str]:
    lines: list[str] = []
    if whole.calibration_error is not None:
        rows = [
            (f"{b.low:.1f} to {b.high:.1f}", f"{b.confidence:.2f}", f"{b.accuracy:.2f}", b.cases) for b in whole.curve
        ]
        lines += [f"Expected calibration error of the first cause's confidence: {whole.calibration_error:.2f}.", ""]
        lines += _table(("stated", "mean stated", "right", "cases"), rows) + _link(stem, whole.pool, "calibration")
    firsts = {
        label: ", ".join(f"{name} {count}" for name, count in counts.items())
        for label, counts in whole.confusion.items()
    }
    return [*lines, *_table(("labelled", "came first (cases)"), firsts.items())]


def _misses(results: Results) -> list[str]:
    lines = [f"- `{r.id}` ({r.tags.source}): {'; '.join(r.misses)}" for r in results.cases if r.misses]
    lines += [f"- `{r.id}` {r.status}: {r.reason}" for r in results.cases if r.status != "scored"]
    return [line.replace("|", "\\|") for line in lines]
