"""Joins the columns that several processes collected from one file."""

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
from tools.sources.kineto.columns import Columns
from tools.sources.kineto.values import Codes
from tools.sources.options import Limits
from tools.sources.workers import LostProcessError, ReadingProcess

Key = TypeVar("Key")

PLAIN = ("start_ns", "end_ns", "kind", "correlation", "external")


def compact(columns: Columns) -> Columns:
    """The same columns with one array each, which travel between processes at little cost."""
    for name in (*PLAIN, "name", "track"):
        setattr(columns, name, _one(getattr(columns, name)))
    for name in ("starting", "identity", "time_ns", "track"):
        setattr(columns.flows, name, _one(getattr(columns.flows, name)))
    for table in columns.details.tables.values():
        for column, parts in table.items():
            table[column] = _one(parts)
    return columns


def absorb(into: Columns, other: Columns) -> None:
    """Append ``other``, with its codes translated, to ``into``."""
    names, tracks = _translate(into.names, other.names), _translate(into.tracks, other.tracks)
    for name in PLAIN:
        getattr(into, name).extend(getattr(other, name))
    into.name += [names[part] for part in other.name]
    into.track += [tracks[part] for part in other.track]
    for code, where in other.devices.items():
        into.devices.setdefault(int(tracks[code]), where)
    into.labels |= other.labels
    flow_ids = _translate(into.flow_ids, other.flow_ids).astype(np.int64)
    into.flows.starting += other.flows.starting
    into.flows.time_ns += other.flows.time_ns
    into.flows.identity += [flow_ids[part] for part in other.flows.identity]
    into.flows.track += [tracks[part] for part in other.flows.track]
    _absorb_details(into, other)
    into.excluded += other.excluded
    into.rows += other.rows
    into.spans += other.spans
    into.seen += other.seen


def _absorb_details(into: Columns, other: Columns) -> None:
    for table, columns in other.details.tables.items():
        own = into.details.tables[table]
        for column, parts in columns.items():
            key = f"{table}.{column}"
            if column == "row":
                own[column] += [part + into.rows for part in parts]
            elif key in other.details.vocabularies:
                words = into.details.vocabularies.setdefault(key, Codes())
                codes = _translate(words, other.details.vocabularies[key])
                own[column] += [codes[part] for part in parts]
            else:
                own[column] += parts
    into.details.groups |= other.details.groups


def _translate(into: Codes[Key], other: Iterable[Key]) -> NDArray[np.int32]:
    return np.array([into[key] for key in other], dtype=np.int32)


def _one(parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return [np.concatenate(parts)] if parts else []


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
