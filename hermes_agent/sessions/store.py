"""Sessions kept between calls: request, turns, what their ids stand for, results of tools and an unfinished diagnosis.

A session is about one run; those of one conversation belong together. They lie in one SQLite file of the user's own.
Every write is a transaction of its own, so that a process that is killed loses at most what it was doing. LangGraph's
checkpoints of a running diagnosis lie in the same file and go when it is finished.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from hermes_agent.evidence.printable import printable
from hermes_agent.evidence.session_ids import CitedRecord
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.model.record import Record
from hermes_agent.model.request import Request
from hermes_agent.model.turn import Turn
from hermes_agent.sessions.private_database import private_database
from hermes_agent.sessions.stored_request import StoredRequest
from tools.errors import InputError, UsageError

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

FILE = "sessions.sqlite"
MOST_SESSIONS = 100  # the one that was not used for longest goes first
MOST_TURNS = 500  # of one session; the oldest go first
LONGEST_TURN = 2**20  # characters of one stored turn; a longer one is stored without its calls, and cut
LONGEST_TITLE = 200
MOST_RECORDS = 4_000  # of one session that an id stands for; the oldest go first
LONGEST_RECORD = 2**15  # characters; a longer figure is stored without its steps, anything else not at all
LONGEST_RESULT = 2**17  # characters of one result of a tool; a longer one is cut
MOST_RESULT_CHARS = 2**20  # of all results of one session; the oldest go first
MOST_BYTES = 256 * 2**20  # of the file
WAIT_S = 5.0  # for another process that writes
CHECKPOINT_TABLES = ("checkpoints", "writes")  # LangGraph's

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
  id TEXT PRIMARY KEY, title TEXT NOT NULL, request TEXT NOT NULL, started TEXT NOT NULL, last_used TEXT NOT NULL,
  pending TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS turns (
  place INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  turn TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS turns_of_session ON turns(session);
CREATE TABLE IF NOT EXISTS records (
  place INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  id TEXT NOT NULL, record TEXT NOT NULL, UNIQUE(session, id));
CREATE TABLE IF NOT EXISTS results (
  place INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,
  handle TEXT NOT NULL, text TEXT NOT NULL, UNIQUE(session, handle));
CREATE TABLE IF NOT EXISTS conversations (
  session TEXT PRIMARY KEY REFERENCES sessions(id) ON DELETE CASCADE, conversation TEXT NOT NULL);
"""
CONVERSATION = "COALESCE((SELECT conversation FROM conversations WHERE session = sessions.id), sessions.id)"


RECORD: TypeAdapter[CitedRecord] = TypeAdapter(CitedRecord)


class SessionRow(Record):
    """One conversation of the list: the id of its first session, its runs in the order of opening, its turns."""

    id: str
    title: str
    paths: list[str]
    started: datetime
    last_used: datetime
    turns: int


@dataclass(frozen=True)
class StoredSession:
    """A session as it was left.

    ``pending``: "" where its diagnosis is finished or was never begun, ``UNFINISHED``, or the question that it asked.
    """

    id: str
    title: str
    request: Request
    turns: tuple[Turn, ...]
    pending: str
    records: tuple[CitedRecord, ...] = ()  # what its ids stand for
    results: Mapping[str, str] = field(default_factory=dict)  # texts of tools by handle
    places: tuple[int, ...] = ()  # of the turns among those of all sessions


@dataclass(frozen=True)
class StoredConversation:
    """The sessions of a conversation in the order of opening; ``front`` is the one used last.

    ``said``: all turns in the order in which they were asked, each with the id of its session.
    """

    id: str
    sessions: tuple[StoredSession, ...]
    front: str
    said: tuple[tuple[str, Turn], ...]


