"""Reads the files of a run: from the cache where it has them, several at a time where it has not."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path

import msgspec

from tools.errors import InputError
from tools.run.events import EventTable
from tools.run.packing import DamagedError, pack, read_header, unpack
from tools.sources.digest import PARTIAL, digest, write_whole
from tools.sources.options import Limits, LoadOptions, Progress, Silent
from tools.sources.registry import trace_format
from tools.sources.trace_file import TraceFacts, TraceFile
from tools.sources.workers import LostProcessError, ReadingProcess

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


@dataclass(frozen=True)
class Failure:
    """A file that cannot be used, and why."""

    path: Path
    reason: str


@dataclass(frozen=True)
class FileRequest:
    """One file to read."""

    path: Path
    digest: str
    options: LoadOptions

    def read(self, progress: Progress) -> TraceFile | Failure:
        """The trace in the file, or why there is none."""

        def heard(done: int, total: int) -> None:
            progress.update("read", done, total, self.path.name)

        try:
            return trace_format(self.path).read(self.path, self.digest, self.options, heard)
        except InputError as error:
            return Failure(self.path, str(error))

    def answer(self) -> bytes | Failure:
        """For another process: the packed trace; no bytes when it lies in the cache instead."""
        trace = self.read(Silent())
        if isinstance(trace, Failure):
            return trace
        cache = cache_of(self.options)
        return b"" if cache and keep(cache, trace, self.options.limits) else to_bytes(trace)


def read_apart(requests: Sequence[FileRequest], workers: int) -> Iterator[tuple[Path, TraceFile | Failure]]:
    """Read with ``workers`` other processes, one file each at a time; a file whose process dies is left out."""
    waiting = [replace(request, options=replace(request.options, workers=1)) for request in reversed(requests)]
    with ExitStack() as stack:
        idle = [stack.enter_context(ReadingProcess()) for _ in range(workers)]
        busy: dict[ReadingProcess, FileRequest] = {}
        while waiting or busy:
            while idle and waiting:
                process, request = idle.pop(), waiting.pop()
                process.ask(request)
                busy[process] = request
            ready = wait([process.answers for process in busy])
            for process in [process for process in busy if process.answers in ready]:
                request = busy.pop(process)
                try:
                    result = _received(request, process.take())
                    idle.append(process)
                except LostProcessError:
                    reason = f"{request.path}: the process that read it was killed; is there enough memory?"
                    result = Failure(request.path, reason)
                    idle.append(stack.enter_context(ReadingProcess()))
                yield request.path, result


def _received(request: FileRequest, answer: bytes | Failure) -> TraceFile | Failure:
    if isinstance(answer, Failure):
        return answer
    if answer:
        return from_bytes(request.path, answer)
    cache = cache_of(request.options)
    try:
        cached = recall(cache, request.path, request.digest, request.options.limits) if cache else None
    except DamagedError:
        cached = None
    return cached or request.read(Silent())  # removed from the cache meanwhile


@dataclass(frozen=True)
class FilesRead:
    """One result per file, and notes about the cache."""

    results: tuple[TraceFile | Failure, ...]
    notes: tuple[str, ...]


def read_files(files: Sequence[Path], options: LoadOptions, progress: Progress) -> FilesRead:
    """Read every file once; the results are in the order of the files."""
    cache = cache_of(options)
    notes: list[str] = []
    results: dict[Path, TraceFile | Failure] = {}
    requests: list[FileRequest] = []
    for path, content in zip(files, _digests(files, options), strict=True):
        if isinstance(content, Failure):
            results[path] = content
        elif cache and (known := _from_cache(path, content, cache, options.limits, notes)):
            results[path] = known
        else:
            requests.append(FileRequest(path, content, options))
    try:
        for path, result in _read(requests, options, progress):
            results[path] = result
            progress.update("files", len(results), len(files), path.name)
    except LostProcessError as error:
        raise InputError(f"the traces could not be read: {error}; try with one worker") from error
    return FilesRead(tuple(results[path] for path in files), tuple(notes))


def _digests(files: Sequence[Path], options: LoadOptions) -> list[str | Failure]:
    def one(path: Path) -> str | Failure:
        try:
            return digest(path, options.cache_dir)
        except InputError as error:
            return Failure(path, str(error))

    with ThreadPoolExecutor(options.worker_count()) as threads:  # hashing holds no lock of the interpreter
        return list(threads.map(one, files))


def _from_cache(path: Path, content: str, cache: RunCache, limits: Limits, notes: list[str]) -> TraceFile | None:
    try:
        return recall(cache, path, content, limits)
    except (DamagedError, msgspec.DecodeError) as error:
        notes.append(f"the cached copy of {path.name} was damaged ({error}) and has been rebuilt")
        return None


def _read(
    requests: Sequence[FileRequest], options: LoadOptions, progress: Progress
) -> Iterator[tuple[Path, TraceFile | Failure]]:
    workers = min(options.worker_count(), len(requests))
    if workers > 1 and sum(_size(request.path) for request in requests) > options.alone_bytes:
        yield from read_apart(requests, workers)
        return
    cache = cache_of(options)
    for request in requests:
        trace = request.read(progress)
        if cache and isinstance(trace, TraceFile):
            keep(cache, trace, options.limits)
        yield request.path, trace


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
