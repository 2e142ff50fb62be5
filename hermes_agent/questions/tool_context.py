"""A discussion as the tools read it: the run, its figures with ids, the records of its diagnosis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from case_library.retrieval.query import CaseQuery
from hermes_agent.evidence.tool_text import result_text
from hermes_agent.questions.answers.evidence_lookup import Shown, look_up
from hermes_agent.questions.discussion import Discussion
from hermes_agent.tool_calls import ToolCaller
from tools.agent_tools.records import CaseRow, CheckRow, EvidenceRow
from tools.agent_tools.result import Result
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import CaseRecord
    from tools.findings import Argument, Fact
    from tools.views.profile import Profile


@dataclass(frozen=True)
class DiscussedRun:
    """One discussion."""

    discussion: Discussion

    def profile(self) -> Profile:
        """The run."""
        return self.discussion.profile()

    def baseline(self) -> Profile | None:
        """The baseline."""
        return self.discussion.material.baseline()

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        """A figure measured now."""
        return self.discussion.measure(metric, **arguments)

    def cite(self, fact: Fact) -> str:
        """The id of a fact, a new one where it has none."""
        return self.discussion.ledger.cite(fact)

    def checks(self) -> list[CheckRow]:
        """The outcomes of all checks of the diagnosis."""
        return [
            CheckRow(id=each.analyzer, status=each.status, text=tuple(each.text), reason=each.reason, needs=each.needs)
            for each in self.discussion.diagnosis.checks
        ]

    def evidence_rows(self) -> list[EvidenceRow]:
        """The figures of the diagnosis and those measured since."""
        return [
            EvidenceRow(
                id=each.id,
                metric=each.metric,
                arguments=each.arguments,
                value=each.value,
                unit=each.unit,
                ranks=tuple(each.ranks),
                run=each.run,
            )
            for each in self.discussion.evidence.values()
        ]

    def similar_cases(self, text: str | None) -> list[CaseRow]:
        """Cases like a text, without one those recalled for this run."""
        if text is None:
            return [_case_row(record) for record in self.discussion.diagnosis.cases]
        return [_case_row(self.discussion.case(hit)) for hit in self.discussion.recall(CaseQuery(text=text)).hits]

    def record(self, identifier: str) -> str:
        """The record of an id as text: a figure measured again with its rows, a case, advice, a check or a cause."""
        shown = look_up(self.discussion, identifier)
        lines = [shown.title, *(line for line in shown.lines if not line.startswith("Source: "))]
        if (table := shown.table) is not None:
            lines.append(f"Rows, {len(table.rows)} of {table.total}:")
            lines += [" | ".join(row) for row in (table.columns, *table.rows)]
        return "\n".join(lines)


def opened_row(discussion: Discussion, identifier: str) -> Shown:
    """What the tool ``event`` knows of a row of an answer: an event with its callers, a gap, a group, a step."""
    found = called(discussion, "event", id=identifier)
    return Shown(identifier, f"{identifier}: row of the recording", tuple(result_text(found).splitlines()))


def called(discussion: Discussion, tool: str, page: int = 0, /, **arguments: object) -> Result:
    """The result of a tool, arguments that are None left out; ``page`` counts from 0. Raises what the tool raises."""
    caller = ToolCaller(DiscussedRun(discussion), discussion.material.report, discussion.results)
    given = {key: value for key, value in arguments.items() if value is not None}
    result = caller.call(tool, given)
    for _ in range(page):
        if result.cursor is None:
            raise UsageError("there are no further rows")
        result = caller.call(tool, {**given, "cursor": result.cursor})
    return result


def _case_row(record: CaseRecord) -> CaseRow:
    return CaseRow(
        id=record.id,
        title=record.title,
        cause=record.cause,
        url=record.url,
        similarity=record.similarity,
        why=record.why,
    )
