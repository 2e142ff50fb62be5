"""One large file decoded by several processes, and the joining of what they collected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tools.errors import InputError
from tools.sources.kineto.collect import Collected, NeedsCareError, Walk
from tools.sources.kineto.columns import Columns, Parts
from tools.sources.kineto.details import Codes
from tools.sources.options import Limits
from tools.sources.workers import LostProcessError, ReadingProcess

Key = TypeVar("Key")


def compact(columns: Columns) -> Columns:
    """The same columns with one array each, which travel between processes at little cost."""
    for table in (columns.rows_of, columns.flows, *columns.details.tables.values()):
        for column, parts in table.items():
            table[column] = [np.concatenate(parts)] if parts else []
    return columns


def absorb(into: Columns, other: Columns) -> None:
    """Append ``other``, with its codes translated, to ``into``."""
    names, tracks = _translate(into.names, other.names), _translate(into.tracks, other.tracks)
    flow_ids = _translate(into.flow_ids, other.flow_ids).astype(np.int64)
    _extend(into.rows_of, other.rows_of, {"name": names, "track": tracks})
    _extend(into.flows, other.flows, {"identity": flow_ids, "track": tracks})
    for table, columns in other.details.tables.items():
        words = {column: f"{table}.{column}" for column in columns}
        codes = {
            column: _translate(into.details.vocabularies.setdefault(key, Codes()), other.details.vocabularies[key])
            for column, key in words.items()
            if key in other.details.vocabularies
        }
        moved = {**columns, "row": [part + into.rows for part in columns["row"]]}
        _extend(into.details.tables[table], moved, codes)
    for code, where in other.devices.items():
        into.devices.setdefault(int(tracks[code]), where)
    into.labels |= other.labels
    for pid, said in other.processes.items():
        into.processes.setdefault(pid, set()).update(said)
    for code, categories in other.unknown.items():
        into.unknown.setdefault(int(tracks[code]), set()).update(categories)
    for phase, processes in other.arrows.items():
        into.arrows[phase] |= processes
    into.details.groups |= other.details.groups
    into.excluded += other.excluded
    into.numbered += other.numbered
    into.rows += other.rows
    into.spans += other.spans
    into.seen += other.seen
    into.counter_ranges += other.counter_ranges


def _extend(into: Parts, other: Parts, codes: dict[str, NDArray[Any]]) -> None:
    for column, parts in other.items():
        into[column] += [codes[column][part] for part in parts] if column in codes else parts


def _translate(into: Codes[Key], other: Iterable[Key]) -> NDArray[np.int32]:
    return np.array([into[key] for key in other], dtype=np.int32)


# Each process expands the whole file, which is cheap, and decodes the slices it is first to claim. Claims are tokens in
# a pipe, the slices' numbers in ascending order: whoever draws a number decodes that slice.


TOKEN_BYTES = 4
MAX_SLICES = (1 << 16) // TOKEN_BYTES  # as many tokens as a pipe holds


class Tokens:
    """Draws slice numbers from the common pipe, one ahead of the walk."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._drawn = self._draw()

    def granted(self, index: int) -> bool:
        """Return True when slice ``index`` is this process's to decode; to be called with ascending numbers."""
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
        """The collected columns; None when the text needs care."""
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
                other: Collected | None = process.take()
                if other is None:
                    raise NeedsCareError
                absorb(collected.columns, other.columns)
                collected.members |= other.members
                collected.ended |= other.ended
        except LostProcessError as error:
            raise NeedsCareError from error
        return collected


def _token_pipe(stack: ExitStack) -> int:
    source, sink = os.pipe()
    stack.callback(os.close, source)
    with open(sink, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(b"".join(index.to_bytes(TOKEN_BYTES, "little") for index in range(MAX_SLICES)))
    return source
