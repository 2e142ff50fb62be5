"""Reads the files of a run: from the cache where it has them, several at a time where it has not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path

import msgspec

from tools.errors import InputError
from tools.run.packing import DamagedError
from tools.sources.digest import digest
from tools.sources.options import Limits, LoadOptions, Progress, Silent
from tools.sources.registry import trace_format
from tools.sources.trace_cache import RunCache, cache_of, from_bytes, keep, recall, to_bytes
from tools.sources.trace_file import TraceFile
from tools.sources.workers import LostProcessError, ReadingProcess


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
