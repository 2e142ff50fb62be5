"""Reads several files at a time in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path

from tools.errors import InputError
from tools.run.packing import DamagedError
from tools.sources.kept import cache_of, from_bytes, keep, recall, to_bytes
from tools.sources.kineto import TraceFile, read_trace
from tools.sources.options import LoadOptions, Progress, Silent
from tools.sources.process import LostProcessError, ReadingProcess


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
            return read_trace(self.path, self.digest, self.options, heard)
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
        kept = recall(cache, request.path, request.digest, request.options.limits) if cache else None
    except DamagedError:
        kept = None
    return kept or request.read(Silent())  # removed from the cache meanwhile
