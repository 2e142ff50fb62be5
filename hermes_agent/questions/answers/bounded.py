"""Answers about named events, collectives and steps that are longer or shorter than a length in the question."""

from __future__ import annotations

import re

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import plain, rank_list
from hermes_agent.questions.answers.device import COLLECTIVE_NAMES, RANKS_LISTED
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, milliseconds, row_table
from hermes_agent.questions.reading.lengths import Lengths, bounds, lengths
from hermes_agent.questions.reading.question import Question, of_all_steps
from hermes_agent.questions.tool_context import called
from tools.agent_tools.collective_instances import CollectiveRow
from tools.agent_tools.find_events import EventRow
from tools.agent_tools.result import Result
from tools.agent_tools.steps import StepRow

LISTED = 5
MOST_ROWS = 500  # of one page of a tool
GAPS = re.compile(r"\bgaps?\b")
KINDS = re.compile(r"\b(kernels|operators|ops|copies|memcpys|memsets|launches|syncs)\b")  # answered by counts
STEPS = re.compile(r"\b(steps|iterations)\b")
LEFT_OUT = " The first steps and those next to profiled ones are left out."


def of_length(discussion: Discussion, question: Question) -> str | None:
    """How many there are of the length asked for, and the longest of them; None for a length that bounds none."""
    asked = lengths(question.text)
    if asked is None:
        return None
    if GAPS.search(question.words):
        return None
    kind = next((kind for kind, name in COLLECTIVE_NAMES.items() if re.search(rf"\b{name}s?\b", question.words)), None)
    if question.names:
        return _events(discussion, question, question.names[0], asked)
    if kind is not None:
        return _collectives(discussion, question, kind, asked)
    if question.steps or not STEPS.search(question.words) or KINDS.search(question.words):
        return None
    return _steps(discussion, question, asked)


def _events(discussion: Discussion, question: Question, name: str, asked: Lengths) -> str:
    """The events of a name by rank, the longest of all in a table."""
    found = {
        rank: called(discussion, "find_events", rank=rank, contains=name, limit=LISTED, **bounds(asked))
        for rank in _ranks(discussion, question)
    }
    rows = [row for each in found.values() for row in each.rows if isinstance(row, EventRow)]
    cells = [
        [row.id, str(row.rank), str(row.step), milliseconds(row.duration_ms), row.name]
        for row in sorted(rows, key=lambda row: -row.duration_ms)[:LISTED]
    ]
    lead = _counts(f"events whose name holds {quoted(name)}, {asked.text},", found)
    return blocks(
        [of_all_steps(question), lead, row_table(("id", "rank", "step", "takes", "name"), cells) if cells else ""]
    )


def _collectives(discussion: Discussion, question: Question, kind: str, asked: Lengths) -> str:
    """The collectives of a kind by rank, the longest of all in a table."""
    found = {
        rank: called(
            discussion, "collective_instances", rank=rank, kind=kind, sort="duration", limit=LISTED, **bounds(asked)
        )
        for rank in _ranks(discussion, question)
    }
    rows = [row for each in found.values() for row in each.rows if isinstance(row, CollectiveRow)]
    cells = [
        [row.id, str(row.rank), str(row.step), milliseconds(row.duration_ms)]
        for row in sorted(rows, key=lambda row: -row.duration_ms)[:LISTED]
    ]
    lead = _counts(f"{plain(kind)}s {asked.text}", found)
    return blocks([of_all_steps(question), lead, row_table(("id", "rank", "step", "takes"), cells) if cells else ""])


def _counts(what: str, found: dict[int, Result]) -> str:
    """``There are 3 ... : 1 on rank 0, 2 on rank 1.``, over all recorded steps."""
    total = sum(each.total for each in found.values())
    if not total:
        return f"There are no {what} in the recorded steps of {rank_list(list(found))}."
    by_rank = ", ".join(f"{each.total} on rank {rank}" for rank, each in found.items())
    return f"Number of {what} in all recorded steps: {total} ({by_rank}). The longest, in ms:"


def _steps(discussion: Discussion, question: Question, asked: Lengths) -> str:
    """The steps of a rank or of the slowest rank of each step, of the records and of the trace apart."""
    profile, rank = discussion.profile(), question.ranks[0] if question.ranks else None
    sources = {"records": profile.series is not None, "trace": profile.traced}
    parts = []
    for source in (source for source, held in sources.items() if held):
        rows = _all_steps(discussion, rank, source)
        own = [row for row in rows if asked.holds(row.duration_ms * 1e3)]
        name = "traced" if source == "trace" else "unprofiled"
        whose = f"of rank {rank}" if rank is not None else "of the slowest rank"
        more = ", the longest first, in ms" if own else ""
        verb = "is" if len(own) == 1 else "are"
        lead = f"Of {len(rows)} {name} steps {whose}, {len(own)} {verb} {asked.text.removeprefix('of ')}{more}."
        lead += LEFT_OUT if source == "records" else ""
        cells = [[row.id, str(row.step), str(row.rank), milliseconds(row.duration_ms)] for row in own[: 2 * LISTED]]
        parts.append(blocks([lead, row_table(("id", "step", "rank", "takes"), cells) if cells else ""]))
    return blocks(parts)


def _all_steps(discussion: Discussion, rank: int | None, source: str) -> list[StepRow]:
    """The steps, the longest first."""
    rows: list[StepRow] = []
    cursor: str | None = None
    while True:
        found = called(discussion, "series", rank=rank, source=source, limit=MOST_ROWS, cursor=cursor)
        rows += [row for row in found.rows if isinstance(row, StepRow)]
        cursor = found.cursor
        if cursor is None:
            return rows


def _ranks(discussion: Discussion, question: Question) -> list[int]:
    recorded = [view.rank.rank for view in discussion.profile().ranks]
    return [rank for rank in question.ranks or recorded if rank in recorded][:RANKS_LISTED]
