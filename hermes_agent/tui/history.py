"""What a conversation leaves behind: turns kept in the store of sessions, and its text for a file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from hermes_agent.llm.sanitize import clean, one_line
from tools.errors import HermesError, InputError, UsageError

if TYPE_CHECKING:
    from hermes_agent.evidence.session_ids import CitedRecord
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.request import Request
    from hermes_agent.model.turn import ToolCallRecord, Turn
    from hermes_agent.sessions.store import SessionRow, StoredConversation
    from hermes_agent.tui.work import ChatSession
    from hermes_agent.workflow.way import Kept

COMPARED = "compared_runs"  # the kind of a turn that is no question: what /compare and /confirm showed
SCHEMA = "hermes-dx/conversation/1"
LINE_CHARS = 1_000  # of a tool call, a title or a note in an exported conversation
MARKUP = re.compile(r"<(?=[A-Za-z/!?])|!(?=\[)|\](?:\(|\[|:)")
SPAN_OR_MARKUP = re.compile(rf"`[^`\n]*`|{MARKUP.pattern}")


class Store(Protocol):
    """The sessions kept between calls; every method raises InputError where the file cannot be used."""

    def new(self, request: Request, title: str = "", conversation: str = "") -> str:
        """Keep a new session, of a conversation or of one of its own; return its id."""

    def forget(self, identifier: str) -> None:
        """Drop a session."""

    def sessions(self) -> list[SessionRow]:
        """Return all conversations, the one used last first."""

    def add_turn(self, identifier: str, turn: Turn) -> None:
        """Keep a turn of a session."""

    def keep(self, identifier: str, records: Iterable[CitedRecord], results: Mapping[str, str]) -> None:
        """Keep what ids stand for and results of tools by handle."""

    def conversation(self, identifier: str) -> StoredConversation:
        """Return the conversation of a session as it was left; raises UsageError where there is none of that id."""


OpenStore = Callable[[], Store]


class Memory:
    """The store as the chat uses it: a file that cannot be used is one sentence, and the chat goes on without it.

    Used from the threads of jobs, one at a time.
    """

    def __init__(self, opener: OpenStore | None) -> None:
        self._opener = opener
        self._store: Store | None = None
        self._problems: list[str] = []
        self._conversation = ""  # that runs are opened in
        self._interrupted: list[tuple[Request, str]] = []  # sessions whose diagnosis a person stopped

    @property
    def kept(self) -> bool:
        """Return whether sessions are kept."""
        return self._opener is not None

    def begin(self, request: Request, title: str) -> str:
        """Keep a new session of the present conversation, or go on with one whose diagnosis was stopped.

        Returns its id, "" where it cannot be kept.
        """
        if self._opener is None:
            return ""
        for place, (stopped, identifier) in enumerate(self._interrupted):
            if stopped == request:
                del self._interrupted[place]
                return identifier
        try:
            identifier = self._opened().new(request, title, self._conversation)
        except InputError as error:
            self._give_up(error)
            return ""
        self._conversation = self._conversation or identifier
        return identifier

    def interrupted(self, identifier: str, request: Request) -> None:
        """Note a session whose diagnosis was stopped: it goes on when its run is opened again."""
        if identifier:
            self._interrupted.append((request, identifier))

    def forget(self, identifier: str) -> None:
        """Drop a session whose run could not be opened."""
        if identifier and self._opener is not None:
            try:
                self._opened().forget(identifier)
            except HermesError as error:
                self._give_up(error)

    def add(self, identifier: str, session: ChatSession, turn: Turn | None = None) -> None:
        """Keep a turn of a session that is kept, what its ids stand for and the results of its tools."""
        if not identifier or self._opener is None:
            return
        try:
            store = self._opened()
            store.keep(identifier, session.cited, session.results)
            if turn is not None:
                store.add_turn(identifier, turn)
        except HermesError as error:
            self._give_up(error)

    def steps(self, identifier: str) -> Kept | None:
        """Return where the steps of the session's diagnosis are kept, None where they are not."""
        from hermes_agent.sessions.store import SessionStore
        from hermes_agent.workflow.way import Kept

        return Kept(self._store, identifier) if identifier and isinstance(self._store, SessionStore) else None

    def sessions(self) -> list[SessionRow]:
        """Return the kept conversations; raises UsageError where none are kept, InputError for a damaged file."""
        return self._opened().sessions()

    def conversation(self, identifier: str) -> StoredConversation:
        """Return a kept conversation, which goes on from now on; raises UsageError and InputError."""
        found = self._opened().conversation(identifier)
        self._conversation = found.id
        return found

    def problems(self) -> list[str]:
        """Return the sentences that were not shown yet."""
        found, self._problems = self._problems, []
        return found

    def _opened(self) -> Store:
        if self._opener is None:
            raise UsageError("Sessions are not kept: the cache is switched off.")
        if self._store is None:
            self._store = self._opener()
        return self._store

    def _give_up(self, error: HermesError) -> None:
        self._opener = None
        self._problems.append(f"{error}. This conversation is not kept.")


