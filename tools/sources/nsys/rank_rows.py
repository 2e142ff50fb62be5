"""The rows of one process of an export as the columns that every trace is assembled from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.run.kinds import DETAIL_COLUMNS, EventKind
from tools.sources.kineto.columns import Columns
from tools.sources.kineto.details import Codes
from tools.sources.nsys.pieces import Numbers
from tools.sources.sqlite_file import ABSENT

LATEST_NS = 2**61  # leaves room for the time of day in int64
LARGEST_INDEX = 2**31 - 1
CONTEXT_STREAM = 2**32 - 1  # of a synchronisation that waits for all streams
LOW_BITS = 24  # of a global id: its thread; above it as many bits of the process


def process_of(global_id: Numbers) -> Numbers:
    """The process of a global thread or process id, as a global id without a thread."""
    return global_id & ~((1 << LOW_BITS) - 1)


def pid_of(global_id: int) -> int:
    """The operating system's number of the process of a global id."""
    return (global_id >> LOW_BITS) & ((1 << LOW_BITS) - 1)


class RankRows:
    """Collects the events of one process."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.work_on: Counter[int] = Counter()  # device -> events
        self.device_of_context: dict[int, int] = {}

    def codes(self, values: Numbers, texts: Callable[[list[int]], Sequence[str]]) -> NDArray[np.int32]:
        """The code of each value's name; ``texts`` gives the names of different values."""
        different, at = np.unique(values, return_inverse=True)
        names = self.columns.names
        return np.array([names[text] for text in texts(different.tolist())], dtype=np.int32)[at]

    def note_contexts(self, context: Numbers, device: Numbers) -> None:
        """Learn the device of each context from work that ran in it."""
        pairs = np.unique(np.stack([context, device]), axis=1).T.tolist()
        self.device_of_context.update((context, device) for context, device in pairs if context >= 0)

    def devices_of(self, context: Numbers, otherwise: Numbers) -> Numbers:
        """The device of each context; where no work ran in it the one given."""
        different, at = np.unique(context, return_inverse=True)
        known = np.array([self.device_of_context.get(each, ABSENT) for each in different.tolist()], dtype=np.int64)[at]
        return np.where(known >= 0, known, otherwise)

    def device_tracks(self, device: Numbers, stream: Numbers) -> NDArray[np.int32]:
        """The track of each piece of device work."""
        device = np.clip(device, 0, LARGEST_INDEX)
        stream = np.where(stream == CONTEXT_STREAM, -1, np.clip(stream, -1, LARGEST_INDEX))
        different, at = np.unique(np.stack([device, stream]), axis=1, return_inverse=True)
        at = at.reshape(-1)
        tracks = np.empty(different.shape[1], dtype=np.int32)
        for place, (index, number) in enumerate(different.T.tolist()):
            key = (f"GPU {index}", number)
            tracks[place] = self.columns.tracks[key]
            self.columns.devices[int(tracks[place])] = (index, number)
            self.columns.labels[key] = f"stream {number}"
            self.work_on[index] += int((at == place).sum())
        return tracks[at]

    @property
    def main_device(self) -> int:
        """The device that most of the work ran on."""
        return self.work_on.most_common(1)[0][0]

    def host_tracks(self, thread: Numbers) -> NDArray[np.int32]:
        """The track of each event of a thread."""
        different, at = np.unique(thread, return_inverse=True)
        mask = (1 << LOW_BITS) - 1
        keys = [(pid_of(each), each & mask) for each in different.tolist()]
        return np.array([self.columns.tracks[key] for key in keys], dtype=np.int32)[at]

    def add(
        self,
        start: Numbers,
        end: Numbers,
        kind: EventKind | NDArray[np.int8],
        name: NDArray[np.int32],
        track: NDArray[np.int32],
        correlation: Numbers | None = None,
    ) -> tuple[NDArray[np.bool_], Numbers]:
        """Take rows; returns which had usable times, and the row of each of these."""
        ended = end != ABSENT
        usable = ended & (np.abs(start) <= LATEST_NS) & (end >= start) & (end <= LATEST_NS)
        columns = self.columns
        columns.seen += len(start)
        columns.excluded["that begin and never end"] += int((~ended).sum())
        columns.excluded["without a usable time"] += int((ended & ~usable).sum())
        count = int(usable.sum())
        linked = np.full(count, -1) if correlation is None else correlation[usable]
        kinds = np.full(count, kind, dtype=np.int8) if isinstance(kind, EventKind) else kind[usable]
        added: dict[str, NDArray[Any]] = {"start_ns": start[usable], "end_ns": end[usable], "kind": kinds}
        added |= {"name": name[usable], "track": track[usable]}
        added |= {"correlation": np.where(linked >= 0, linked, -1), "external": np.full(count, -1)}
        for column, values in added.items():
            columns.rows_of[column].append(values)
        rows = columns.rows + np.arange(count)
        columns.rows += count
        columns.spans += int((kinds != EventKind.INSTANT).sum())
        return usable, rows

    def add_details(self, table: str, rows: Numbers, values: dict[str, NDArray[Any] | list[str]]) -> None:
        """Attributes of these rows; texts are lists, numbers arrays, both parallel to the rows. Others are absent."""
        if not len(rows):
            return
        parts = self.columns.details.tables[table]
        parts["row"].append(rows)
        for column, dtype in DETAIL_COLUMNS[table].items():
            if column == "row":
                continue
            if dtype == "category":
                given = values.get(column)
                codes: Codes[str] = self.columns.details.vocabularies.setdefault(f"{table}.{column}", Codes())
                parts[column].append(np.array([codes[str(each)] for each in given or [""] * len(rows)], dtype=np.int32))
            else:
                absent = np.full(len(rows), np.nan if dtype == "float64" else -1)
                parts[column].append(np.asarray(values.get(column, absent), dtype=dtype))
