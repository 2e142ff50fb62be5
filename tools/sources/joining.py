"""The traces of one rank as one: which can belong together, and their joined tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from tools.run.events import DETAIL_COLUMNS, Details, EventTable, empty_table
from tools.run.model import Device
from tools.sources.trace_file import TraceFile

ROW_COLUMNS = ("row", "forward_row", "backward_row")
DAY_NS = 86_400 * 10**9
LONGEST_GAP_NS = DAY_NS  # between two traces of one rank: farther apart they are of two runs
LINK_COLUMNS = ("correlation", "external")


def clash(earlier: TraceFile, later: TraceFile) -> str:
    """Why two traces of one rank cannot both belong to the run; "" when they can."""
    first, second = earlier.facts, later.facts
    name = earlier.path.name
    if first.epoch != second.epoch:
        return f"cannot be put on one time axis with {name}, which is of the same rank"
    if first.metadata.world_size != second.metadata.world_size:
        return f"is of a job of another size than {name}, which is of the same rank"
    gap_ns = second.origin_ns - first.origin_ns - int(earlier.table.frame["end_ns"].max())
    if gap_ns < 0:
        return f"overlaps {name} in time, which is of the same rank"
    if not _processes(earlier) & _processes(later) and _processes(earlier) and _processes(later):
        return f"is of another process than {name}, which is of the same rank: of another start of the training"
    if gap_ns > LONGEST_GAP_NS:
        return f"was recorded {gap_ns / DAY_NS:.1f} days after {name}, which is of the same rank"
    return ""


def _processes(trace: TraceFile) -> set[str]:
    """The processes whose threads the trace holds; profilers add lanes of their own, which have names for a number."""
    tracks = trace.table.tracks
    return {pid for pid in tracks.loc[tracks["device"] < 0, "pid"].astype(str) if pid.isdecimal()}


def join_tables(parts: Sequence[TraceFile]) -> EventTable:
    """One table for traces in order of time that do not overlap; times count from the first part's origin."""
    if len(parts) == 1:
        return parts[0].table
    tracks, track_codes = _join_tracks([part.table.tracks for part in parts])
    rows = np.cumsum([0] + [len(part.table) for part in parts[:-1]])
    frames = []
    links = 0
    for part, codes in zip(parts, track_codes, strict=True):
        frame = part.table.frame.assign(
            start_ns=part.table.frame["start_ns"] + (part.facts.origin_ns - parts[0].facts.origin_ns),
            end_ns=part.table.frame["end_ns"] + (part.facts.origin_ns - parts[0].facts.origin_ns),
            track=codes[part.table.frame["track"].to_numpy()],
        )
        shifted = {name: frame[name].where(frame[name] < 0, frame[name] + links) for name in LINK_COLUMNS}
        frames.append(frame.assign(**shifted))
        links = max(links, *(int(frames[-1][name].max()) + 1 for name in LINK_COLUMNS))
    details = {
        name: _stack(
            [_moved(getattr(part.table.details, name), int(row)) for part, row in zip(parts, rows, strict=True)]
        )
        for name in DETAIL_COLUMNS
    }
    return EventTable(_stack(frames), tracks, Details(**details))


def join_devices(parts: Sequence[TraceFile]) -> tuple[Device, ...]:
    """The devices any part describes, by index."""
    known = {device.index: device for part in reversed(parts) for device in part.facts.metadata.devices}
    return tuple(known[index] for index in sorted(known))


def _join_tracks(tables: Sequence[pd.DataFrame]) -> tuple[pd.DataFrame, list[np.ndarray[Any, np.dtype[np.int32]]]]:
    keys = ["pid", "tid", "device", "stream"]
    joined = pd.concat(tables, ignore_index=True).drop_duplicates(keys).sort_values(keys, ignore_index=True)
    place = {tuple(row): at for at, row in enumerate(joined[keys].itertuples(index=False))}
    codes = [
        np.array([place[tuple(row)] for row in table[keys].itertuples(index=False)], dtype=np.int32) for table in tables
    ]
    return joined, codes


def _moved(table: pd.DataFrame, rows: int) -> pd.DataFrame:
    return table.assign(**{name: table[name] + rows for name in ROW_COLUMNS if name in table})


def _stack(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables of the same columns, categories united."""
    filled = [table for table in tables if len(table)]
    if not filled:
        return tables[0] if len(tables) else empty_table({})
    data: dict[str, Any] = {}
    for name in filled[0].columns:
        columns = [table[name] for table in filled]
        if isinstance(columns[0].dtype, pd.CategoricalDtype):
            data[name] = union_categoricals(columns)
        else:
            data[name] = np.concatenate([column.to_numpy() for column in columns])
    return pd.DataFrame(data, copy=False)
