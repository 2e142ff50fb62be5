"""Threads that the bot takes part in, with their run and conversation, and the events that were seen.

They outlive the process: a question after a restart goes on where the thread was, and an event that is delivered again
is dropped. The conversations lie in a store of sessions of the bot's own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import time

from hermes_agent.evidence.printable import printable
from hermes_agent.model.request import Request
from hermes_agent.model.turn import Turn
from hermes_agent.session import Session
from hermes_agent.sessions.private_database import private_database
from hermes_agent.sessions.store import SessionStore
from tools.errors import InputError, UsageError

FILE = "threads.sqlite"
MOST_THREADS = 10_000  # the one that was not used for longest goes first
MOST_EVENTS = 50_000
LONGEST_KEY = 300
MOST_BYTES = 64 * 2**20
WAIT_S = 5.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS threads (key TEXT PRIMARY KEY, run TEXT NOT NULL, session TEXT NOT NULL, used REAL NOT NULL);
CREATE TABLE IF NOT EXISTS events (place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);
"""


@dataclass(frozen=True)
class ThreadRun:
    """The run of a thread, and the id of its conversation; "" before the first question."""

    run: str
    session: str


class Threads:
    """The store of one bot; raises InputError, which names the file, where it cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = Lock()
        with self._named_failures():
            self._connection = self._connected()
        self._sessions = SessionStore(folder)

    def first_time(self, event: str) -> bool:
        """Return whether the event was never seen, and remember it."""
        with self._writing() as connection:
            cursor = connection.execute("INSERT OR IGNORE INTO events (id) VALUES (?)", (event[:LONGEST_KEY],))
            if cursor.rowcount:
                connection.execute("DELETE FROM events WHERE place <= ?", ((cursor.lastrowid or 0) - MOST_EVENTS,))
            return bool(cursor.rowcount)

    def find(self, thread: str) -> ThreadRun | None:
        """The run of a thread, None where the bot knows none."""
        with self._writing() as connection:
            row = connection.execute(
                "SELECT run, session FROM threads WHERE key = ?", (thread[:LONGEST_KEY],)
            ).fetchone()
        return None if row is None else ThreadRun(str(row[0]), str(row[1]))

    def keep(self, thread: str, run: str, session: str = "") -> None:
        """Remember the run of a thread; another run than before begins another conversation."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO threads (key, run, session, used) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO UPDATE SET"
                " session = CASE WHEN ?3 != '' THEN ?3 WHEN run = ?2 THEN session ELSE '' END, run = ?2, used = ?4",
                (thread[:LONGEST_KEY], run, session, time()),
            )
            connection.execute(
                "DELETE FROM threads WHERE key NOT IN (SELECT key FROM threads ORDER BY used DESC LIMIT ?)",
                (MOST_THREADS,),
            )

    def resume(self, thread: str, session: Session) -> None:
        """Continue the thread's conversation in a session that is not diagnosed yet."""
        known = self.find(thread)
        if known is None or not known.session:
            return
        try:
            stored = self._sessions.open(known.session)
        except UsageError:  # too many conversations since: the thread keeps its run
            return
        session.go_on(stored.turns, stored.records, stored.results)

    def remember(self, thread: str, run: str, request: Request, session: Session, turn: Turn | None = None) -> None:
        """Keep what the ids of a session stand for as the thread's, and a turn of its conversation."""
        known = self.find(thread)
        identifier = known.session if known is not None and known.run == run else ""
        try:
            self._sessions.keep(identifier, session.cited, session.results)
        except UsageError:  # none yet, or gone
            identifier = self._sessions.new(request, run)
            self._sessions.keep(identifier, session.cited, session.results)
        if turn is not None:
            self._sessions.add_turn(identifier, turn)
        self.keep(thread, run, identifier)

    def close(self) -> None:
        """Close the files."""
        self._connection.close()
        self._sessions.close()

    def _connected(self) -> sqlite3.Connection:
        connection = private_database(self.path, MOST_BYTES, WAIT_S)
        connection.executescript(SCHEMA)
        return connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._named_failures(), self._lock, self._connection:
            yield self._connection

    @contextmanager
    def _named_failures(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = printable(str(error), 120)
            raise InputError(
                f"{self.path}: threads cannot be kept or read there ({reason}); move the file away to begin with none"
            ) from error
