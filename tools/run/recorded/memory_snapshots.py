"""What a snapshot of PyTorch's caching allocator says: sizes at its end, and how they came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

NO_PYTHON = "no Python frame"  # as of work that PyTorch's own threads do, such as the backward pass
EVENT_COLUMNS: dict[str, str] = {
    "action": "str",
    **dict.fromkeys(("bytes", "address", "frame", "time_us", "emptied"), "int64"),
}
BLOCK_COLUMNS: dict[str, str] = {
    **dict.fromkeys(("segment", "address", "bytes", "requested", "frame"), "int64"),
    "state": "str",
}


@dataclass(frozen=True, eq=False)
class MemorySnapshot:
    """The allocator of one device.

    ``events`` (``EVENT_COLUMNS``): alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map,
    segment_unmap, oom, in order of time; the recorder forgets the oldest. ``blocks`` (``BLOCK_COLUMNS``): those of the
    reserved segments at the end, active_allocated, active_pending_free or inactive. ``frame`` is a row of ``frames``,
    the program's own frame of each stack, else the innermost frame of Python, ``NO_PYTHON`` where the stack holds none,
    and -1 where no stack was recorded. ``emptied``: 1 where the program itself emptied the cache. Sizes in bytes.
    """

    rank: int  # -1 where it is not known
    device: int
    file: str
    events: pd.DataFrame
    blocks: pd.DataFrame
    frames: tuple[str, ...]
    settings: Mapping[str, str]  # of the allocator
