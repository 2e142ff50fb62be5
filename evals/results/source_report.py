"""The part of the report that has the answers by the sources that were given, and the scores of their leads.

``python -m evals.results.source_report RESULTS.json ...`` prints it of the cases of several saved runs together.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from evals.results.regression import read_results
from evals.results.source_table import Sourced, SourceRow, Standings, by_sources, source_rows
from evals.results.tables import percent, table

LEADS = (
    ("lead_given", "inconclusive with a lead"),
    ("lead_place", "right place"),
    ("lead_candidate", "right cause in first 2"),
    ("lead_observation", "asks for what is not there yet"),
)
SOURCES_HEAD = (
    "given",
    "faulty: right",
    "inconclusive, right lead",
    "inconclusive",
    "wrong",
    "healthy: right",
    "inconclusive",
    "wrong",
    "cannot answer",
    "wrong of all",
)
SOURCES_ABOUT = (
    "Most wrong answers first. A lead is right where a right cause is among the first two candidates of the largest"
    " one; records are the monitor's and the environment."
)


def source_lines(sourced: Sourced) -> list[str]:
    """Answers with everything and with some of the sources, and the runs that are right and wrong in turn."""
    if not sourced.standings:
        return []
    lines = ["## Sources removed", "", SOURCES_ABOUT, ""]
    for origin, split in dict.fromkeys((each.origin, each.split) for each in sourced.standings):
        rows = [_source_row(row) for row in source_rows(sourced.standings, origin, split)]
        lines += [f"### {origin[0].upper()}{origin[1:]}, {split}", "", *table(SOURCES_HEAD, rows)]
    for origin, share in sourced.agreement.items():
        lines.append(
            f"- {origin}: of pairs (everything, some of its sources) with a right answer, {percent(share)} keep it"
        )
    found = [
        f"- `{c.run}`: {'right' if c.wrong_with == 'more data' else 'wrong'} by its {c.given.replace('+', ' and ')}"
        f" alone, {'wrong' if c.wrong_with == 'more data' else 'right'} with everything"
        for c in sourced.contradictions
    ]
    return [*lines, "", *found, ""]


def _source_row(row: SourceRow) -> tuple[object, ...]:
    faulty, healthy = row.faulty, row.healthy
    share = 100.0 * row.wrong / row.runs
    return (
        row.sources,
        *(_counted(faulty, each) for each in ("right", "right lead", "inconclusive", "wrong")),
        *(_counted(healthy, each) for each in ("right", "inconclusive", "wrong")),
        sum(each.counts["cannot_answer"] for each in (faulty, healthy) if each),
        f"{row.wrong} of {row.runs} ({share:.1f} %)",
    )


def _counted(of: Standings | None, column: str) -> str:
    if of is None:
        return "-"
    match column:
        case "right":
            return f"{of.counts['right']} of {of.runs}"
        case "right lead":
            return str(of.right_leads)
        case "inconclusive":
            return str(of.inconclusive)
        case _:
            return str(of.counts["wrong"])


def lead_lines(sourced: Sourced) -> list[str]:
    """Scores of leads on faulty runs; the last one is of all runs with leads."""
    rows = [(s.origin, s.sources, *(percent(s.scores.get(name)) for name, _ in LEADS)) for s in sourced.leads]
    return ["## Leads", "", *table(("origin", "given", *(label for _, label in LEADS)), rows)] if rows else []


def main(files: Sequence[str]) -> None:
    """Print the tables of the cases in these files; a case in several of them counts as in the last."""
    cases = {case.id: case for file in files for case in read_results(Path(file)).cases}
    sourced = by_sources(list(cases.values()))
    print("\n".join((*source_lines(sourced), *lead_lines(sourced))))


if __name__ == "__main__":
    main(sys.argv[1:])