class SessionStore:
    """The sessions of one cache folder. Raises InputError, which names the file, where it cannot be used."""

    UNFINISHED = "unfinished"  # ``pending`` of a session whose diagnosis was begun and waits for nothing

    def __init__(self, cache_dir: Path) -> None:
        self.cache_dir = cache_dir
        self.path = cache_dir / "sessions" / FILE
        self._lock = Lock()
        with self._named_failures():
            self._connection = self._connected()

    def new(self, request: Request, title: str = "", conversation: str = "") -> str:
        """Keep a new session, of a conversation that there is already or of one of its own; returns its id."""
        identifier, now = secrets.token_hex(4), _now()
        stored = StoredRequest.of(request).model_dump_json()
        title = printable(title or ", ".join(path.name or str(path) for path in request.paths), LONGEST_TITLE)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO sessions (id, title, request, started, last_used) VALUES (?, ?, ?, ?, ?)",
                (identifier, title, stored, now, now),
            )
            if conversation:
                connection.execute("INSERT INTO conversations VALUES (?, ?)", (identifier, conversation))
            rows = connection.execute(
                "SELECT id FROM sessions WHERE id != ? ORDER BY last_used DESC, started DESC LIMIT -1 OFFSET ?",
                (identifier, MOST_SESSIONS - 1),
            )
            for (old,) in rows.fetchall():
                self._drop(connection, old)
        return identifier

    def forget(self, identifier: str) -> None:
        """Drop a session, whose run could not be opened."""
        with self._writing() as connection:
            self._drop(connection, identifier)

    def sessions(self) -> list[SessionRow]:
        """All conversations, the one used last first."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT id, title, request, started, last_used, (SELECT count(*) FROM turns WHERE session = id),"
                f" {CONVERSATION} FROM sessions ORDER BY started LIMIT ?",
                (MOST_SESSIONS,),
            ).fetchall()
            found: dict[str, SessionRow] = {}
            for identifier, title, request, started, used, turns, conversation in rows:
                paths = StoredRequest.model_validate_json(request).paths
                row = SessionRow(id=identifier, title=title, paths=paths, started=started, last_used=used, turns=turns)
                first = found.get(conversation)
                found[conversation] = row if first is None else _together(first, row)
            return sorted(found.values(), key=lambda row: (row.last_used, row.started), reverse=True)

    def add_turn(self, identifier: str, turn: Turn) -> None:
        """Keep a turn of a session."""
        text = turn.model_dump_json()
        if len(text) > LONGEST_TURN:
            kept = LONGEST_TURN // 8  # characters; written as JSON one takes at most six
            cut = {"question": turn.question[:kept], "answer": turn.answer[:kept] + "… (cut)", "calls": [], "ids": []}
            text = Turn(**cut, by=turn.by, notes=["This turn was too long to be kept whole."]).model_dump_json()
        with self._writing() as connection:
            self._known(connection, identifier)
            connection.execute("INSERT INTO turns (session, turn) VALUES (?, ?)", (identifier, text))
            connection.execute("UPDATE sessions SET last_used = ? WHERE id = ?", (_now(), identifier))
            connection.execute(
                "DELETE FROM turns WHERE session = ?1 AND place NOT IN"
                " (SELECT place FROM turns WHERE session = ?1 ORDER BY place DESC LIMIT ?2)",
                (identifier, MOST_TURNS),
            )

    def keep(self, identifier: str, records: Iterable[CitedRecord], results: Mapping[str, str]) -> None:
        """Keep what ids stand for and results of tools by handle.

        Numbers rise in a session: those up to the highest kept one stay as they are, also where they are dropped.
        """
        cut = f"\n… (cut: a session keeps {LONGEST_RESULT:,} characters of a result)"
        with self._writing() as connection:
            self._known(connection, identifier)
            known = _highest(connection.execute("SELECT id FROM records WHERE session = ?", (identifier,)))
            rows = [(identifier, each.id, _bounded(each)) for each in records if _is_new(each.id, known)]
            connection.executemany(
                "INSERT OR IGNORE INTO records (session, id, record) VALUES (?, ?, ?)", [row for row in rows if row[2]]
            )
            known = _highest(connection.execute("SELECT handle FROM results WHERE session = ?", (identifier,)))
            connection.executemany(
                "INSERT OR IGNORE INTO results (session, handle, text) VALUES (?, ?, ?)",
                [
                    (identifier, handle, text if len(text) <= LONGEST_RESULT else text[:LONGEST_RESULT] + cut)
                    for handle, text in results.items()
                    if _is_new(handle, known)
                ],
            )
            connection.execute(
                "DELETE FROM records WHERE session = ?1 AND place NOT IN"
                " (SELECT place FROM records WHERE session = ?1 ORDER BY place DESC LIMIT ?2)",
                (identifier, MOST_RECORDS),
            )
            connection.execute(
                "DELETE FROM results WHERE place IN (SELECT place FROM (SELECT place, sum(length(text)) OVER"
                " (ORDER BY place DESC) AS chars FROM results WHERE session = ?) WHERE chars > ?)",
                (identifier, MOST_RESULT_CHARS),
            )

    def set_request(self, identifier: str, request: Request) -> None:
        """Keep another request of a session, which has more sources of the same run."""
        stored = StoredRequest.of(request).model_dump_json()
        with self._writing() as connection:
            self._known(connection, identifier)
            connection.execute("UPDATE sessions SET request = ? WHERE id = ?", (stored, identifier))

    def pending(self, identifier: str) -> str:
        """What the session's diagnosis waits for, see ``StoredSession``."""
        with self._reading() as connection:
            return self._known(connection, identifier)[2]

    def open(self, identifier: str) -> StoredSession:
        """Return a session as it was left; raises UsageError where there is none of that id."""
        with self._writing() as connection:
            title, request, pending = self._known(connection, identifier)
            turns = connection.execute(
                "SELECT place, turn FROM turns WHERE session = ? ORDER BY place LIMIT ?", (identifier, MOST_TURNS)
            ).fetchall()
            records = connection.execute(
                "SELECT record FROM records WHERE session = ? ORDER BY place LIMIT ?", (identifier, MOST_RECORDS)
            ).fetchall()
            results = connection.execute(
                "SELECT handle, text FROM results WHERE session = ? ORDER BY place LIMIT ?", (identifier, MOST_RECORDS)
            ).fetchall()
            session = StoredSession(
                id=identifier,
                title=title,
                request=StoredRequest.model_validate_json(request).request(self.cache_dir),
                turns=tuple(Turn.model_validate_json(turn) for _, turn in turns),
                pending=pending,
                records=tuple(RECORD.validate_json(record) for (record,) in records),
                results=dict(results),
                places=tuple(place for place, _ in turns),
            )
            connection.execute("UPDATE sessions SET last_used = ? WHERE id = ?", (_now(), identifier))
            return session

    def conversation(self, identifier: str) -> StoredConversation:
        """Return the conversation that a session belongs to; raises UsageError where there is none of that id."""
        with self._reading() as connection:
            self._known(connection, identifier)
            of_one = "SELECT conversation FROM (SELECT id, {0} AS conversation FROM sessions) WHERE id = ?"
            (name,) = connection.execute(of_one.format(CONVERSATION), (identifier,)).fetchone()
            rows = connection.execute(
                f"SELECT id, last_used FROM sessions WHERE {CONVERSATION} = ? ORDER BY started", (name,)
            ).fetchall()
        front = max(rows, key=lambda row: str(row[1]))[0]
        opened = {each: self.open(each) for each, _ in sorted(rows, key=lambda row: row[0] == front)}
        sessions = tuple(opened[each] for each, _ in rows)
        said = {
            place: (each.id, turn) for each in sessions for place, turn in zip(each.places, each.turns, strict=True)
        }
        return StoredConversation(name, sessions, front, tuple(said[place] for place in sorted(said)))

    def set_pending(self, identifier: str, pending: str) -> None:
        """Keep what the session's diagnosis waits for; "" ends it, and its checkpoints go."""
        with self._writing() as connection:
            self._known(connection, identifier)
            connection.execute("UPDATE sessions SET pending = ? WHERE id = ?", (pending, identifier))
            if not pending:
                self._drop_checkpoints(connection, identifier)

    def saver(self) -> SqliteSaver:
        """LangGraph's checkpoints of diagnoses, by session id as thread id."""
        from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
        from langgraph.checkpoint.sqlite import SqliteSaver

        plain = JsonPlusSerializer(allowed_msgpack_modules=None)  # plain values only
        saver = SqliteSaver(self._connection, serde=plain)
        saver.lock = self._lock  # one connection, one lock
        with self._named_failures():
            saver.setup()
        return saver

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _known(self, connection: sqlite3.Connection, identifier: str) -> tuple[str, str, str]:
        """Title, request and pending question of a session."""
        row = connection.execute("SELECT title, request, pending FROM sessions WHERE id = ?", (identifier,)).fetchone()
        if row is None:
            raise UsageError(f"there is no session {printable(identifier, 40)}; `hermes-dx chat --resume` lists them")
        return str(row[0]), str(row[1]), str(row[2])

    def _drop(self, connection: sqlite3.Connection, identifier: str) -> None:
        connection.execute("DELETE FROM sessions WHERE id = ?", (identifier,))
        self._drop_checkpoints(connection, identifier)

    def _drop_checkpoints(self, connection: sqlite3.Connection, identifier: str) -> None:
        present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in CHECKPOINT_TABLES:
            if table in present:
                connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", (identifier,))

    def _connected(self) -> sqlite3.Connection:
        connection = private_database(self.path, MOST_BYTES, WAIT_S)
        connection.execute("PRAGMA foreign_keys=ON")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 64 * 2**20)
        connection.executescript(SCHEMA)
        return connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._named_failures(), self._lock, self._connection:
            yield self._connection

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._named_failures(), self._lock:
            yield self._connection

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        """Failures of the file as one sentence that names it."""
        try:
            yield
        except (sqlite3.Error, OSError, ValidationError) as error:
            reason = "its content is not what was stored" if isinstance(error, ValidationError) else error
            text = f"{self.path}: sessions cannot be kept or read there ({printable(str(reason), 120)}); "
            raise InputError(f"{text}move the file away to begin with none") from error


def _together(first: SessionRow, other: SessionRow) -> SessionRow:
    """The row of a conversation with one more of its runs."""
    changes = {
        "title": f"{first.title}, {other.title}",
        "paths": [*first.paths, *other.paths],
        "last_used": max(first.last_used, other.last_used),
        "turns": first.turns + other.turns,
    }
    return first.model_copy(update=changes)


def _highest(names: Iterable[tuple[str]]) -> dict[str, int]:
    """The highest number of each letter among ids or handles (``E12``, ``R3``)."""
    found: dict[str, int] = {}
    for (name,) in names:
        found[name[0]] = max(found.get(name[0], 0), int(name[1:]))
    return found


def _is_new(name: str, highest: Mapping[str, int]) -> bool:
    return int(name[1:]) > highest.get(name[0], 0)


def _bounded(record: CitedRecord) -> str:
    """A record as it is stored; "" for one that is too long."""
    text = record.model_dump_json(by_alias=True)
    if len(text) > LONGEST_RECORD and isinstance(record, EvidenceRecord):
        text = record.model_copy(update={"steps": []}).model_dump_json()
    return text if len(text) <= LONGEST_RECORD else ""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
