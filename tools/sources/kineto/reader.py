"""Reads one Chrome trace as PyTorch's profiler (Kineto) writes it, in any of its versions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tools.errors import InputError
from tools.sources.decompress import GZIP_MAGIC
from tools.sources.kineto.collect import Collected, NeedsCareError, Walk
from tools.sources.kineto.metadata import interpret
from tools.sources.kineto.parallel_decode import read_shared
from tools.sources.kineto.source import KINETO
from tools.sources.kineto.table import Assembled, assemble
from tools.sources.options import LoadOptions
from tools.sources.trace_file import TraceFacts, TraceFile

USUAL_RATIO = 16  # of expanded to compressed bytes
MOST_SHARERS = 4  # every one of them expands the whole file
EPOCH_US = (10**15, 4 * 10**15)  # 2001 to 2096: times in this range count from 1970


def read_trace(
    path: Path, digest: str, options: LoadOptions, heard: Callable[[int, int], None] | None = None
) -> TraceFile:
    """Read one file, with ``options.workers`` processes; raises ``InputError`` when nothing in it can be used."""
    collected = _collect(path, options, heard)
    _refuse_useless(path, collected)
    assembled = assemble(collected.columns, options.limits.span_days)
    if not len(assembled.table):
        raise InputError(f"{path}: holds no training run: none of its events has a usable time")
    return TraceFile(path, digest, assembled.table, _facts(collected, assembled))


def _collect(path: Path, options: LoadOptions, heard: Callable[[int, int], None] | None) -> Collected:
    workers = options.worker_count()
    if workers > 1 and _is_large(path, options.alone_bytes):
        try:
            return read_shared(path, options.limits, min(workers, MOST_SHARERS), heard)
        except NeedsCareError:
            pass  # the file is damaged or unusual: read it from the start in the slower, forgiving way
    return Walk(path, options.limits).run(heard)


def _is_large(path: Path, alone_bytes: int) -> bool:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            return size > alone_bytes * (1 if file.read(2) == GZIP_MAGIC else USUAL_RATIO)
    except OSError:
        return False


def _facts(collected: Collected, assembled: Assembled) -> TraceFacts:
    metadata = interpret(collected.members)
    origin_ns, epoch = _on_unix_clock(assembled.origin_ns, metadata.base_ns)
    return TraceFacts(
        format=KINETO.name,
        origin_ns=origin_ns,
        epoch=epoch,
        metadata=metadata,
        status="partial" if collected.damage else "complete",
        note=_note(collected, assembled),
        bytes=collected.file_bytes,
        events=collected.columns.seen,
        groups=assembled.groups,
    )


def _refuse_useless(path: Path, collected: Collected) -> None:
    if not collected.file_bytes:
        raise InputError(f"{path}: is empty; the profiler may not have finished writing it")
    if collected.shape == "none":
        reason = f" ({collected.damage})" if collected.damage else ""
        raise InputError(
            f"{path}: is no profiler trace: it has no traceEvents{reason}; give a Kineto .json or .json.gz"
        )
    if collected.columns.spans:
        return
    if collected.damage:
        raise InputError(f"{path}: nothing in it can be read: {collected.damage}; copy the file again")
    raise InputError(f"{path}: holds no training run: it records no event with a duration; profile some steps")


def _on_unix_clock(origin_ns: int, base_ns: int | None) -> tuple[int, bool]:
    if base_ns is not None and not EPOCH_US[0] <= origin_ns // 1000 < EPOCH_US[1]:
        return origin_ns + base_ns, True
    return origin_ns, EPOCH_US[0] <= origin_ns // 1000 < EPOCH_US[1]


def _left_out(count: int, reason: str) -> str:
    return f"1 event {reason} was left out" if count == 1 else f"{count} events {reason} were left out"


ALL_READ_PCT = 99.0  # of a damaged file: then it is not the rest of the file that is missing, but what never got there


def _note(collected: Collected, assembled: Assembled) -> str:
    parts = []
    if collected.damage:
        share = 100.0 * collected.read_bytes / max(collected.file_bytes, 1)
        rest = (
            "how much was cut off is not known"
            if share > ALL_READ_PCT
            else f"that is {share:.0f} % of the file, the rest could not be read"
        )
        parts.append(
            f"{collected.damage}: {collected.columns.seen} events were read from "
            f"{collected.expanded_bytes} bytes of text; {rest}"
        )
    parts += [_left_out(count, reason) for reason, count in sorted(assembled.excluded.items()) if count]
    return "; ".join(parts + collected.remarks)
