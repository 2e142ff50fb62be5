"""A comparison of two runs as GitHub-flavoured Markdown, for a pull request or a job summary."""

from __future__ import annotations

import re

from hermes_agent.evidence.printable import printable
from hermes_agent.run_comparison import TEST_TIME, Gate, RunComparison
from tools.comparison.compare import Difference

VERDICTS = {
    "passed": "Passed",
    "within_noise": "Passed (within noise)",
    "regression": "Regression",
    "not_assessable": "Not assessable",
}
MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!@])")
RECORDED = {"own": "own time", "rest": "remainder", "gc": "garbage collection"}  # parts of unprofiled steps
SHOWN = 20  # changes listed
MANY_TIMES = 10  # from where a change is a multiple instead of a percentage
REASON_CHARS = 2000


def comparison_markdown(found: RunComparison, gate: Gate | None) -> str:
    """The verdict of the gate, the step and its parts as a table, then the changes; names stand in back quotes."""
    parts = [each for each in (*found.comparison.recorded, *found.comparison.parts) if each.before.unit == "ms"]
    step = found.comparison.step
    unprofiled = step.before.metric == "series_step_ms"
    of_test = step.before.metric == TEST_TIME
    name = "time of the largest message" if of_test else "average unprofiled step" if unprofiled else "average step"
    rows = [_row(name, step, found)]
    rows += [_row(_part(each, unprofiled), each) for each in parts]
    lines = ["## nccl-tests" if of_test else "## Training step", ""]
    if gate is not None:
        lines += [f"**{VERDICTS[gate.outcome]}:** {gate.reason}.", ""]
    lines += [found.headline, "", "| | before | after | change |", "|---|---:|---:|---:|", *rows, ""]
    lines += [f"- {text}" for text in found.changes[:SHOWN]]
    if len(found.changes) > SHOWN:
        lines.append(f"- {len(found.changes) - SHOWN} more: `hermes-dx compare A B --json`")
    lines += ["", *found.notes] if found.notes else []
    return "\n".join(lines).rstrip() + "\n"


def refusal_markdown(reason: str) -> str:
    """That two runs cannot be compared, and why; the reason may hold names of the runs."""
    text = MARKUP.sub(r"\\\1", printable(reason, REASON_CHARS))
    return f"## Training step\n\n**Not comparable:** {text}\n"


def _part(change: Difference, unprofiled: bool) -> str:
    """The part; next to unprofiled steps it says where it is of the traced ones."""
    name = RECORDED.get(change.name, change.name.replace("_", " "))
    return f"{name} (traced steps)" if unprofiled and change.before.metric == "part_ms" else name


def _row(name: str, change: Difference, found: RunComparison | None = None) -> str:
    before, after = change.before.value, change.after.value
    return f"| {name} | {before:.2f} ms | {after:.2f} ms | {_change(before, after, found)} |"


def _change(before: float, after: float, found: RunComparison | None) -> str:
    if before <= 0:
        return f"{after - before:+.2f} ms"
    if after > MANY_TIMES * before:
        return f"{after / before:.3g} times"
    percent = f"{(after / before - 1.0) * 100.0:+.1f} %"
    if found is None or found.interval is None:
        return percent
    return f"{percent} ({found.interval.low_pct:+.1f} to {found.interval.high_pct:+.1f} %)"
