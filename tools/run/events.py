"""The event table of one rank: what ran, where, from when to when.

``EventTable.frame`` is a pandas DataFrame, one row per event, sorted by ``start_ns`` then longest first, with a
RangeIndex that serves as the event's row id. Columns (all fixed width):

==============  =========  =====================================================================
start_ns        int64      from the run's origin, aligned across ranks
end_ns          int64      ``start_ns`` + duration; equal for instants
kind            int8       an ``EventKind``
name            category   as recorded; untrusted text
track           int32      row of ``tracks`` (a host thread or a device stream)
correlation     int64      joins a runtime call with the device work it launched; -1 when absent
external        int64      joins device work and runtime calls with the operator; -1 when absent
==============  =========  =====================================================================

What only some events have lies in side tables keyed by the event's row (column ``row``), see ``Details``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.kinds import DETAIL_COLUMNS as DETAIL_COLUMNS
from tools.run.kinds import DEVICE_WORK as DEVICE_WORK
from tools.run.kinds import HOST_WORK as HOST_WORK
from tools.run.kinds import EventKind as EventKind


@dataclass(frozen=True)
class Details:
    """Sparse attributes, one DataFrame each, with a ``row`` column into the event table; empty when not recorded.

    kernels:     row, blocks, threads, registers, shared_bytes, warps_per_sm, occupancy_pct (NaN when absent)
    copies:      row, bytes (-1 when absent)
    operators:   row, dims (str, JSON of "Input Dims"), types (str, JSON of "Input type"), sequence, forward_thread
                 (-1 when absent), stack (str, "" when absent)
    collectives: row, collective, group, group_size, ranks (str), dtype, in_elements, out_elements
                 (on the host's record_param_comms and on device kernels, wherever the trace has them)
    memory:      row, bytes, total_allocated, total_reserved, device_type (0 CPU, 1 device), device
    syncs:       row, sync_kind, stream, wait_on_stream, wait_on_record_correlation, event
    forward_backward: forward_row, backward_row
    python:      row, python_id, parent_id
    """

    kernels: pd.DataFrame
    copies: pd.DataFrame
    operators: pd.DataFrame
    collectives: pd.DataFrame
    memory: pd.DataFrame
    syncs: pd.DataFrame
    forward_backward: pd.DataFrame
    python: pd.DataFrame


FRAME_COLUMNS: dict[str, str] = {
    "start_ns": "int64",
    "end_ns": "int64",
    "kind": "int8",
    "name": "category",
    "track": "int32",
    "correlation": "int64",
    "external": "int64",
}

TRACK_COLUMNS: dict[str, str] = {
    "pid": "str",
    "tid": "str",
    "device": "int64",  # -1 for a host thread
    "stream": "int64",  # -1 for a host thread
    "label": "str",
}


def empty_table(columns: dict[str, str]) -> pd.DataFrame:
    """A table without rows, with the given column types."""
    return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in columns.items()})


@dataclass(frozen=True)
class EventTable:
    """All events of one rank, their tracks and their sparse attributes."""

    frame: pd.DataFrame
    tracks: pd.DataFrame
    details: Details = field(
        default_factory=lambda: Details(**{name: empty_table(columns) for name, columns in DETAIL_COLUMNS.items()})
    )

    def __len__(self) -> int:
        return len(self.frame)

    def of_kind(self, *kinds: EventKind) -> pd.DataFrame:
        """The rows of the given kinds, row ids kept."""
        wanted = np.isin(self.frame["kind"].to_numpy(), [int(kind) for kind in kinds])
        return self.frame[wanted]

    def device_tracks(self) -> NDArray[np.int64]:
        """Ids of the tracks that are device streams."""
        return np.flatnonzero(self.tracks["device"].to_numpy() >= 0)

    def moved(self, by_ns: int) -> EventTable:
        """The same events so much later."""
        if not by_ns:
            return self
        frame = self.frame
        return replace(self, frame=frame.assign(start_ns=frame["start_ns"] + by_ns, end_ns=frame["end_ns"] + by_ns))


def name_mask(names: pd.Series, wanted: Callable[[str], object]) -> NDArray[np.bool_]:
    """For each row of a categorical column, whether its text is wanted; asked once per distinct text."""
    texts = names.cat.categories.to_numpy(dtype=object)  # one by one, an index of texts gives them ten times slower
    by_code = np.array([bool(wanted(str(text))) for text in texts], dtype=bool)
    return np.append(by_code, False)[names.cat.codes.to_numpy()]
