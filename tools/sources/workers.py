"""Other Python processes that read for this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol

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
        self.close()

    def close(self) -> None:
        """End the process and free its pipes."""
        self._ask.close()
        self.answers.close()
        self._process.kill()
        self._process.wait()

    def ask(self, request: Request) -> None:
        """Hand over a request; its answer comes in order through ``take``."""
        with suppress(BrokenPipeError):  # it has died, which ``take`` reports
            self._ask.send(request)

    def take(self) -> Any:  # noqa: ANN401 - whatever the request's answer is
        """Wait for the next answer; raises ``LostProcessError`` when the process has died."""
        try:
            return self.answers.recv()
        except (EOFError, OSError) as error:
            raise LostProcessError from error


@dataclass(frozen=True)
class Lost:
    """The answer to a request whose process ended without one, however often it was asked."""

    tries: int


def answered(requests: Sequence[Request], workers: int, tries: int = 1) -> Iterator[tuple[int, Any]]:
    """Have so many other processes answer, one request each at a time; yield place and answer as they complete.

    A request whose process dies is asked again until it was tried so often, then its answer is ``Lost``.
    Raises ``LostProcessError`` where no process can be started.
    """
    waiting = [(place, 1) for place in reversed(range(len(requests)))]
    with ExitStack() as stack:
        idle = [stack.enter_context(ReadingProcess()) for _ in range(workers)]
        busy: dict[ReadingProcess, tuple[int, int]] = {}
        while waiting or busy:
            while idle and waiting:
                process, task = idle.pop(), waiting.pop()
                process.ask(requests[task[0]])
                busy[process] = task
            ready = wait([process.answers for process in busy])
            for process in [process for process in busy if process.answers in ready]:
                place, tried = busy.pop(process)
                try:
                    answer = process.take()
                    idle.append(process)
                except LostProcessError:
                    process.close()
                    idle.append(stack.enter_context(ReadingProcess()))
                    if tried < tries:
                        waiting.append((place, tried + 1))
                        continue
                    answer = Lost(tried)
                yield place, answer


def serve(ask_fd: int, answer_fd: int) -> None:
    """Answer requests until the asking side closes its end or dies, which ends this process at once."""
    ask, answers = Connection(ask_fd, writable=False), Connection(answer_fd, readable=False)
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(ask, requests), daemon=True).start()
    while True:
        request: Request = ForkingPickler.loads(requests.get())  # imports what reads: seconds on a busy machine
        answers.send(request.answer())


def _listen(ask: Connection[Any, Any], requests: SimpleQueue[bytes]) -> None:
    """Hand over requests as they came, so that the asking side's end is noticed whatever they are busy with."""
    while True:
        try:
            requests.put(ask.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)  # nobody waits for what is being read
