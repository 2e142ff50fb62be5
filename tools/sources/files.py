"""Reads the files of a run: from the cache where it has them, several at a time where it has not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tools.errors import InputError
from tools.run.packing import DamagedError
from tools.sources.digest import digest
from tools.sources.kineto.reader import TraceFile
from tools.sources.options import Limits, LoadOptions, Progress
from tools.sources.trace_cache import RunCache, cache_of, keep, recall
from tools.sources.workers import Failure, FileRequest, LostProcessError, read_apart


@dataclass(frozen=True)
class FilesRead:
    """One result per file, and what is worth telling about the cache."""

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
