"""An Nsight Systems export as traces, one for each process that used a device."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tools.errors import InputError
from tools.sources.decompress import GZIP_MAGIC, Expansion, Readable
from tools.sources.formats import Heard
from tools.sources.kineto.table import assemble
from tools.sources.nsys.device_rows import COPIES, FEWER, GRAPHS, SYNCS, WORK, Ranks, read_device_work
from tools.sources.nsys.gpu_metrics import read_gpu_metrics
from tools.sources.nsys.host_rows import HostCounts, read_host_events
from tools.sources.nsys.memory_rows import read_memory
from tools.sources.nsys.rank_rows import RankRows
from tools.sources.nsys.recognise import CALLS, KERNELS, RANGES, is_export
from tools.sources.nsys.sched_rows import read_off_cpu
from tools.sources.nsys.session import Session, Strings, read_devices, read_session
from tools.sources.nsys.source import NSYS
from tools.sources.nsys.window import kernel_totals, steady_window
from tools.sources.options import LoadOptions
from tools.sources.sqlite_file import Database, open_database
from tools.sources.trace_file import TraceFacts, TraceFile, TraceMetadata

ADVICE = "record with nsys profile --trace=cuda,nvtx,osrt and export with nsys export --type sqlite"

EARLIER = "device memory that was allocated before the recording is in no total"


def read_export(path: Readable, digest: str, options: LoadOptions, heard: Heard | None = None) -> TraceFile:
    """The first rank of the export with the others; InputError where nothing in it can be used."""
    with _plain(path, options) as file:
        try:
            with open_database(file) as database:
                return _read(path, file.stat().st_size, database, digest, options, heard)
        except InputError as error:
            raise InputError(str(error).replace(str(file), str(path))) from error


@contextmanager
def _plain(path: Readable, options: LoadOptions) -> Iterator[Path]:
    """The file as SQLite can open it: where it is compressed or behind a URL, an expanded copy."""
    if isinstance(path, Path) and not _is_packed(path):
        yield path
        return
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as copy:
        expansion = Expansion(path, options.limits)
        for piece in expansion:
            copy.write(piece)
        copy.flush()
        if expansion.damage:
            raise InputError(f"{path}: nothing in it can be read: {expansion.damage}; copy the file again")
        yield Path(copy.name)


def _is_packed(path: Path) -> bool:
    """Whether the file is compressed, whatever its name."""
    try:
        with path.open("rb") as file:
            return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check its path") from error


def _read(
    path: Readable, size: int, database: Database, digest: str, options: LoadOptions, heard: Heard | None
) -> TraceFile:
    if not is_export(database):
        raise InputError(f"{path}: is SQLite but no Nsight Systems export: it lacks the tables of one")
    window = steady_window(database, (*WORK, SYNCS, CALLS, RANGES), options.limits.events)
    strings, ranks = Strings(database), Ranks(window=window, most=options.limits.export_rows)
    read_device_work(database, strings, ranks)
    if not any(ranks.counts.values()):
        raise InputError(f"{path}: holds no device work: no kernel, copy or fill was recorded; {ADVICE}")
    if heard is not None:
        heard(size // 2, size)
    counts = read_host_events(database, strings, ranks)
    marks = read_memory(database, ranks)
    read_off_cpu(database, ranks)
    session = read_session(database)
    place = path if isinstance(path, Path) else Path(path.name)
    note = "; ".join([*_window_note(database, ranks), *_note(session, ranks, counts), *([EARLIER] if marks else [])])
    metrics = read_gpu_metrics(database, session, window, place)
    traces: list[TraceFile] = []
    for process, rows in sorted(ranks.by_process.items(), key=lambda each: (each[1].main_device, each[0])):
        assembled = assemble(rows.columns, options.limits.span_days)
        if not len(assembled.table):
            continue
        devices = read_devices(database, process, rows.work_on)
        sampled = None if traces else metrics  # of the node, so they are kept once
        facts = TraceFacts(
            format=NSYS.name,
            origin_ns=assembled.origin_ns + (session.origin_unix_ns or 0),
            epoch=session.origin_unix_ns is not None,
            metadata=TraceMetadata(devices=devices, plain=session.facts, host=session.host),
            status="partial" if ranks.counts.get(GRAPHS) or ranks.window or ranks.left_out else "complete",
            note="; ".join(text for text in ("" if traces else note, _left_out(assembled.excluded)) if text),
            bytes=size,
            events=rows.columns.seen,
            groups=assembled.groups,
            sampled=None if sampled is None else sampled.sources[0],
        )
        own = digest if not traces else f"{digest}-{process}"
        traces.append(TraceFile(place, own, assembled.table, facts, None if sampled is None else sampled.samples))
        ranks.by_process[process] = RankRows()  # the columns are in the table now
    if not traces:
        raise InputError(f"{path}: holds no training run: none of its events has a usable time")
    first, *others = traces
    return replace(first, others=tuple(others), facts=replace(first.facts, others=tuple(t.digest for t in others)))


def _left_out(excluded: Counter[str]) -> str:
    counted = [(reason, count) for reason, count in sorted(excluded.items()) if count]
    return "; ".join(
        f"{count} events {reason} were left out" if count > 1 else f"1 event {reason} was left out"
        for reason, count in counted
    )


def _window_note(database: Database, ranks: Ranks) -> list[str]:
    """What part of a large export was read, and what kernels sum up to in all of it."""
    if ranks.window is None:
        return []
    totals = [
        f"{each.count:,} kernels run {each.time_ns / 1e9:.6f} s on device {each.device}"
        for each in kernel_totals(database)
    ]
    return [ranks.window.note, *([f"in all of it {', '.join(totals)}"] if totals else [])]


def _without_work(ranks: Ranks) -> list[str]:
    """The tables of kernels and copies that are absent or empty."""
    lacking = [(COPIES, "copy")] if ranks.counts.get(GRAPHS) else [(KERNELS, "kernel"), (COPIES, "copy")]
    return [
        f"it records no {what} of a device ({table} is {'empty' if table in ranks.counts else 'absent'})"
        for table, what in lacking
        if not ranks.counts.get(table)
    ]


def _note(session: Session, ranks: Ranks, counts: HostCounts) -> list[str]:
    """What the export does not hold, and what was assumed."""
    found = [*([session.note] if session.note else []), *_without_work(ranks)]
    if ranks.unnamed:
        found.append("device work names no process; all of the file is taken as one rank")
    if not counts.read.get(CALLS):
        found.append("it records no CUDA call, so when work was launched is unknown")
    if not counts.read.get(RANGES):
        found.append("it records no NVTX range, so operators and steps are not marked")
    if graphs := ranks.counts.get(GRAPHS, 0):
        found.append(
            f"{graphs} launches of CUDA graphs are recorded as a whole, so their kernels are unknown and count as "
            "computation; record with --cuda-graph-trace=node"
        )
    for family, count in sorted(counts.never_popped.items()):
        found.append(
            f"{count} NVTX ranges {family!r} were never popped: each is taken to last until the next one begins"
        )
    if counts.dropped:
        found.append(f"{counts.dropped} calls of the operating system were left out: the export is too large")
    for table, rows in sorted(ranks.left_out.items()):
        limit = f"with them the export holds more than {ranks.most:,}"
        found.append(f"the {rows:,} events of {table} were left out: {limit}; {FEWER}")
    if counts.elsewhere:
        found.append(f"{counts.elsewhere} events of processes without device work were left out")
    return found
