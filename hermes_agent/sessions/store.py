"""Sessions kept between calls: request, turns and an unfinished diagnosis, in one SQLite file of the user's own.

Every write is a transaction of its own, so that a process that is killed loses at most what it was doing. LangGraph's
checkpoints of a running diagnosis lie in the same file and go when it is finished.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from pydantic import ValidationError

from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import Record
from hermes_agent.model.request import Request
from hermes_agent.model.turn import Turn
from hermes_agent.sessions.stored_request import StoredRequest
from tools.errors import InputError, UsageError
from tools.leftovers import private_folder

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

FILE = "sessions.sqlite"
MOST_SESSIONS = 100  # the one that was not used for longest goes first
MOST_TURNS = 500  # of one session; the oldest go first
LONGEST_TURN = 2**20  # characters of one stored turn; a longer one is stored without its calls, and cut
LONGEST_TITLE = 200
MOST_BYTES = 256 * 2**20  # of the file
PAGE_BYTES = 4096
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
"""


class SessionRow(Record):
    """One session of the list, with the number of its turns."""

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


class SessionStore:
    """The sessions of one cache folder. Raises InputError, which names the file, where it cannot be used."""

    UNFINISHED = "unfinished"  # ``pending`` of a session whose diagnosis was begun and waits for nothing

    def __init__(self, cache_dir: Path) -> None:
        self.cache_dir = cache_dir
        self.path = cache_dir / "sessions" / FILE
        self._lock = Lock()
        self._saver: SqliteSaver | None = None
        with self._named_failures():
            self._connection = self._connected()

    def new(self, request: Request, title: str = "") -> str:
        """Keep a new session; returns its id."""
        identifier, now = secrets.token_hex(4), _now()
        stored = StoredRequest.of(request).model_dump_json()
        title = printable(title or ", ".join(path.name or str(path) for path in request.paths), LONGEST_TITLE)
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO sessions (id, title, request, started, last_used) VALUES (?, ?, ?, ?, ?)",
                (identifier, title, stored, now, now),
            )
            rows = connection.execute(
                "SELECT id FROM sessions WHERE id != ? ORDER BY last_used DESC, started DESC LIMIT -1 OFFSET ?",
                (identifier, MOST_SESSIONS - 1),
            )
            for (old,) in rows.fetchall():
                connection.execute("DELETE FROM sessions WHERE id = ?", (old,))
                self._drop_checkpoints(connection, old)
        return identifier

    def sessions(self) -> list[SessionRow]:
        """All sessions, the one used last first."""
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT id, title, request, started, last_used, (SELECT count(*) FROM turns WHERE session = id)"
                " FROM sessions ORDER BY last_used DESC, started DESC LIMIT ?",
                (MOST_SESSIONS,),
            ).fetchall()
            return [
                SessionRow(
                    id=identifier,
                    title=title,
                    paths=StoredRequest.model_validate_json(request).paths,
                    started=started,
                    last_used=used,
                    turns=turns,
                )
                for identifier, title, request, started, used, turns in rows
            ]

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

    def open(self, identifier: str) -> StoredSession:
        """Return a session as it was left; raises UsageError where there is none of that id."""
        with self._writing() as connection:
            title, request, pending = self._known(connection, identifier)
            turns = connection.execute(
                "SELECT turn FROM turns WHERE session = ? ORDER BY place LIMIT ?", (identifier, MOST_TURNS)
            ).fetchall()
            session = StoredSession(
                id=identifier,
                title=title,
                request=StoredRequest.model_validate_json(request).request(self.cache_dir),
                turns=tuple(Turn.model_validate_json(turn) for (turn,) in turns),
                pending=pending,
            )
            connection.execute("UPDATE sessions SET last_used = ? WHERE id = ?", (_now(), identifier))
            return session

    def set_pending(self, identifier: str, pending: str) -> None:
        """Keep what the session's diagnosis waits for; "" ends it, and its checkpoints go."""
        with self._writing() as connection:
            self._known(connection, identifier)
            connection.execute("UPDATE sessions SET pending = ? WHERE id = ?", (pending, identifier))
            if not pending:
                self._drop_checkpoints(connection, identifier)

    def saver(self) -> SqliteSaver:
        """LangGraph's checkpoints of diagnoses, by session id as thread id."""
        if self._saver is None:
            from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
            from langgraph.checkpoint.sqlite import SqliteSaver

            plain = JsonPlusSerializer(allowed_msgpack_modules=None)  # plain values only
            with self._named_failures():
                self._saver = SqliteSaver(self._connection, serde=plain)
                self._saver.setup()
            self._lock = self._saver.lock  # one connection, one lock
        return self._saver

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _known(self, connection: sqlite3.Connection, identifier: str) -> tuple[str, str, str]:
        """Title, request and pending question of a session."""
        row = connection.execute("SELECT title, request, pending FROM sessions WHERE id = ?", (identifier,)).fetchone()
        if row is None:
            raise UsageError(f"there is no session {printable(identifier, 40)}; `hermes-dx chat --resume` lists them")
        return str(row[0]), str(row[1]), str(row[2])

    def _drop_checkpoints(self, connection: sqlite3.Connection, identifier: str) -> None:
        present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table in CHECKPOINT_TABLES:
            if table in present:
                connection.execute(f"DELETE FROM {table} WHERE thread_id = ?", (identifier,))

    def _connected(self) -> sqlite3.Connection:
        private_folder(self.path.parent)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        os.close(descriptor)
        if not regular:
            raise OSError("it is not a regular file")
        connection = sqlite3.connect(self.path, timeout=WAIT_S, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute(f"PRAGMA max_page_count={MOST_BYTES // PAGE_BYTES}")
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
