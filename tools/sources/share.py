"""Reads one large file with several processes.

Each process expands the whole file, which is cheap, and decodes the slices it is first to claim. Claims are tokens in
a pipe, the slices' numbers in ascending order: whoever draws a number decodes that slice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tools.errors import InputError
from tools.sources.collect import Collected, NeedsCareError, Walk
from tools.sources.merge import absorb, compact
from tools.sources.options import Limits
from tools.sources.process import LostProcessError, ReadingProcess

TOKEN_BYTES = 4
MAX_SLICES = (1 << 16) // TOKEN_BYTES  # as many tokens as a pipe holds


class Tokens:
    """Draws slice numbers from the common pipe, one ahead of the walk."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._drawn = self._draw()

    def granted(self, index: int) -> bool:
        """Whether slice ``index`` is this process's to decode; to be asked with ascending numbers."""
        if index >= MAX_SLICES:
            raise NeedsCareError
        if index != self._drawn:
            return False
        self._drawn = self._draw()
        return True

    def _draw(self) -> int:
        token = os.read(self._fd, TOKEN_BYTES)
        return int.from_bytes(token, "little") if token else -1


@dataclass(frozen=True)
class ShareRequest:
    """The part of a file's slices that another process gets to draw."""

    path: Path
    limits: Limits
    tokens_fd: int

    def answer(self) -> Collected | None:
        """What was collected; None when the text needs care."""
        try:
            collected = Walk(self.path, self.limits, Tokens(self.tokens_fd).granted).run()
        except (NeedsCareError, InputError):
            return None
        compact(collected.columns)
        return collected


def read_shared(path: Path, limits: Limits, workers: int, heard: Callable[[int, int], None] | None) -> Collected:
    """Collect one file with ``workers`` processes, this one included; raises ``NeedsCareError`` on unsound text."""
    with ExitStack() as stack:
        tokens_fd = _token_pipe(stack)
        try:
            processes = [stack.enter_context(ReadingProcess([tokens_fd])) for _ in range(workers - 1)]
            for process in processes:
                process.ask(ShareRequest(path, limits, tokens_fd))
            collected = Walk(path, limits, Tokens(tokens_fd).granted).run(heard)
            for process in processes:
                _add(collected, process.take())
        except LostProcessError as error:
            raise NeedsCareError from error
        return collected


def _token_pipe(stack: ExitStack) -> int:
    source, sink = os.pipe()
    stack.callback(os.close, source)
    with open(sink, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(b"".join(index.to_bytes(TOKEN_BYTES, "little") for index in range(MAX_SLICES)))
    return source


def _add(into: Collected, other: Collected | None) -> None:
    if other is None:
        raise NeedsCareError
    absorb(into.columns, other.columns)
    into.members |= other.members
