"""The results as one Markdown report, read on a terminal or kept as a file with its pictures next to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evals.results.charts import calibration_svg, gains_svg
from evals.results.held_out import HeldOut
from evals.results.model_totals import ModelTotals
from evals.results.predicted_gains import Gains
from evals.results.regression import Regression
from evals.results.source_report import lead_lines, source_lines
from evals.results.summary import Details, Group, Results
from evals.results.tables import percent, table
from evals.suite.origins import ORIGINS, OriginShare
from evals.suite.outcome import CaseResult

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
    ("both_named", "both causes named"),
    ("shared_honestly", "both promise no more than measured"),
)
OVERVIEW = ("top_1", "diagnosed", "healthy_false_positive", "verdict", "rank_scope", "citation_support")
GAINS_HEAD = ("labelled", "pairs", "median error, % of the step", "bias", "covered", "without a prediction")
FAULT_HEAD = ("fault", "dev first", "dev clean", "test first", "test clean")
ABOUT = (
    "Origins are never pooled. Of recorded runs (lab, other habits, runs of others) these are the answers with all that"
    " was recorded; the table of sources has those with some of it. Rules and thresholds were made with the"
    " split dev at hand; docs/evaluation.md says what of test was seen. Intervals are 95 % bootstrap intervals over"
    " cases."
)
NO_TEST = "No recorded run is in the split test: the analyzers were written with these runs at hand."


def write_report(results: Results, path: Path, command: str, regression: Regression | None = None) -> None:
    """Write the report, and its pictures into the same folder under its name."""
    path.write_text(report(results, command, regression, path.stem), encoding="utf-8")
    for whole in _wholes(results):
        if whole.curve:
            path.with_name(_picture(path.stem, whole.origin, "calibration")).write_text(calibration_svg(whole.curve))
        known = [r.gain for r in _of_origin(results, whole.origin) if r.gain is not None]
        if known:
            path.with_name(_picture(path.stem, whole.origin, "gains")).write_text(gains_svg(known))
    for row in results.held_out:
        path.with_name(_picture(path.stem, row.origin, "held_out")).write_text(calibration_svg(row.curve))


def report(results: Results, command: str, regression: Regression | None = None, stem: str = "") -> str:
    """Return the report as Markdown, with links to its pictures where ``stem`` names them."""
    overall = [group for group in results.groups if not group.dimension]
    lines = ["# Evaluation", "", *headline(results)]
    lines += [f"Made by `{command}`; {counts_line(results)}; answers by {results.model}.", "", ABOUT, ""]
    lines += _overview(overall)
    if not any(each.tags.source != "synthetic" and each.tags.split == "test" for each in results.cases):
        lines += [NO_TEST, ""]
    lines += [] if results.totals is None else [*(f"- {line}" for line in model_lines(results.totals)), ""]
    lines += [*source_lines(results.sourced), *lead_lines(results.sourced), *_held_out(results.held_out, stem)]
    for whole in _wholes(results):
        lines += [f"## {whole.origin[0].upper()}{whole.origin[1:]}", ""]
        lines += [*_scores([g for g in overall if g.origin == whole.origin]), *_gains(results, whole, stem)]
        lines += [*table(FAULT_HEAD, fault_rows(results, whole.origin)), *_calibration(whole, stem)]
        for dimension in ("kind", "family", "difficulty", "scale"):
            lines += _by_tag(results, whole.origin, dimension)
    lines += ["## Misses", "", *(_misses(results) or ["None."]), ""]
    if regression is not None:
        head = f"{regression.compared} cases compared, {len(regression.worse)} worse"
        lines += ["## Against the saved results", "", f"- {head}", *(f"- worse {line}" for line in regression.worse)]
        lines += [*(f"- better {name}" for name in regression.better), ""]
    return "\n".join(lines)


def headline(results: Results) -> list[str]:
    """Return the worst origin first: right first causes, and healthy runs called a problem."""
    lines = []
    if results.first_causes:
        lines += [f"**Right first cause, worst origin first: {_shares(results.first_causes)}.**", ""]
    if results.false_positives:
        lines += [f"**Healthy runs called a problem: {_shares(results.false_positives)}.**", ""]
    return lines


def _shares(shares: Sequence[OriginShare]) -> str:
    return ", ".join(f"{s.origin} {s.reached} of {s.cases} ({100 * s.share:.0f} %)" for s in shares)


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


def fault_rows(results: Results, origin: str) -> list[tuple[str, ...]]:
    """Return per fault and split how often the cause came first, and cases without a miss (fixed twins included)."""
    found: dict[str, dict[str, Group]] = {}
    for group in results.groups:
        if group.origin == origin and group.dimension == "fault" and group.split:
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


def _overview(groups: Sequence[Group]) -> list[str]:
    """One row for each origin and split."""
    labels = dict(COLUMNS)
    named = [name for name in OVERVIEW if any(name in group.scores for group in groups)]
    head = ("origin", "without a miss", *(labels[name] for name in named))
    return table(head, [_overview_row(group, named) for group in groups])


def _overview_row(group: Group, named: Sequence[str]) -> list[str]:
    origin = f"{group.origin}, {group.split}" if group.split else group.origin
    return [origin, f"{group.right} of {group.cases}", *(percent(group.scores.get(name)) for name in named)]


def _held_out(rows: Sequence[HeldOut], stem: str) -> list[str]:
    """What a map of confidence that was fitted on the other origins would give, next to what is stated."""
    if not rows:
        return []
    head = ("held out", "cases", "calibration error stated", "mapped", "Brier score stated", "mapped")
    cells = [
        (r.origin, r.cases, *(f"{v:.3f}" for v in (r.error_stated, r.error_mapped, r.brier_stated, r.brier_mapped)))
        for r in rows
    ]
    about = "A map of confidence fitted on the other origins (split dev), judged on the one that was held out:"
    return ["## Confidence, one origin held out", "", about, "", *table(head, cells), *_pictures(rows, stem)]


def _pictures(rows: Sequence[HeldOut], stem: str) -> list[str]:
    return [line for row in rows for line in _link(stem, row.origin, "held_out")]


def _of_origin(results: Results, origin: str) -> list[CaseResult]:
    return [r for r in results.cases if ORIGINS[r.tags.source] == origin and r.tags.sources == "all"]


def _wholes(results: Results) -> list[Details]:
    return [details for details in results.details if not details.split]


def _picture(stem: str, origin: str, what: str) -> str:
    return f"{stem}_{origin.replace(' ', '_')}_{what}.svg"


def _link(stem: str, origin: str, what: str) -> list[str]:
    return [f"![{what}]({_picture(stem, origin, what)})", ""] if stem else []


def _scores(groups: Sequence[Group]) -> list[str]:
    head = ["score", *(group.split or "both splits" for group in groups)]
    right = ["without a miss", *(f"{group.right} of {group.cases}" for group in groups)]
    named = [(name, label) for name, label in COLUMNS if any(name in group.scores for group in groups)]
    return table(head, [right, *([label, *(percent(g.scores.get(name)) for g in groups)] for name, label in named)])


def _by_tag(results: Results, origin: str, dimension: str) -> list[str]:
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
        if g.origin == origin and g.dimension == dimension and not g.split
    ]
    return table((dimension, "cases", "without a miss", "first cause", "verdict", "seconds a case"), rows)


def _gains(results: Results, whole: Details, stem: str) -> list[str]:
    """Predicted against measured gain of the pool and of each split."""
    known = [each for each in results.details if each.origin == whole.origin]
    lines = [f"- {each.split or 'both splits'}: {gains_line(each.gains)}" for each in known if each.gains is not None]
    if shared := whole.shared:
        lines.append(
            f"- several causes at once: their promises together are off by {shared.median_error_pct:.1f} % of the step"
            f" (median of {shared.cases}); one answer promises {shared.most_promised_pct:.1f} % at most"
        )
    rows = [
        (g.cause, g.pairs, _figure(g.median_error_pct), _figure(g.bias_pct), f"{g.covered} of {g.pairs}", g.unpredicted)
        for g in whole.gains_by_cause
    ]
    return [*lines, "", *table(GAINS_HEAD, rows), *_link(stem, whole.origin, "gains")] if lines else []


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _calibration(whole: Details, stem: str) -> list[str]:
    lines: list[str] = []
    if whole.calibration_error is not None:
        rows = [
            (f"{b.low:.1f} to {b.high:.1f}", f"{b.confidence:.2f}", f"{b.accuracy:.2f}", b.cases) for b in whole.curve
        ]
        lines += [f"Expected calibration error of the first cause's confidence: {whole.calibration_error:.2f}.", ""]
        lines += table(("stated", "mean stated", "right", "cases"), rows) + _link(stem, whole.origin, "calibration")
    firsts = {
        label: ", ".join(f"{name} {count}" for name, count in counts.items())
        for label, counts in whole.confusion.items()
    }
    return [*lines, *table(("labelled", "came first (cases)"), firsts.items())]


def _misses(results: Results) -> list[str]:
    lines = [f"- `{r.id}` ({ORIGINS[r.tags.source]}): {'; '.join(r.misses)}" for r in results.cases if r.misses]
    lines += [f"- `{r.id}` {r.status}: {r.reason}" for r in results.cases if r.status != "scored"]
    return [line.replace("|", "\\|") for line in lines]
