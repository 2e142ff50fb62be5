"""Reads the files of a run: from the cache where it has them, several at a time where it has not."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from tools.errors import InputError
from tools.leftovers import PARTIAL, write_whole
from tools.run.packing import DamagedError, PackedHeader, pack, read_header, unpack, unpack_frames
from tools.run.recorded.counters import SAMPLE_COLUMNS
from tools.sources.digest import digest
from tools.sources.options import Limits, LoadOptions, Progress, Silent
from tools.sources.registry import trace_format
from tools.sources.trace_file import TraceFacts, TraceFile
from tools.sources.workers import Lost, LostProcessError, answered

SUFFIX = ".run"
SAMPLES, REPEATED = "samples", ("host", "part", "counter")  # their texts are few
KILLED = "the process that read it was killed; is there enough memory?"
READER_VERSION = 11  # raise it whenever the reader gives other events for the same file


def packed(trace: TraceFile) -> Iterator[memoryview]:
    """The trace as buffers to be written one after the other."""
    more = {} if trace.samples is None else {SAMPLES: trace.samples.astype(dict.fromkeys(REPEATED, "category"))}
    return pack(trace.table, READER_VERSION, trace.digest, msgspec.json.encode(trace.facts), more)


def _unpacked(path: Path, data: memoryview, header: PackedHeader) -> TraceFile:
    try:
        facts = msgspec.json.decode(header.about, type=TraceFacts)
    except msgspec.DecodeError as error:
        raise DamagedError(str(error)) from error
    samples = None
    if facts.sampled is not None:
        samples = unpack_frames(data, header, (SAMPLES,))[SAMPLES]
        if set(samples.columns) != set(SAMPLE_COLUMNS):
            raise DamagedError("its samples are incomplete")
        samples = samples.astype(SAMPLE_COLUMNS)
        facts = replace(facts, sampled=replace(facts.sampled, path=str(path)))
    return TraceFile(path, header.key, unpack(data, header), facts, samples)


@dataclass(frozen=True)
class TraceCache:
    """A folder of packed traces as read under the limits; safe when several processes use it at once."""

    folder: Path
    limits: Limits

    def file(self, digest: str) -> Path:
        """The file that holds the trace of those bytes."""
        key = hashlib.blake2b(f"{digest} {self.limits!r}".encode(), digest_size=20).hexdigest()
        return self.folder / f"{key}{SUFFIX}"

    def get(self, path: Path, digest: str) -> TraceFile | None:
        """The trace as read before, None when it was not; raises ``DamagedError`` when it cannot be trusted."""
        try:
            with self.file(digest).open("rb") as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise DamagedError(str(error)) from error
        header = read_header(data)
        if header.version != READER_VERSION or header.key != digest:
            return None
        trace = _unpacked(path, data, header)
        others = [self.get(path, other) for other in trace.facts.others]
        whole = [other for other in others if other is not None]
        if len(whole) < len(others):
            return None
        trace = replace(trace, others=tuple(whole))
        with suppress(OSError):  # a read-only cache still serves
            os.utime(self.file(digest))
        return trace

    def put(self, trace: TraceFile) -> bool:
        """Store a trace; False when the folder does not take it, which costs nothing but the next read."""
        target = self.file(trace.digest)
        if not all([self.put(other) for other in trace.others]) or not write_whole(target, packed(trace)):
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
        room = self.limits.cache_bytes - sum(size for _, size, _ in entries) - keep.stat().st_size
        for _, size, path in sorted(entries):
            if room >= 0:
                return
            path.unlink(missing_ok=True)
            room += size


@dataclass(frozen=True)
class Failure:
    """A file that cannot be used, and why."""

    path: Path
    reason: str
    transient: bool = False  # it may be read the next time: nothing that rests on its absence is stored


@dataclass(frozen=True)
class FileRequest:
    """One file to read."""

    path: Path
    digest: str
    size_bytes: int
    options: LoadOptions

    @property
    def cache(self) -> TraceCache | None:
        """The cache that the options name."""
        folder = self.options.cache_dir
        return None if folder is None else TraceCache(folder, self.options.limits)

    def cached(self, notes: list[str]) -> TraceFile | None:
        """The trace from the cache, with a note where its copy is damaged."""
        try:
            return self.cache.get(self.path, self.digest) if self.cache else None
        except DamagedError as error:
            notes.append(f"the cached copy of {self.path.name} was damaged ({error}) and has been rebuilt")
            return None

    def read(self, progress: Progress) -> TraceFile | Failure:
        """The trace in the file, or why there is none."""

        def heard(done: int, total: int) -> None:
            progress.update("read", done, total, self.path.name)

        try:
            return trace_format(self.path).read(self.path, self.digest, self.options, heard)
        except InputError as error:
            return Failure(self.path, str(error))

    def answer(self) -> list[bytes] | Failure:
        """For another process: the packed trace of each rank in the file; none when they lie in the cache instead."""
        trace = self.read(Silent())
        if isinstance(trace, Failure):
            return trace
        if self.cache and self.cache.put(trace):
            return []
        return [b"".join(packed(each)) for each in (trace, *trace.others)]

    def received(self, answer: list[bytes] | Failure) -> TraceFile | Failure:
        """The answer of another process."""
        if isinstance(answer, Failure):
            return answer
        if answer:
            first, *others = (_unpacked(self.path, memoryview(each), read_header(memoryview(each))) for each in answer)
            return replace(first, others=tuple(others))
        return self.cached([]) or self.read(Silent())  # removed from the cache meanwhile


def read_apart(requests: Sequence[FileRequest], workers: int) -> Iterator[tuple[Path, TraceFile | Failure]]:
    """Read with ``workers`` other processes, one file each at a time; a file whose process dies is left out."""
    alone = [replace(request, options=replace(request.options, workers=1)) for request in requests]
    for place, answer in answered(alone, workers):
        path = requests[place].path
        if isinstance(answer, Lost):
            yield path, Failure(path, f"{path}: {KILLED}", transient=True)
        else:
            yield path, alone[place].received(answer)


@dataclass(frozen=True)
class FilesRead:
    """One result per file, of a file with several ranks one for each, and notes about the cache."""

    results: tuple[TraceFile | Failure, ...]
    notes: tuple[str, ...]


def read_files(files: Sequence[Path], options: LoadOptions, progress: Progress) -> FilesRead:
    """Read every file once; the results are in the order of the files."""
    notes: list[str] = []
    results: dict[Path, TraceFile | Failure] = {}
    requests: list[FileRequest] = []
    with ThreadPoolExecutor(options.worker_count()) as threads:  # hashing holds no lock of the interpreter
        for request in threads.map(lambda path: _request(path, options), files):
            if isinstance(request, Failure):
                results[request.path] = request
            elif known := request.cached(notes):
                results[request.path] = known
            else:
                requests.append(request)
    try:
        for path, result in _read(requests, options, progress):
            results[path] = result
            progress.update("files", len(results), len(files), path.name)
    except LostProcessError as error:
        raise InputError(f"the traces could not be read: {error}; try with one worker") from error
    return FilesRead(tuple(each for path in files for each in _by_rank(results[path])), tuple(notes))


def _by_rank(result: TraceFile | Failure) -> tuple[TraceFile | Failure, ...]:
    return (result, *result.others) if isinstance(result, TraceFile) else (result,)


def _request(path: Path, options: LoadOptions) -> FileRequest | Failure:
    try:
        return FileRequest(path, digest(path, options.cache_dir), path.stat().st_size, options)
    except (InputError, OSError) as error:
        return Failure(path, str(error))


def _read(
    requests: Sequence[FileRequest], options: LoadOptions, progress: Progress
) -> Iterator[tuple[Path, TraceFile | Failure]]:
    workers = min(options.worker_count(), len(requests))
    if workers > 1 and sum(request.size_bytes for request in requests) > options.alone_bytes:
        yield from read_apart(requests, workers)
        return
    for request in requests:
        trace = request.read(progress)
        if request.cache and isinstance(trace, TraceFile):
            request.cache.put(trace)
        yield request.path, trace
