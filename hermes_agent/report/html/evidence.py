"""The evidence of a page, the ids that it holds, and the commands that give its figures again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.evidence.citations import written
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import Diagnosis, EvidenceRecord
from hermes_agent.model.display import counted, numbered, rank_list
from hermes_agent.report.html.answer import origin_of

MOST_EVIDENCE = 2000
CELL_CHARS = 300


@dataclass(frozen=True)
class PageEvidence:
    """One figure as a row."""

    id: str
    figure: str
    metric: str
    arguments: str
    where: str
    source: str


def known_ids(diagnosis: Diagnosis) -> frozenset[str]:
    """The ids that the page has a row for."""
    records = (diagnosis.evidence[:MOST_EVIDENCE], diagnosis.advice, diagnosis.cases, diagnosis.leads)
    return frozenset(row.id for rows in (*records, diagnosis.hypotheses) for row in rows)


def evidence_rows(diagnosis: Diagnosis) -> tuple[PageEvidence, ...]:
    """The figures cited."""
    return tuple(map(_row, diagnosis.evidence[:MOST_EVIDENCE]))


def _row(row: EvidenceRecord) -> PageEvidence:
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


def evidence_count(diagnosis: Diagnosis) -> str:
    """How many figures are cited, and how many of them the page lists where not all."""
    figures = counted(len(diagnosis.evidence), "figure")
    return figures if len(diagnosis.evidence) <= MOST_EVIDENCE else f"{figures} (the first {MOST_EVIDENCE:,} follow)"


def commands(diagnosis: Diagnosis, paths: Sequence[Path]) -> tuple[str, ...]:
    """Commands that give the answer and its figures again."""
    run = " ".join(shlex.quote(printable(origin_of(path))) for path in paths) or "RUN"
    baseline = " --baseline BASELINE" if diagnosis.comparison is not None else ""
    shown, traced = diagnosis.evidence[:1], diagnosis.breakdown[:1]  # without a breakdown no trace was read
    return (
        f"hermes-dx diagnose {run}{baseline} -v   # every check with its figures",
        *(f"hermes-dx show {row.id}   # the rows behind a figure" for row in shown),
        f"hermes-dx chat {run}   # questions about the run",
        *(
            f"hermes-dx diagnose {run} --perfetto trace.json   # the steps with the causes, for Perfetto"
            for _ in traced
        ),
    )
