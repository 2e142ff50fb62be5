"""Answers about single kernels and operators: the longest ones, where one is called from, what an operation takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_agent.evidence.ledger import quoted
from hermes_agent.questions.answers.device import operator_and_shapes, slowest_rank, top_host_calls, top_kernels
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import article, blocks, bullets, milliseconds, paragraph, row_table, unbracketed
from hermes_agent.questions.reading.question import Operation, Question, lexicon, wording
from hermes_agent.questions.tool_context import called
from tools.agent_tools.event import RelatedRow
from tools.agent_tools.find_events import EventRow, GroupRow
from tools.agent_tools.result import Result
from tools.errors import UsageError

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
COUNT = re.compile(
    rf"\b(?:(?:top|first|longest|slowest)\s+)?(\d{{1,3}}|{'|'.join(NUMBERS)})\s+(?:\w+\s+)?(?:kernels|operators|ops)"
)
TOP = re.compile(r"\btop (\d{1,3})\b")
AT = re.compile(r"\b(?:at|around|near|from)\s+(\d+(?:\.\d+)?)\s*(us|ms|s)\b")
IN_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
LISTED, MOST, MOST_NAMES = 5, 50, 200
NEAR_MS = (0.05, 1.0, 20.0)  # how far from the asked moment an event is looked for
WINDOW_MS, AROUND_LISTED = 2.0, 8  # of "what did rank 1 do at 5 ms"
CALLERS = 6
MODULE = "nn.Module: "  # what the profiler writes with ``with_stack`` and ``with_modules``
PYTHON = re.compile(r"\bpython (functions?|frames?|calls?|code)\b")
UNRECORDED = re.compile(r"^\((no )?(\w+) ?(not )?recorded\)$")


def longest_kernels(discussion: Discussion, question: Question) -> str:
    """So many kernels, one by one in a step that is named, else by name; without a number the names with most time."""
    asked = _count(question.words)
    if asked is None and not question.steps and not question.page:
        return top_kernels(discussion, question)
    limit = min(asked or LISTED, MOST)
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    kind = "kernel" if _device(discussion, rank) else "operator"
    given: dict[str, object] = {"rank": rank, "limit": limit, "kind": kind}
    if not question.steps:
        return by_name(called(discussion, "find_events", question.page, **given, group_by="name"), rank)
    return blocks(
        _one_by_one(called(discussion, "find_events", question.page, **given, step=step), rank, step)
        for step in question.steps
    )


def top_calls(discussion: Discussion, question: Question) -> str:
    """The host calls with most time; where Python functions are asked for, those, or that none was recorded."""
    if not PYTHON.search(question.words):
        return top_host_calls(discussion, question)
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    found = called(discussion, "find_events", question.page, rank=rank, kind="python", group_by="name", limit=LISTED)
    return by_name(found, rank) if found.rows else wording("needs_stack")


def one_event(discussion: Discussion, question: Question) -> str | None:
    """One event of a name, at a moment or the longest: its length, callers, children and Python line."""
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    if not question.names and (moment_ms := _moment(question.text)) is not None:
        return _around_moment(discussion, rank, moment_ms)
    if not question.names:
        return wording("name_the_event") if re.search(r"\bthis (kernel|operator|event)\b", question.words) else None
    row = _nearest(discussion, rank, question.names[0], _moment(question.text))
    opened = called(discussion, "event", id=row.id)
    view = discussion.profile().rank(rank)
    python = any(str(name).startswith(MODULE) for name in view.categories)
    return blocks([_opened(discussion, row, opened), *_around(opened, python)])


def operation(discussion: Discussion, question: Question) -> str | None:
    """Kernels and operators of an operation that people know by another name: batch norm, convolution, attention."""
    found = next((each for each in lexicon().operations if re.search(rf"\b(?:{each.words})\b", question.words)), None)
    if found is None:
        return None
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    kinds = ("kernel", "operator") if _device(discussion, rank) else ("operator",)
    rows = {kind: _of_pieces(discussion, rank, kind, found) for kind in kinds}
    if not any(rows.values()):
        return f"No kernel or operator of rank {rank} has a name of {found.title} ({', '.join(found.pieces)})."
    names = " or ".join(f"`{each}`" for each in found.pieces)
    lead = f"Events of rank {rank} whose name holds {names}, in ms per step; the count is over all its steps:"
    tables = [blocks([f"{kind.capitalize()}s:", group_table(own[:LISTED], own)]) for kind, own in rows.items() if own]
    return blocks([lead, *tables, wording("operation_names") if "kernel" in rows else ""])


def by_name(found: Result, rank: int) -> str:
    """Groups of events as a table."""
    rows = [row for row in found.rows if isinstance(row, GroupRow)]
    if not rows:
        return paragraph(found.notes) or f"No such event runs inside the steps of rank {rank}."
    what = "Python function" if rows[0].kind == "python" else rows[0].kind
    lead = f"The {what}s of rank {rank} that take most time, in ms per step ({found.total} names in all):"
    return blocks([lead, group_table(rows), more(found)])


def more(found: Result) -> str:
    """A hint at the next page."""
    return "“more” lists the next ones." if found.cursor is not None else ""


def group_table(rows: Sequence[GroupRow], whole: Sequence[GroupRow] = ()) -> str:
    """Groups with time per step and number; a last row adds up those of ``whole``."""
    cells = [[row.id, milliseconds(row.own_ms_per_step), str(row.count), row.longest, row.name] for row in rows]
    if whole:
        total = sum(row.own_ms_per_step for row in whole), sum(row.count for row in whole)
        cells.append(["sum", milliseconds(total[0]), str(total[1]), "", f"all {len(whole)} names"])
    return row_table(("id", "ms", "count", "longest", "name"), cells)


def _one_by_one(found: Result, rank: int, step: int) -> str:
    rows = [row for row in found.rows if isinstance(row, EventRow)]
    if not rows:
        return paragraph(found.notes) or f"No kernel of rank {rank} starts in step {step}."
    lead = f"The longest of {found.total} {rows[0].kind}s of rank {rank} in step {step}, in ms of the run's time axis:"
    cells = [[row.id, f"{row.start_ms:.3f}", milliseconds(row.duration_ms), row.name] for row in rows]
    return blocks([lead, row_table(("id", "start", "takes", "name"), cells), more(found)])


def _around_moment(discussion: Discussion, rank: int, moment_ms: float) -> str:
    """What starts on host and device of a rank around a moment, the longest first."""
    begin_ms, end_ms = moment_ms - WINDOW_MS / 2, moment_ms + WINDOW_MS / 2
    found = called(
        discussion, "find_events", rank=rank, from_ms=begin_ms, to_ms=end_ms, outside_steps=True, limit=AROUND_LISTED
    )
    rows = [row for row in found.rows if isinstance(row, EventRow)]
    if not rows:
        return f"Nothing of rank {rank} starts between {begin_ms:g} and {end_ms:g} ms of the run's time axis."
    lead = f"The longest of {found.total} events of rank {rank} that start from {begin_ms:g} to {end_ms:g} ms:"
    cells = [[row.id, f"{row.start_ms:.3f}", milliseconds(row.duration_ms), row.kind, row.name] for row in rows]
    return blocks([lead, row_table(("id", "start", "takes", "kind", "name"), cells)])


def _nearest(discussion: Discussion, rank: int, name: str, moment_ms: float | None) -> EventRow:
    """The event of that name nearest to the moment, else its longest; UsageError with the nearest names."""
    try:
        exact = called(discussion, "find_events", rank=rank, name=name, limit=1)
    except UsageError:
        exact = called(discussion, "find_events", rank=rank, contains=name, limit=1)
        name = str(getattr(exact.rows[0], "name", name)) if exact.rows else name
    if moment_ms is not None:
        for far in NEAR_MS:
            begin_ms, end_ms = moment_ms - far, moment_ms + far
            found = called(
                discussion, "find_events", rank=rank, name=name, sort="start", limit=500, from_ms=begin_ms, to_ms=end_ms
            )
            rows = [row for row in found.rows if isinstance(row, EventRow)]
            if rows:
                return min(rows, key=lambda row: abs(row.start_ms - moment_ms))
    row = next((row for row in exact.rows if isinstance(row, EventRow)), None)
    if row is None:
        raise UsageError(f"no {quoted(name)} of rank {rank} starts inside its steps")
    if moment_ms is not None:
        far = NEAR_MS[-1]
        raise UsageError(
            f"no {quoted(name)} of rank {rank} starts within {far:g} ms of {moment_ms:g} ms on the run's time axis; "
            f"the longest one is {row.id} at {row.start_ms:.3f} ms"
        )
    return row


def _opened(discussion: Discussion, row: EventRow, opened: Result) -> str:
    where = "" if row.step is None else f" in step {row.step}"
    place = f"{quoted(row.name)} ({row.id}) is {article(row.kind)} on {quoted(row.on)} of rank {row.rank}{where}."
    length = f"It starts at {row.start_ms:.3f} ms ({row.id}) of the run's time axis and takes {{0}}."
    return paragraph([place, discussion.say(length, discussion.measure("event_ms", event=row.id))])


def _around(opened: Result, modules: bool) -> list[str]:
    rows = [row for row in opened.rows if isinstance(row, RelatedRow)]
    parents = [row for row in rows if row.relation in ("parent", "parent of the launch", "launched by")]
    table = [[row.id, row.relation, milliseconds(row.duration_ms), row.name] for row in parents[:CALLERS]]
    callers = blocks(["Called by, the innermost first:", row_table(("id", "relation", "ms", "name"), table)])
    lower = [row for row in rows if row.relation in ("child", "launches", "forward operator")][:CALLERS]
    inner = [[row.id, row.relation, milliseconds(row.duration_ms), row.name] for row in lower]
    calls = blocks(["It calls or launches:", row_table(("id", "relation", "ms", "name"), inner)])
    none = "No event around it is recorded, so its caller is not known."
    notes = bullets(_note(note, modules) for note in opened.notes)
    return [callers if parents else none, calls if lower else "", notes]


def _note(note: str, modules: bool) -> str:
    """One line about the event; what was not recorded says what it needs. ``modules``: the recording holds some."""
    label, _, value = note.partition(": ")
    if modules and label in ("Module", "Python line") and "recorded" in value:
        return f"{label}: none; it runs outside of those that were recorded."
    if "recorded" in value:
        options = "`with_stack=True` and `with_modules=True`" if label == "Module" else "`with_stack=True`"
        needs = wording("needs_shapes") if label == "Shapes" else f"a recording with {options}."
        return f"{label}: not recorded. What it needs: {needs}"
    if label == "Shapes":
        return f"Shapes: {quoted(' '.join(operator_and_shapes(value.strip('`'))))}"
    return unbracketed(note)


def _of_pieces(discussion: Discussion, rank: int, kind: str, named: Operation) -> list[GroupRow]:
    """The groups by name that hold one of the pieces and none that is another operation's, most time first."""
    found: dict[str, GroupRow] = {}
    for piece in named.pieces:
        try:
            result = called(
                discussion, "find_events", rank=rank, kind=kind, contains=piece, group_by="name", limit=MOST_NAMES
            )
        except UsageError:  # no event has such a name
            continue
        found |= {row.id: row for row in result.rows if isinstance(row, GroupRow)}
    own = [row for row in found.values() if not any(other in row.name.lower() for other in named.others)]
    return sorted(own, key=lambda row: -row.own_ms)


def _count(words: str) -> int | None:
    match = COUNT.search(words) or TOP.search(words)
    if match is None:
        return None
    text = match[1]
    return NUMBERS.index(text) + 1 if text in NUMBERS else max(int(text), 1)


def _moment(text: str) -> float | None:
    match = AT.search(text.lower())
    return None if match is None else float(match[1]) * IN_MS[match[2]]


def _device(discussion: Discussion, rank: int) -> bool:
    return discussion.profile().rank(rank).rank.has_device
