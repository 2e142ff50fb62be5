"""The results as a table for the terminal: one row per source and split, then what was missed."""

from __future__ import annotations

from collections.abc import Sequence

from evals.regression import Regression
from evals.statistics import Mean
from evals.summary import Group, Results

COLUMNS = (
    ("top_1", "first cause"),
    ("top_3", "in first 3"),
    ("diagnosed", "stood for"),
    ("family", "family"),
    ("verdict", "verdict"),
    ("rank_scope", "ranks"),
    ("set_f1", "set F1"),
    ("healthy_false_positive", "healthy false+"),
    ("abstention", "abstains"),
    ("citation_existence", "ids exist"),
    ("citation_support", "supported"),
    ("numeric_fidelity", "figures"),
    ("expected_facts", "facts"),
)


def percent(value: Mean | None) -> str:
    """``85 % [70, 95] of 20``, or a dash."""
    if value is None:
        return "-"
    return f"{_share(value.mean)} % [{_share(value.low)}, {_share(value.high)}] of {value.cases}"


def _share(part: float) -> str:
    """Percent without decimals; never 0 or 100 for what is only close to it."""
    whole = f"{100 * part:.0f}"
    if (whole == "100" and part < 1.0) or (whole == "0" and part > 0.0):
        return f"{min(max(100 * part, 0.1), 99.9):.1f}"
    return whole


def overall(results: Results) -> list[Group]:
    """Each source as a whole, then its splits."""
    return [group for group in results.groups if group.dimension in ("", "split")]


def title(group: Group) -> str:
    """``real`` or ``real, split test``."""
    return f"{group.source}, {group.dimension} {group.value}" if group.dimension else group.source


def text_report(results: Results, regression: Regression | None = None) -> str:
    """Everything for the terminal."""
    lines = [counts_line(results), ""]
    for group in overall(results):
        lines.append(f"{title(group)}: {group.right} of {group.cases} cases without a miss")
        lines += [f"  {label:16}{percent(group.scores[name])}" for name, label in COLUMNS if name in group.scores]
    for each in results.details:
        if each.calibration_error is not None:
            lines.append(f"{each.source}: calibration error {each.calibration_error:.2f}")
        if each.gains is not None:
            lines.append(
                f"{each.source}: predicted gain off by {each.gains.median_error_pct:.1f} % of the step (median), "
                f"interval covers {percent(each.gains.covered)}"
            )
    lines += ["", *miss_lines(results)]
    return "\n".join([*lines, *(regression_lines(regression) if regression else [])]) + "\n"


def counts_line(results: Results) -> str:
    """``160 cases: 150 scored, 8 skipped, 2 failed``."""
    counts = results.counts
    parts = [f"{counts.get(status, 0)} {status}" for status in ("scored", "skipped", "failed")]
    return f"{counts['cases']} cases: {', '.join(parts)}"


def miss_lines(results: Results) -> list[str]:
    """Every miss with its reason, then what failed or was skipped."""
    missed = [f"miss    {r.id}: {'; '.join(r.misses)}" for r in results.cases if r.misses]
    failed = [f"failed  {r.id}: {r.reason}" for r in results.cases if r.status == "failed"]
    skipped = [f"skipped {r.id}: {r.reason}" for r in results.cases if r.status == "skipped"]
    return [*missed, *failed, *skipped]


def regression_lines(regression: Regression) -> Sequence[str]:
    """What became worse or better against the saved run."""
    head = f"against the saved results: {regression.compared} cases compared, {len(regression.worse)} worse"
    return [
        "",
        head,
        *(f"worse   {line}" for line in regression.worse),
        *(f"better  {name}" for name in regression.better),
    ]
