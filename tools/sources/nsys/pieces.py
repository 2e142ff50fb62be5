"""Pieces of a table as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.sources.sqlite_file import Database

Numbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a table, each column of shape (n,); ``ABSENT`` stands for a missing number, None for a text."""

    numbers: dict[str, Numbers]
    texts: tuple[Any, ...] = ()  # of the one column of texts
    blobs: tuple[Any, ...] = ()  # of the one column of bytes

    def __getitem__(self, column: str) -> Numbers:
        return self.numbers[column]

    def __len__(self) -> int:
        return len(next(iter(self.numbers.values())))

    def taken(self, which: NDArray[np.bool_] | Numbers) -> Piece:
        """Some of the rows, without their texts."""
        return Piece({name: values[which] for name, values in self.numbers.items()})


def pieces(
    database: Database,
    table: str,
    numbers: Sequence[str],
    text: str | None = None,
    where: str = "",
    blob: str | None = None,
) -> Iterator[Piece]:
    """The rows of a table, some ten thousand at a time; of no table none. A blob needs a text."""
    for rows in database.pieces(table, numbers, [name for name in (text, blob) if name is not None], where):
        columns = list(zip(*rows, strict=True))
        arrays = (np.array(each, dtype=np.int64) for each in columns[: len(numbers)])
        texts, blobs = () if text is None else columns[len(numbers)], () if blob is None else columns[-1]
        yield Piece(dict(zip(numbers, arrays, strict=True)), texts, blobs)
