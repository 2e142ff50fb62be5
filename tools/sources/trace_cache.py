"""Traces in the cache and between processes: packed event tables with their trace's facts, found by fingerprint."""

from __future__ import annotations

import hashlib
import mmap
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tools.run.events import EventTable
from tools.run.packing import DamagedError, pack, read_header, unpack
from tools.sources.digest import PARTIAL, write_whole
from tools.sources.options import Limits, LoadOptions
from tools.sources.trace_file import TraceFacts, TraceFile

SUFFIX = ".run"
READER_VERSION = 3  # raise it whenever the reader gives other events for the same file


@dataclass(frozen=True)
class CacheHit:
    """A table found in the cache, with what was stored next to it."""

    table: EventTable
    about: bytes


@dataclass(frozen=True)
class RunCache:
    """A folder of packed tables of at most ``limit_bytes``; safe when several processes use it at once."""

    folder: Path
    limit_bytes: int

    def path(self, key: str) -> Path:
        """Where the table of that key lies."""
        return self.folder / f"{key}{SUFFIX}"

    def get(self, key: str) -> CacheHit | None:
        """The table of that key, None when there is none; raises ``DamagedError`` when it cannot be trusted."""
        try:
            with self.path(key).open("rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise DamagedError(str(error)) from error
        header = read_header(data)
        if header.version != READER_VERSION or header.key != key:
            return None
        hit = CacheHit(unpack(data, header), bytes(header.about))
        with suppress(OSError):  # a read-only cache still serves
            os.utime(self.path(key))
        return hit

    def put(self, key: str, table: EventTable, about: bytes) -> bool:
        """Store a table; False when the folder does not take it, which costs nothing but the next read."""
        target = self.path(key)
        if not write_whole(target, pack(table, READER_VERSION, key, about)):
            return False
        with suppress(OSError):  # another process may be clearing the same folder
            self._evict(keep=target)
        return True

    def _evict(self, keep: Path) -> None:
        """Remove the entries that were not used for longest, and what a killed process left, beyond the limit."""
        entries = []
        for path in self.folder.glob("*"):
            try:
                status = path.stat()
            except OSError:
                continue  # another process removed it
            if path.is_file() and path != keep and path.suffix in (SUFFIX, PARTIAL):
                entries.append((status.st_mtime_ns, status.st_size, path))
        room = self.limit_bytes - sum(size for _, size, _ in entries) - keep.stat().st_size
        for _, size, path in sorted(entries):
            if room >= 0:
                return
            path.unlink(missing_ok=True)
            room += size


def cache_of(options: LoadOptions) -> RunCache | None:
    """The cache that the options name."""
    if options.cache_dir is None:
        return None
    return RunCache(options.cache_dir, options.limits.cache_bytes)


def cache_key(digest: str, limits: Limits) -> str:
    """Names a file's content as read under the given limits."""
    return hashlib.blake2b(f"{digest} {limits!r}".encode(), digest_size=20).hexdigest()


def recall(cache: RunCache, path: Path, digest: str, limits: Limits) -> TraceFile | None:
    """The trace as read before; None when it was not. Raises ``DamagedError`` when the entry cannot be trusted."""
    hit = cache.get(cache_key(digest, limits))
    return None if hit is None else TraceFile(path, digest, hit.table, _facts(hit.about))


def keep(cache: RunCache, trace: TraceFile, limits: Limits) -> bool:
    """Store the trace for the next time; False when the cache does not take it."""
    return cache.put(cache_key(trace.digest, limits), trace.table, msgspec.json.encode(trace.facts))


def to_bytes(trace: TraceFile) -> bytes:
    """The trace, packed."""
    return b"".join(pack(trace.table, READER_VERSION, trace.digest, msgspec.json.encode(trace.facts)))


def from_bytes(path: Path, packed: bytes) -> TraceFile:
    """The trace that was packed."""
    data = memoryview(packed)
    header = read_header(data)
    return TraceFile(path, header.key, unpack(data, header), _facts(bytes(header.about)))


def _facts(about: bytes) -> TraceFacts:
    return msgspec.json.decode(about, type=TraceFacts)
