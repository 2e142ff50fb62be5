"""A second Python process that reads for this one.

It is started from scratch rather than forked, and unlike one of ``multiprocessing`` does not import the caller's main
module: reading must work from a thread, a script without a main guard, and an interactive session alike.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol

from tools.errors import InputError
from tools.run.packing import DamagedError
from tools.sources.kineto.reader import TraceFile, read_trace
from tools.sources.options import LoadOptions, Progress, Silent
from tools.sources.trace_cache import cache_of, from_bytes, keep, recall, to_bytes

BOOT = (
    "import json, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = json.loads(sys.argv[1]); "
    "from tools.sources.workers import serve; serve(int(sys.argv[2]), int(sys.argv[3]))"
)


class Request(Protocol):
    """Work for the other process; both the request and its result have to be picklable."""

    def answer(self) -> object:
        """Do the work, in the other process."""


class LostProcessError(Exception):
    """The other process ended without an answer."""


class ReadingProcess:
    """One process that answers requests in turn; leaving the ``with`` block ends it."""

    def __init__(self, shared: Sequence[int] = ()) -> None:
        """Start the process, which inherits the ``shared`` descriptors; ``LostProcessError`` when it cannot start."""
        ask_end, own_ask = os.pipe()
        own_answer, answer_end = os.pipe()
        path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        self._ask = Connection(own_ask, readable=False)
        self.answers = Connection(own_answer, writable=False)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-c", BOOT, path, str(ask_end), str(answer_end)],
                pass_fds=(ask_end, answer_end, *shared),
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise LostProcessError(f"no process could be started: {error.strerror}") from error
        finally:
            os.close(ask_end)
            os.close(answer_end)

    def __enter__(self) -> ReadingProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ask.close()
        self.answers.close()
        self._process.kill()
        self._process.wait()

    def ask(self, request: Request) -> None:
        """Hand over a request; its answer comes in order through ``take``."""
        with suppress(BrokenPipeError):  # it has died, which ``take`` will tell
            self._ask.send(request)

    def take(self) -> Any:  # noqa: ANN401 - whatever the request's answer is
        """Wait for the next answer; raises ``LostProcessError`` when the process has died."""
        try:
            return self.answers.recv()
        except (EOFError, OSError) as error:
            raise LostProcessError from error


def serve(ask_fd: int, answer_fd: int) -> None:
    """Answer requests until the asking side closes its end or dies, which ends this process at once."""
    ask, answers = Connection(ask_fd, writable=False), Connection(answer_fd, readable=False)
    requests: SimpleQueue[Request] = SimpleQueue()
    threading.Thread(target=_listen, args=(ask, requests), daemon=True).start()
    while True:
        answers.send(requests.get().answer())


def _listen(ask: Connection[Any, Any], requests: SimpleQueue[Request]) -> None:
    while True:
        try:
            requests.put(ask.recv())
        except (EOFError, OSError):
            os._exit(0)  # nobody waits for what is being read


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
