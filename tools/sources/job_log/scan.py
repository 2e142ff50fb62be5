"""Where the lines of a text begin that hold one of the words of records: one pass of an automaton over all words."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tools.sources.job_log.lines import WORDS

PATTERN = "|".join(re.escape(word.decode()) for word in WORDS)
LINE_FEED = 10


def scanned_starts(text: bytes) -> list[int]:
    """The same as ``line_starts``, several times as fast on a large text."""
    begins, column = lines_of(text)
    found = pc.match_substring_regex(column, PATTERN).to_numpy(zero_copy_only=False)
    chosen: list[int] = begins[found].tolist()
    return chosen


def lines_of(text: bytes) -> tuple[NDArray[np.int32], pa.Array[pa.Scalar[pa.lib.BinaryType]]]:
    """Where each line begins, and the lines with their line feeds as a column over the same bytes."""
    ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == LINE_FEED)
    starts = np.concatenate(([0], ends + 1)).astype(np.int32)
    bounds = np.append(starts[starts < len(text)], len(text)).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds.tobytes()), pa.py_buffer(text)]
    return bounds[:-1], pa.Array.from_buffers(pa.binary(), len(bounds) - 1, buffers)
