"""Big exports of Nsight Systems, made from a recorded one by repeating it with shifted times and ids.

``python -m evals.benchmarks.big_exports SOURCE TARGET BYTES`` writes one; the schema is that of the source.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

GAP_NS = 1_000_000  # between two copies
# Tables whose rows are repeated, with the columns that are times and those that are ids.
REPEATED = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (("start", "end"), ("correlationId", "gridId")),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (("start", "end"), ("correlationId",)),
    "CUPTI_ACTIVITY_KIND_MEMSET": (("start", "end"), ("correlationId",)),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": (("start", "end"), ("correlationId", "eventId")),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (("start", "end"), ("correlationId",)),
    "CUPTI_ACTIVITY_KIND_OVERHEAD": (("start", "end"), ("correlationId",)),
    "NVTX_EVENTS": (("start", "end"), ()),
    "OSRT_API": (("start", "end"), ()),
    "SCHED_EVENTS": (("start",), ()),
}
CALLS = "CUPTI_ACTIVITY_KIND_RUNTIME"
WORK = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
OPERATOR_ID = "op_id = "  # emit_nvtx numbers every operator, so that no two ranges have the same text
PUSH_POP = 59


@dataclass(frozen=True)
class BigExport:
    """What was written."""

    path: Path
    copies: int
    events: int

    @property
    def size_bytes(self) -> int:
        return self.path.stat().st_size


def enlarge_export(source: Path, target: Path, size_bytes: int, steps: bool = True) -> BigExport:
    """Write an export of at least so many bytes; with ``steps`` each copy gets a range ``step N`` in each process."""
    with closing(sqlite3.connect(target.absolute().as_uri(), uri=True)) as out:
        out.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA page_size = 4096;")
        out.execute("ATTACH ? AS recorded", (f"{source.absolute().as_uri()}?mode=ro&immutable=1",))
        _same_tables(out)
        span_ns, threads = _span_ns(out), _launching_threads(out)
        tables = {name: _shifted(out, name, *columns) for name, columns in REPEATED.items() if _has(out, name)}
        copies = 0
        while target.stat().st_size < size_bytes:
            for query in tables.values():
                out.execute(query, {"copy": copies, "later": copies * span_ns})
            begin = _begin_ns(out) + copies * span_ns
            marks = [(begin, begin + span_ns - 1, PUSH_POP, f"step {copies}", thread) for thread in threads if steps]
            out.executemany(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (?, ?, ?, ?, ?)", marks
            )
            copies += 1
            out.commit()
        events = sum(out.execute(f'SELECT COUNT(*) FROM main."{name}"').fetchone()[0] for name in tables)
    return BigExport(target, copies, events)


def _has(out: sqlite3.Connection, table: str) -> bool:
    return out.execute("SELECT 1 FROM recorded.sqlite_master WHERE name = ?", (table,)).fetchone() is not None


def _same_tables(out: sqlite3.Connection) -> None:
    """Create the source's tables; those that are not repeated with their rows."""
    for name, declared in out.execute("SELECT name, sql FROM recorded.sqlite_master WHERE type = 'table'").fetchall():
        out.execute(declared)
        if name not in REPEATED:
            out.execute(f'INSERT INTO main."{name}" SELECT * FROM recorded."{name}"')


def _begin_ns(out: sqlite3.Connection) -> int:
    found = [
        out.execute(f'SELECT MIN(start) FROM recorded."{name}"').fetchone()[0] for name in REPEATED if _has(out, name)
    ]
    return int(min(each for each in found if each is not None))


def _span_ns(out: sqlite3.Connection) -> int:
    timed = [name for name, (times, _) in REPEATED.items() if "end" in times and _has(out, name)]
    ends = [out.execute(f'SELECT MAX("end") FROM recorded."{name}"').fetchone()[0] for name in timed]
    return int(max(each for each in ends if each is not None)) - _begin_ns(out) + GAP_NS


def _launching_threads(out: sqlite3.Connection) -> list[int]:
    """The thread of each process that called CUDA most."""
    calls = "SELECT globalTid, COUNT(*) AS n FROM recorded.CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY globalTid ORDER BY n"
    return list({thread >> 24: thread for thread, _ in out.execute(calls)}.values())


def _shifted(out: sqlite3.Connection, table: str, times: tuple[str, ...], ids: tuple[str, ...]) -> str:
    """The query that adds one copy of a table."""
    own = [row[1] for row in out.execute(f'PRAGMA recorded.table_info("{table}")')]
    wanted = []
    for name in own:
        if name in times:
            wanted.append(f'"{name}" + :later')
        elif name in ids:
            wanted.append(f'"{name}" + :copy * {_largest(out, name) + 1}')
        elif name == "text" and table == "NVTX_EVENTS":
            wanted.append(_renumbered(out))
        else:
            wanted.append(f'"{name}"')
    where = f" WHERE {_with_work(out)}" if table == CALLS else ""
    order = ' ORDER BY "start"' if "start" in own else ""
    return f'INSERT INTO main."{table}" SELECT {", ".join(wanted)} FROM recorded."{table}"{where}{order}'


def _largest(out: sqlite3.Connection, column: str) -> int:
    """The largest id of that name in all tables: it joins them, so it moves by the same in each."""
    tables = [name for name, (_, ids) in REPEATED.items() if column in ids and _has(out, name)]
    found = (out.execute(f'SELECT MAX("{column}") FROM recorded."{name}"').fetchone()[0] for name in tables)
    return max((each for each in found if each is not None), default=0)


def _with_work(out: sqlite3.Connection) -> str:
    """Calls other than launches whose kernel came after the end of the recording: a copy follows there."""
    launches = "SELECT id FROM recorded.StringIds WHERE value LIKE 'cu%LaunchKernel%'"
    tables = [name for name in WORK if _has(out, name)]
    work = " UNION ".join(f"SELECT correlationId FROM recorded.{name}" for name in tables)
    return f"(nameId NOT IN ({launches}) OR correlationId IN ({work}))"


def _renumbered(out: sqlite3.Connection) -> str:
    """The text of a range, with the number of an operator that ends it moved behind those of the copies before."""
    cut = f"instr(text, '{OPERATOR_ID}') + {len(OPERATOR_ID) - 1}"
    number = f"CAST(substr(text, {cut} + 1) AS INTEGER)"
    ended = f"substr(text, 1, {cut}) || {number} = text"
    largest = out.execute(f"SELECT MAX({number}) FROM recorded.NVTX_EVENTS WHERE {ended}").fetchone()[0] or 0
    return f"CASE WHEN {ended} THEN substr(text, 1, {cut}) || ({number} + :copy * {largest + 1}) ELSE text END"


if __name__ == "__main__":
    made = enlarge_export(Path(sys.argv[1]), Path(sys.argv[2]), int(float(sys.argv[3])))
    print(f"{made.path}: {made.copies} copies, {made.events:,} events, {made.size_bytes:,} bytes")
