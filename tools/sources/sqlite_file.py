"""SQLite files of others: opened read-only, without locks or journals, read with a bound on time and memory."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tools.errors import InputError
from tools.sources.plain_files import open_plain

MAGIC = b"SQLite format 3\x00"
MOST_SECONDS = 300.0  # of a processor, for all of one file
MOST_VALUE_BYTES = 16 << 20  # of one text; a row of a profiler has some hundred
MOST_ROWS = 1 << 27
HEADER_BYTES = 100
STEPS = 100_000  # of SQLite's machine between two looks at the clock
AT_ONCE = 65_536  # rows
INTERRUPTED = "interrupted"  # what SQLite reports where the clock stops it
ROW_NUMBER = "rowid"
ABSENT = -(2**62)  # stands for a number that is not there


def is_sqlite(path: Path) -> bool:
    """Whether the file begins as SQLite files do; False where it cannot be read."""
    try:
        with open_plain(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class Database:
    """The plain tables of a file: no views, virtual tables or extensions, which would run what others wrote."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        rows = self._rows("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        plain = [str(name) for name, sql in rows if str(sql).lstrip().upper().startswith("CREATE TABLE")]
        self.columns: dict[str, tuple[str, ...]] = {name: self._columns(name) for name in plain}

    def has(self, table: str, *columns: str) -> bool:
        """Whether there is a table with these columns."""
        return table in self.columns and set(columns) <= set(self.columns[table])

    def table(self, table: str, *columns: str) -> dict[str, list[object]]:
        """The columns of a table as lists, in the order of its rows; one that it lacks is of None.

        No table, no columns: then there are no rows. Raises InputError where it cannot be read.
        """
        have = self.columns.get(table, ())
        found: dict[str, list[object]] = {name: [] for name in columns}
        own = [name for name in columns if name in have]
        if not own:
            return found
        names = ", ".join(_quoted(name) for name in own)
        for rows in self._pieces(f"SELECT {names} FROM {_quoted(table)}"):
            for name, values in zip(own, zip(*rows, strict=True), strict=True):
                found[name] += values
        count = len(found[own[0]])
        return {name: found[name] if name in own else [None] * count for name in columns}

    def pieces(
        self, table: str, numbers: Sequence[str], texts: Sequence[str] = (), where: str = ""
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Some ten thousand rows of a table at a time: the numbers as whole ones, then the texts as they are.

        ``ABSENT`` stands for a number that a row or the table lacks, None for a text. No table, no rows.
        """
        have = self.columns.get(table, ())
        wanted = [
            f"CAST(IFNULL({_quoted(name)}, {ABSENT}) AS INTEGER)" if name in have else str(ABSENT) for name in numbers
        ]
        wanted += [_quoted(name) if name in have else "NULL" for name in texts]
        if have:
            yield from self._pieces(
                f"SELECT {', '.join(wanted)} FROM {_quoted(table)}" + (f" WHERE {where}" if where else "")
            )

    def most_rows(self, table: str) -> int:
        """A number of rows that a table does not exceed, from its row numbers: it is read only where it has none."""
        if table not in self.columns:
            return 0
        if not self._numbered(table):
            return self.row_count(table)
        first, last = self._end_rows(table)
        return last - first + 1

    def row_count(self, table: str, where: str = "") -> int:
        """How many rows a table has, of those for which a condition holds; the table is read for it."""
        if table not in self.columns:
            return 0
        (count,) = self.aggregates(table, "COUNT(*)", where=where)
        return count if isinstance(count, int) else 0

    def spaced(self, table: str, column: str, count: int, rows: int) -> list[int]:
        """The whole numbers of a column in about ``count`` of a table's ``rows`` rows, at equal distances."""
        if not self.has(table, column):
            return []
        if not self._numbered(table) or self.most_rows(table) != rows:  # row numbers are no places
            each_row = chain.from_iterable(self.pieces(table, [column]))
            return [value for (value,) in islice(each_row, 0, None, max(rows // count, 1)) if value != ABSENT]
        first, last = self._end_rows(table)
        query = f"SELECT {_quoted(column)} FROM {_quoted(table)} WHERE rowid >= {{}} LIMIT 1"
        places = sorted({first + (last - first) * at // max(count - 1, 1) for at in range(count)})
        found = (row[0] for place in places for row in self._rows(query.format(place)))
        return [each for each in found if isinstance(each, int)]

    def aggregates(self, table: str, *expressions: str, where: str = "") -> tuple[object, ...]:
        """The only row of a query of aggregates over a table; the caller writes the expressions, not the file."""
        (row,) = self._rows(
            f"SELECT {', '.join(expressions)} FROM {_quoted(table)}" + (f" WHERE {where}" if where else "")
        )
        return row

    def groups(
        self, table: str, keys: Sequence[str], values: Sequence[str], where: str = ""
    ) -> list[tuple[object, ...]]:
        """The keys and aggregates of each group of rows; the caller writes the expressions, not the file."""
        query = f"SELECT {', '.join([*keys, *values])} FROM {_quoted(table)}" + (f" WHERE {where}" if where else "")
        return self._rows(f"{query} GROUP BY {', '.join(keys)}")

    def different(self, table: str, column: str, most: int) -> list[int]:
        """The different whole numbers of a column, ascending, at most so many."""
        if not self.has(table, column):
            return []
        name = _quoted(column)
        rows = self._rows(f"SELECT DISTINCT {name} FROM {_quoted(table)} LIMIT {most}")
        return sorted(row[0] for row in rows if isinstance(row[0], int))

    def _numbered(self, table: str) -> bool:
        """Whether its rows have numbers; a table WITHOUT ROWID has none, a column of that name hides them."""
        if ROW_NUMBER in (name.lower() for name in self.columns[table]):
            return False
        try:
            self._connection.execute(f"SELECT {ROW_NUMBER} FROM {_quoted(table)} LIMIT 0")
        except sqlite3.OperationalError as error:
            if str(error) == f"no such column: {ROW_NUMBER}":
                return False
            raise _unreadable(self.path, error) from error
        return True

    def _end_rows(self, table: str) -> tuple[int, int]:
        """The first and the last row number; 0 and -1 of an empty table."""
        ends = (self.aggregates(table, f"{which}({ROW_NUMBER})")[0] for which in ("MIN", "MAX"))  # each alone is fast
        first, last = (each if isinstance(each, int) else None for each in ends)
        return (0, -1) if first is None or last is None else (first, last)

    def _columns(self, table: str) -> tuple[str, ...]:
        return tuple(str(row[1]) for row in self._rows(f"PRAGMA table_info({_quoted(table)})"))

    def _rows(self, query: str) -> list[tuple[object, ...]]:
        return [row for rows in self._pieces(query) for row in rows]

    def _pieces(self, query: str) -> Iterator[list[tuple[object, ...]]]:
        count = 0
        try:
            cursor = self._connection.execute(query)
            while rows := cursor.fetchmany(AT_ONCE):
                count += len(rows)
                if count > MOST_ROWS:
                    raise InputError(f"{self.path}: a table has more than {MOST_ROWS} rows; export fewer steps")
                yield rows
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise _unreadable(self.path, error) from error


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """The database in a file; raises InputError where it is none or is damaged."""
    if not is_sqlite(path):
        raise InputError(f"{path}: is no SQLite file")
    _refuse_cut(path)
    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    begun = time.thread_time()
    try:
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
    except sqlite3.Error as error:
        raise InputError(f"{path}: cannot be opened as SQLite ({error})") from error
    try:
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
        connection.set_progress_handler(lambda: time.thread_time() - begun > MOST_SECONDS, STEPS)
        connection.execute("PRAGMA trusted_schema = OFF")
        yield Database(path, connection)
    except sqlite3.Error as error:
        raise _unreadable(path, error) from error
    finally:
        connection.close()


def _unreadable(path: Path, error: Exception) -> InputError:
    if str(error) == INTERRUPTED:
        return InputError(f"{path}: reading it takes longer than {MOST_SECONDS:g} s of a processor; record fewer steps")
    return InputError(f"{path}: cannot be read as SQLite ({error}); copy or export it again")


def _refuse_cut(path: Path) -> None:
    """Raise InputError where the file is shorter than its header says; SQLite reads a cut last page as zeros.

    The header (sqlite.org/fileformat2.html): size of a page at byte 16, number of pages at 28, which holds where the
    counters at 24 and 92 agree.
    """
    try:
        with open_plain(path) as file:
            head, there = file.read(HEADER_BYTES), file.seek(0, 2)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check its path") from error
    page = int.from_bytes(head[16:18], "big")
    size = (1 << 16 if page == 1 else page) * int.from_bytes(head[28:32], "big")
    if len(head) < HEADER_BYTES or (head[24:28] == head[92:96] and there < size):
        raise InputError(
            f"{path}: is cut: {there} of {max(size, HEADER_BYTES)} bytes are there; copy or export it again"
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
