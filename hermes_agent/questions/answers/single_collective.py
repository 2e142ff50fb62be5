"""Answers about one collective: the longest, largest or third of its kind, and which rank arrives last at it."""

from __future__ import annotations

import re

from hermes_agent.model.display import plain
from hermes_agent.questions.answers.device import COLLECTIVE_NAMES
from hermes_agent.questions.answers.overlaps import ORDINAL
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import ORDINALS, blocks, milliseconds, paragraph, row_table
from hermes_agent.questions.reading.question import Question
from hermes_agent.questions.tool_context import called
from tools.agent_tools.collective_instances import CollectiveRow
from tools.analyzers.communication.ascend_collectives import absent_ranks
from tools.views.communication.arrivals import waits

LISTED = 8
MOST_ROWS = 500
ORDERS = {
    "longest": re.compile(r"\b(longest|slowest)\b"),
    "shortest": re.compile(r"\b(shortest|fastest)\b"),
    "largest": re.compile(r"\b(largest|biggest)\b"),
    "smallest": re.compile(r"\bsmallest\b"),
}
BETWEEN = re.compile(r"\bbetween\b|\b(since|after|until|till|before)\b|\b(bandwidth|algbw|busbw)\b")
TABLED = ("elapse", "wait", "transit", "idle")
NOT_MEASURED = (
    "That is not measured for one collective; its length, its bytes and the waiting in it are. "
    "“Which collectives are there?” gives them by kind."
)


def one_collective(discussion: Discussion, question: Question) -> str | None:
    """The collective that is named by its place, length or size, on each rank that has it."""
    words = question.words
    if BETWEEN.search(words):
        return NOT_MEASURED
    kind = next((kind for kind, name in COLLECTIVE_NAMES.items() if re.search(rf"\b{name}s?\b", words)), None)
    rank = question.ranks[0] if question.ranks else None
    step = question.steps[0] if question.steps else None
    rows = _rows(discussion, rank, step, kind)
    if not rows:
        return f"There is no such {plain(kind or 'collective')} in the recorded steps."
    what = plain(kind or "collective")
    for order, pattern in ORDERS.items():
        if pattern.search(words):
            return _extreme(discussion, rows, order, what)
    ordinal = ORDINAL.search(words)
    number = -1 if ordinal is None else _place(ordinal)
    return _placed(discussion, rows, number, what, "last" if number < 0 else ordinal[0] if ordinal else "")


def _rows(discussion: Discussion, rank: int | None, step: int | None, kind: str | None) -> list[CollectiveRow]:
    """The collectives inside the steps in order of time; UsageError where the kind does not run."""
    rows: list[CollectiveRow] = []
    cursor: str | None = None
    while True:
        found = called(
            discussion, "collective_instances", rank=rank, step=step, kind=kind, limit=MOST_ROWS, cursor=cursor
        )
        rows += [row for row in found.rows if isinstance(row, CollectiveRow) and row.step is not None]
        cursor = found.cursor
        if cursor is None:
            return rows


def _extreme(discussion: Discussion, rows: list[CollectiveRow], order: str, what: str) -> str:
    """The collective with most or least time or bytes."""
    sized = order in ("largest", "smallest")
    known = [row for row in rows if row.bytes is not None] if sized else rows
    if not known:
        return f"The sizes of the {what}s were not recorded. What it needs: `record_shapes=True` in the profiler."
    last_first = order in ("longest", "largest")
    ordered = sorted(known, key=lambda row: (row.bytes or 0) if sized else row.duration_ms, reverse=last_first)
    row = ordered[0]
    size = "" if row.bytes is None else f" and carries {row.bytes} bytes"
    text = (
        f"The {order} {what} is {row.id} on rank {row.rank} in step {row.step}: it takes {{0}}{size}, waiting included."
    )
    lead = discussion.say(text, discussion.measure("instance_ms", collective=row.id))
    arrived = paragraph([lead, _arrival([row]), _unseen(discussion, [row])])
    return blocks([arrived, _tabled(discussion, [row]), "The next ones, in ms:", _table(ordered[1 : LISTED + 1])])


def _placed(discussion: Discussion, rows: list[CollectiveRow], number: int, what: str, title: str) -> str:
    """The collective of that place in the first step of each rank, by start; its last rank first."""
    first = min(row.step for row in rows if row.step is not None)
    own: dict[int, list[CollectiveRow]] = {}
    for row in rows:
        if row.step == first:
            own.setdefault(row.rank, []).append(row)
    chosen = [each[number] for each in own.values() if len(each) > max(number, 0)]
    if not chosen:
        most = max(len(each) for each in own.values())
        return f"There is no {title} {what}: a rank runs at most {most} in step {first}."
    lead = f"The {title} {what} of each rank in step {first}, in ms; waiting is part of its length:"
    own_table = _tabled(discussion, chosen[:LISTED])
    return blocks([_arrival(chosen), own_table, _unseen(discussion, chosen), lead, _table(chosen[:LISTED])])


def _arrival(rows: list[CollectiveRow]) -> str:
    """Which rank arrives last, where the collective was matched between ranks."""
    last = {row.last_rank for row in rows if row.last_rank is not None}
    if not last:
        return "Which rank arrives last is not known: it was not matched between ranks."
    if len(last) == 1:
        return f"Rank {last.pop()} arrives last at it."
    return "These are not one collective on all ranks; for each the rank that arrives last is given."


def _tabled(discussion: Discussion, rows: list[CollectiveRow]) -> str:
    """Waiting, transit and idle time of each by the profiler's own table; empty where it has none."""
    said = []
    for row in rows:
        facts = [discussion.measured("tabled_instance_ms", collective=row.id, part=part) for part in TABLED]
        known = [fact for fact in facts if fact is not None]
        named = f"the {plain(row.name)} {row.id} on rank {row.rank}"
        text = f"By the profiler's table {named} takes {{0}}: {{1}} wait, {{2}} transit, {{3}} idle."
        said += [discussion.say(text, *known)] if len(known) == len(TABLED) else []
    return paragraph(said)


def _unseen(discussion: Discussion, rows: list[CollectiveRow]) -> str:
    """That ranks of the group were not recorded, where so: all recorded ones may wait for them, as tables may show."""
    profile = discussion.profile()
    known = waits(profile)
    missing = profile.run.ascend is not None and absent_ranks(profile)
    if not missing and not (known["group_size"] > known["seen"]).any():
        return ""
    ranks = dict.fromkeys(row.rank for row in rows)
    tabled = {rank: discussion.measured("tabled_wait_ms", rank=rank) for rank in ranks}
    by_table = [
        discussion.say(f"By the profiler's table the collectives of rank {rank} move nothing for {{0}} per step.", fact)
        for rank, fact in tabled.items()
        if fact is not None
    ]
    return paragraph(
        ["That is of the recorded ranks: not all of its group were, and these may wait as well.", *by_table]
    )


def _table(rows: list[CollectiveRow]) -> str:
    cells = [
        [row.id, str(row.rank), row.name, milliseconds(row.duration_ms),
         "" if row.wait_ms is None else milliseconds(row.wait_ms),
         "" if row.last_rank is None else str(row.last_rank), "" if row.bytes is None else str(row.bytes)]
        for row in rows
    ]  # fmt: skip
    return row_table(("id", "rank", "kind", "takes", "of it waits", "last rank", "bytes"), cells)


def _place(ordinal: re.Match[str]) -> int:
    """The place from 0 that an ordinal names."""
    return ORDINALS.index(ordinal["word"]) if ordinal["word"] else int(ordinal["number"]) - 1
