"""What a page says on coverage: files, ranks, checks, and what to record for those that cannot answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from hermes_agent.evidence.citations import written
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.display import counted, numbered, rank_count, rank_list, recorded_count
from hermes_agent.model.run_record import SourceRecord
from hermes_agent.report.clocks import clock_lines

MOST_SOURCES = 64  # files listed, those first that were not read in full
MOST_ASKING = 8  # checks that are named with what they need
OUTCOMES: Mapping[Literal["found", "clean", "cannot_answer"], str] = {
    "found": "found something",
    "cannot_answer": "cannot answer",
    "clean": "clean",
}
NAMED: Mapping[Literal["monitor", "step_log", "job_log", "tracker", "traces"], str] = {
    "monitor": "monitor records",
    "step_log": "step log",
    "job_log": "the job's output",
    "tracker": "another log or tracker",
    "traces": "traces",
}
READ: Mapping[Literal["complete", "partial", "excluded"], str] = {
    "complete": "read in full",
    "partial": "read in part",
    "excluded": "not read",
}


def unanswered(diagnosis: Diagnosis) -> tuple[tuple[str, str], ...]:
    """What to record, and for which checks."""
    return tuple((need, _asking(checks)) for need, checks in _needs(diagnosis).items())


def unanswered_count(diagnosis: Diagnosis) -> str:
    """How many of the checks cannot answer."""
    silent = sum(check.status == "cannot_answer" for check in diagnosis.checks)
    return f"{silent} of {counted(len(diagnosis.checks), 'check')} cannot answer"


def outcomes(diagnosis: Diagnosis) -> str:
    """The number of checks per outcome."""
    counts = Counter(check.status for check in diagnosis.checks)
    return ", ".join(f"{counts[status]} {name}" for status, name in OUTCOMES.items())


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


def coverage(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What was traced, cut and recorded, and how much the causes save together."""
    run, recorded = diagnosis.run, diagnosis.run.recorded
    lines = [f"Traced: {rank_count(run)}, {numbered('step', run.steps)}." if run.steps else "No step was traced."]
    if run.cut_ranks:
        lines.append(f"Cut, so nothing is measured on them: {rank_list(run.cut_ranks)}.")
    if recorded is not None and recorded.steps:
        ranks, steps = recorded_count(recorded, run.layout.get("world_size"))
        lines.append(f"Recorded without a profiler: {ranks}, {steps}.")
    if len(run.step_times) > 1:
        by_source = (f"{NAMED[each.source]} {written(each.median_ms, 'ms')} ({each.what})" for each in run.step_times)
        lines.append(f"Median step by source, the better one first: {'; '.join(by_source)}.")
    lines += clock_lines(diagnosis)
    if diagnosis.causes:
        saved = sum(cause.impact_pct for cause in diagnosis.causes)
        lines.append(f"The savings of the causes found add up to {written(saved, '%')} of the step.")
    return (*lines, f"{sources_title(diagnosis)}.")


def sources_title(diagnosis: Diagnosis) -> str:
    """How many files were read in full, in part, and not."""
    counts = Counter(source.status for source in diagnosis.run.sources)
    return f"Files: {', '.join(f'{counts[each]:,} {name}' for each, name in READ.items() if counts[each])}"


def sources(diagnosis: Diagnosis) -> tuple[tuple[str, ...], ...]:
    """The files, those first that were not read in full."""
    ordered = sorted(diagnosis.run.sources, key=lambda source: source.status == "complete")
    rows = tuple(map(_source, ordered[:MOST_SOURCES]))
    left_out = len(ordered) - len(rows)
    return (*rows, (f"and {counted(left_out, 'more file')}", "", "", "", "")) if left_out else rows


def _source(source: SourceRecord) -> tuple[str, ...]:
    ranks = rank_list(source.ranks) if source.ranks else ""
    return source.path, source.format, ranks, READ[source.status], source.note


def check_rows(diagnosis: Diagnosis) -> tuple[tuple[str, ...], ...]:
    """Every check with its outcome and result, those that found something first."""
    order = list(OUTCOMES)
    return tuple(
        (
            check.analyzer,
            OUTCOMES[check.status],
            f"{check.reason.rstrip('.')}." if check.status == "cannot_answer" else " ".join(check.text),
        )
        for check in sorted(diagnosis.checks, key=lambda check: order.index(check.status))
    )
