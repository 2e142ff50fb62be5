"""The structure of JSON text without decoding it: where the members of an array begin and end."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUOTE, BACKSLASH = ord('"'), ord("\\")
OPENING = (ord("["), ord("{"))
CLOSING = (ord("]"), ord("}"))


@dataclass(frozen=True)
class Spans:
    """Byte ranges of the objects that are direct members of the array the text begins with.

    ``closed`` is the offset of the array's closing bracket, -1 when the text ends before it.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    closed: int


def object_spans(text: bytearray | bytes) -> Spans:
    """Find the array's complete member objects; ``text`` has to begin with the array's opening bracket."""
    data = np.frombuffer(text, dtype=np.uint8)
    inside = _string_edges(data)
    marks = np.flatnonzero(np.isin(data, OPENING + CLOSING))
    in_string = np.searchsorted(inside, marks) % 2 == 1
    marks = marks[~in_string]
    opening = np.isin(data[marks], OPENING)
    depth = np.cumsum(np.where(opening, 1, -1))
    end = np.flatnonzero(depth == 0)
    if len(end):
        marks, opening, depth = marks[: end[0] + 1], opening[: end[0] + 1], depth[: end[0] + 1]
    closed = int(marks[-1]) if len(end) else -1
    brace = data[marks] == ord("{")
    starts = marks[opening & brace & (depth == 2)]
    ends = marks[~opening & (depth == 1) & (data[marks] == ord("}"))] + 1
    ends = ends[: len(starts)]
    return Spans(starts[: len(ends)].astype(np.int64), ends.astype(np.int64), closed)


def _string_edges(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Offsets of the quotes that begin or end a string."""
    quotes = np.flatnonzero(data == QUOTE)
    slashes = np.flatnonzero(data == BACKSLASH)
    if not len(slashes):
        return quotes
    run_start = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
    run_length = np.diff(np.append(run_start, len(slashes)))
    after = slashes[run_start] + run_length
    escaped = after[run_length % 2 == 1]
    return quotes[~np.isin(quotes, escaped)]


def parse_members(text: bytes) -> dict[str, Any] | None:
    """The members of a JSON object, read leniently; None when it is none."""
    try:
        value = parse_lenient(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_lenient(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text; raises ``ValueError`` or ``RecursionError`` where it has none.

    Escaped halves of surrogate pairs are replaced: no text with one can be written anywhere.
    """
    value = json.loads(text, strict=False)
    if "\\ud" not in text.lower():
        return value
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(whole, strict=False)
