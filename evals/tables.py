"""The results as a table for the terminal: one block per pool and split, faults in a table, then what was missed."""

from __future__ import annotations

from collections.abc import Sequence

from evals.regression import Regression
from evals.statistics import Gains, Mean
from evals.summary import Group, ModelTotals, Results

COLUMNS = (
    ("top_1", "first cause"),
    ("also_right", "of it also right"),
    ("mechanism", "mechanism"),
    ("top_3", "in first 3"),
    ("diagnosed", "stood for"),
    ("family", "family"),
    ("verdict", "verdict"),
    ("rank_scope", "ranks"),
    ("step_scope", "steps"),
    ("set_f1", "set F1"),
    ("names", "names"),
    ("healthy_false_positive", "healthy false+"),
    ("no_forbidden_cause", "none ruled out"),
    ("abstention", "abstains"),
    ("refusal", "refuses"),
    ("citation_existence", "ids exist"),
    ("citation_support", "supported"),
    ("numeric_fidelity", "figures"),
    ("expected_facts", "facts"),
)
FAULT_HEAD = ("fault", "dev first", "dev clean", "test first", "test clean")


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
    """Each pool as a whole, then its splits."""
    return [group for group in results.groups if not group.dimension]


def title(pool: str, split: str) -> str:
    """``real runs`` or ``real runs, test``."""
    return f"{pool}, {split}" if split else pool


def text_report(results: Results, regression: Regression | None = None) -> str:
    """Everything for the terminal."""
    lines = [counts_line(results), ""]
    for group in overall(results):
        lines.append(f"{title(group.pool, group.split)}: {group.right} of {group.cases} cases without a miss")
        lines += [f"  {label:17}{percent(group.scores[name])}" for name, label in COLUMNS if name in group.scores]
        lines += _details_lines(results, group)
    for pool in dict.fromkeys(group.pool for group in results.groups):
        lines += ["", *_columns([FAULT_HEAD, *fault_rows(results, pool)])]
    lines += [] if results.totals is None else ["", *model_lines(results.totals)]
    lines += ["", *miss_lines(results)]
    return "\n".join([*lines, *(regression_lines(regression) if regression else [])]) + "\n"


def _details_lines(results: Results, group: Group) -> list[str]:
    lines: list[str] = []
    for each in results.details:
        if (each.pool, each.split) == (group.pool, group.split):
            if each.calibration_error is not None:
                lines.append(f"  calibration error {each.calibration_error:.2f}")
            lines += [] if each.gains is None else [f"  {gains_line(each.gains)}"]
    return lines


def gains_line(gains: Gains) -> str:
    """How far predicted gains are from measured ones, in one sentence without a full stop."""
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
    """Per fault and split: how often the cause came first, and cases without a miss (mended twins included)."""
    found: dict[str, dict[str, Group]] = {}
    for group in results.groups:
        if group.pool == pool and group.dimension == "fault" and group.split:
            found.setdefault(group.value, {})[group.split] = group
    return [
        (fault, *(cell for split in ("dev", "test") for cell in _fault_cells(by_split.get(split))))
        for fault, by_split in sorted(found.items())
    ]


def _fault_cells(group: Group | None) -> tuple[str, str]:
    if group is None:
        return "-", "-"
    first = group.scores.get("top_1")
    said = "-" if first is None else f"{round(first.mean * first.cases)} of {first.cases}"
    return said, f"{group.right} of {group.cases}"


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    if len(rows) == 1:
        return []
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def model_lines(totals: ModelTotals) -> list[str]:
    """What the model did and took."""
    cost = "unknown" if totals.cost is None else f"{totals.cost:.4f}"
    return [
        f"model: pass^{totals.attempts} {percent(totals.pass_all)}, one attempt {percent(totals.pass_one)}",
        f"model: words of its own that stood {percent(totals.written_by_model)}",
        f"model: per case {totals.calls:.1f} calls, {totals.tokens:.0f} tokens, {totals.seconds:.1f} s, cost {cost}",
    ]


def counts_line(results: Results) -> str:
    """``160 cases: 150 scored, 8 skipped, 2 failed; 92.1 s, 2 at once``."""
    counts = results.counts
    parts = [f"{counts.get(status, 0)} {status}" for status in ("scored", "skipped", "failed")]
    return f"{counts['cases']} cases: {', '.join(parts)}; {results.seconds:.1f} s, {results.at_once} at once"


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