@dataclass(frozen=True)
class Said:
    """One turn of the conversation, and the name and title of the run it was about."""

    run: str
    title: str
    turn: Turn


@dataclass(frozen=True)
class Diagnosed:
    """A diagnosis as it was shown, and the name and title of its run."""

    run: str
    title: str
    diagnosis: Diagnosis


@dataclass(frozen=True)
class Compared:
    """Two runs held against each other: the command, and what it showed."""

    command: str
    title: str
    lines: tuple[str, ...]

    def as_turn(self) -> Turn:
        """The turn by which it is kept in the store."""
        from hermes_agent.model.turn import Turn

        return Turn(question=self.command, answer="\n".join((self.title, *self.lines)), intent=COMPARED)

    @classmethod
    def of(cls, turn: Turn) -> Compared | None:
        """What a kept turn holds of two runs; None for a question."""
        if turn.intent != COMPARED:
            return None
        title, *lines = turn.answer.split("\n")
        return cls(turn.question, title, tuple(lines))


Entry: TypeAlias = Said | Diagnosed | Compared


def call_text(call: ToolCallRecord) -> str:
    """A tool call in one line of an exported conversation."""
    given = ", ".join(f"{name}={value}" for name, value in call.arguments.items())
    result = f"failed: {call.error}" if call.error else f"{call.rows} rows, {call.size} characters"
    return f"{call.handle} {call.name}({given}): {result}, {call.seconds:.1f} s"


def as_markdown(entries: Sequence[Entry]) -> str:
    """The conversation as Markdown: diagnoses, each question as a quotation, its tool calls, answer, notes.

    Names of the run may stand in all of it: nothing becomes a tag, a link or an image; there are no control codes.
    """
    from hermes_agent.report.markdown import render_markdown

    blocks = ["# Conversation"]
    about = ""
    for each in entries:
        if not isinstance(each, Compared) and each.run != about:
            about = each.run
            blocks.append(f"## {_prose(one_line(f'@{each.run} ({each.title})', LINE_CHARS))}")
        match each:
            case Diagnosed():
                blocks.append(_below(clean(render_markdown(each.diagnosis)).strip()))
            case Compared():
                lines = (_prose(one_line(line, LINE_CHARS)) for line in each.lines)
                blocks += [_quoted(each.command), f"**{_prose(one_line(each.title, LINE_CHARS))}**", *lines]
            case Said():
                blocks += _turn(each.turn)
    return "\n\n".join(blocks) + "\n"


def _turn(turn: Turn) -> list[str]:
    calls = (one_line(call_text(call), LINE_CHARS).replace("`", "'") for call in turn.calls)
    shown = "\n".join(f"- `{call}`" for call in calls)
    notes = (f"*{_prose(one_line(note, LINE_CHARS))}*" for note in turn.notes)
    return [_quoted(turn.question), *([shown] if shown else []), _prose(clean(turn.answer).strip()), *notes]


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in _prose(clean(text)).splitlines())


def _below(markdown: str) -> str:
    """A document two levels of headings deeper; lines of code stay as they are."""
    lines, in_code = [], False
    for line in markdown.splitlines():
        in_code ^= line.lstrip().startswith("```")
        lines.append(f"##{line}" if line.startswith("#") and not in_code else line)
    return "\n".join(lines)


def _prose(text: str) -> str:
    """The text with the openings of tags, links and images as character references, except in plain code spans."""
    lines = text.splitlines()
    nested = "``" in text or "\\`" in text or any(line.count("`") % 2 for line in lines)

    def refer(match: re.Match[str]) -> str:
        found = match[0]
        if found[0] == "`":  # a column mark inside would end the span in a table
            return MARKUP.sub(refer, found) if "|" in found else found
        return f"{found[:-1]}&#{ord(found[-1])};"

    return (MARKUP if nested else SPAN_OR_MARKUP).sub(refer, text)


def as_json(entries: Sequence[Entry]) -> str:
    """The conversation as JSON; ``after_turns``: the number of questions before it."""
    turns, diagnoses, comparisons = list[object](), list[object](), list[object]()
    for each in entries:
        match each:
            case Diagnosed(run, title, diagnosis):
                place = {"run": run, "title": title, "after_turns": len(turns)}
                diagnoses.append({**place, "diagnosis": diagnosis.model_dump(mode="json", by_alias=True)})
            case Compared(command, title, lines):
                own = {"command": command, "title": title, "lines": list(lines)}
                comparisons.append({**own, "after_turns": len(turns)})
            case Said(run, title, turn):
                turns.append({"run": run, "title": title, **turn.model_dump(mode="json")})
    written = {"schema": SCHEMA, "turns": turns, "diagnoses": diagnoses, "comparisons": comparisons}
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"
