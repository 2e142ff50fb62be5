"""The event table of one trace: its columns joined, cleaned, sorted and numbered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import DETAIL_COLUMNS, TRACK_COLUMNS, Details, EventKind, EventTable, empty_table
from tools.sources.ascend.processes import is_ascend, take_ascend_work
from tools.sources.kineto.begin_end import pair
from tools.sources.kineto.columns import ANNOTATION_NAME, ON_DEVICE, Columns, TrackKey
from tools.sources.kineto.mindspore import take_nodes
from tools.sources.kineto.other_devices import DeviceWork, take_device_work


def pair_operators(
    columns: Columns, origin_ns: int, frame: pd.DataFrame, operators: pd.DataFrame, track_of: NDArray[np.int32]
) -> pd.DataFrame:
    """Rows of the operators at both ends of each recorded arrow; arrows without an operator at an end are left out."""
    rows = operators["row"].to_numpy()[operators["sequence"].to_numpy() >= 0]
    if not columns.flows["time_ns"] or not len(rows):
        return empty_table(DETAIL_COLUMNS["forward_backward"])
    flows = {name: np.concatenate(parts) for name, parts in columns.flows.items()}
    table_track = np.full(len(columns.tracks), -1, dtype=np.int64)
    table_track[columns.joined("track")] = track_of
    # The first of the operators that starts at that moment on that track.
    own_track = frame["track"].to_numpy()[rows].astype(np.int64)
    keys = pd.MultiIndex.from_arrays([own_track, frame["start_ns"].to_numpy()[rows]])
    first = ~keys.duplicated()
    wanted = pd.MultiIndex.from_arrays([table_track[flows["track"]], flows["time_ns"] - origin_ns])
    position = keys[first].get_indexer(wanted)
    ends = pd.DataFrame({"identity": flows["identity"], "row": rows[first][position]})
    starting, found = flows["starting"], position >= 0
    pairs = ends[starting & found].merge(ends[~starting & found], on="identity", validate="m:m")
    result = pairs.rename(columns={"row_x": "forward_row", "row_y": "backward_row"})[["forward_row", "backward_row"]]
    return result.drop_duplicates().sort_values(["forward_row", "backward_row"], ignore_index=True)


# What MTIA's profiler files next to kernels: a stream waits for an event, or records one, and computes nothing.
STREAM_EVENTS = frozenset(("event_wait", "event_record"))
DAY_NS = 86_400 * 10**9


@dataclass(frozen=True)
class Assembled:
    """The events of one trace on an axis of their own."""

    table: EventTable
    origin_ns: int  # of the earliest event, on the trace's own clock
    excluded: Counter[str]
    groups: dict[str, tuple[str, str, int]]
    unsure: tuple[str, ...] = ()  # processes that may be devices


def assemble(columns: Columns, span_days: int) -> Assembled:
    """Join, clean, sort and number the events; a trace without events gives an empty table."""
    start, end = columns.joined("start_ns"), columns.joined("end_ns")
    marked = _marked(columns)
    excluded = columns.excluded.copy()
    keep = _ended(columns, end, excluded)
    if is_ascend(columns):
        work = DeviceWork(take_ascend_work(columns, marked))
    else:
        work = take_device_work(columns, marked, start, end)
    kind = take_nodes(columns, work.kind)
    near = _plausible(start, end, span_days * DAY_NS)
    if near is not None:
        excluded["with a time far away from all others"] += int(len(near) - near.sum())
        keep = near if keep is None else near & keep
    origin = int((start if keep is None else start[keep]).min()) if len(start) else 0
    start, end = start - origin, end - origin
    tracks, track = _tracks(columns, kind)
    names, name = _sorted_names(columns)
    order = _order(start, end, track, kind, name)
    if keep is not None:
        order = order[keep[order]]
    texts = pd.Index(names, dtype="str")
    frame = pd.DataFrame(
        {
            "start_ns": start[order],
            "end_ns": end[order],
            "kind": kind[order],
            "name": pd.Categorical.from_codes(name[order], categories=texts, validate=False),
            "track": track[order],
            "correlation": columns.joined("correlation")[order],
            "external": columns.joined("external")[order],
        },
        copy=False,
    )
    row_of = np.full(len(start), -1, dtype=np.int64)
    row_of[order] = np.arange(len(order))
    details = {name: _detail_table(columns, name, row_of) for name in columns.details.tables}
    details["forward_backward"] = pair_operators(columns, origin, frame, details["operators"], track)
    table = EventTable(frame, tracks, Details(**details))
    return Assembled(table, origin, excluded, columns.details.groups, work.unsure)


def _ended(columns: Columns, end: NDArray[np.int64], excluded: Counter[str]) -> NDArray[np.bool_] | None:
    """Write the ends of begun events into ``end``; True for events that have one, None when all do."""
    if not len(columns.edges):
        return None
    pairs = pair(columns.edges)
    end[pairs.rows] = pairs.ends_ns
    excluded["that begin and never end"] += len(pairs.open_rows)
    excluded["that end and never began"] += pairs.lone_ends
    keep = np.ones(len(end), dtype=bool)
    keep[pairs.open_rows] = False
    return keep


def _marked(columns: Columns) -> NDArray[np.int8]:
    """Kinds, with the marks that old traces file under operators recognised by name."""
    kind = columns.joined("kind")
    mark = np.array([ANNOTATION_NAME.match(name) is not None for name in columns.names], dtype=bool)
    if mark.any():
        kind[(kind == EventKind.OPERATOR) & mark[columns.joined("name")]] = EventKind.ANNOTATION
    waits = np.array([name in STREAM_EVENTS for name in columns.names], dtype=bool)
    if waits.any():
        kind[(kind == EventKind.KERNEL) & waits[columns.joined("name")]] = EventKind.SYNC
    return kind


def _plausible(start: NDArray[np.int64], end: NDArray[np.int64], span_ns: int) -> NDArray[np.bool_] | None:
    """True for events within the span around the middle one; None when all do."""
    if not len(start) or int(end.max()) - int(start.min()) <= span_ns:
        return None
    middle = int(np.partition(start, len(start) // 2)[len(start) // 2])
    keep: NDArray[np.bool_] = (start >= middle - span_ns) & (end <= middle + span_ns)
    return keep


def _sorted_names(columns: Columns) -> tuple[list[str], NDArray[np.int32]]:
    names = list(columns.names)
    by_text = sorted(range(len(names)), key=names.__getitem__)
    rank = np.empty(len(names), dtype=np.int32)
    rank[by_text] = np.arange(len(names), dtype=np.int32)
    return [names[at] for at in by_text], rank[columns.joined("name")]


def _order(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    track: NDArray[np.int32],
    kind: NDArray[np.int8],
    name: NDArray[np.int32],
) -> NDArray[np.int64]:
    """Rows by start, then longest first; among equals by track, kind and name, so that file order is immaterial."""
    order: NDArray[np.int64] = np.argsort(start, kind="stable")
    ordered = start[order]
    same = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    rows = order[tied]
    order[tied] = rows[np.lexsort((name[rows], kind[rows], track[rows], -end[rows], start[rows]))]
    return order


def _tracks(columns: Columns, kind: NDArray[np.int8]) -> tuple[pd.DataFrame, NDArray[np.int32]]:
    """One row per host thread or device stream (the same pid and tid may be both), and the track of every event."""
    on_device = np.isin(kind, [int(k) for k in ON_DEVICE])
    keys = list(columns.tracks)
    place = columns.joined("track").astype(np.int64) * 2 + on_device
    present = np.flatnonzero(np.bincount(place, minlength=2 * len(keys)))
    rows = [_track_row(columns, keys[at // 2], at // 2 if at % 2 else -1) for at in present.tolist()]
    merged = sorted(set(rows))
    number = {row: at for at, row in enumerate(merged)}
    lookup = np.full(2 * len(keys), -1, dtype=np.int32)
    lookup[present] = [number[row] for row in rows]
    return pd.DataFrame(merged, columns=list(TRACK_COLUMNS)).astype(TRACK_COLUMNS), lookup[place]


def _track_row(columns: Columns, key: TrackKey, device_code: int) -> tuple[str, str, int, int, str]:
    device, stream = columns.devices.get(device_code, (0, -1)) if device_code >= 0 else (-1, -1)
    label = columns.labels.get(key, "")
    return str(key[0]), str(key[1]), max(device, 0) if device_code >= 0 else -1, stream, label


def _detail_table(columns: Columns, table: str, row_of: NDArray[np.int64]) -> pd.DataFrame:
    parts = columns.details.tables[table]
    if not parts["row"]:
        return empty_table(DETAIL_COLUMNS[table])
    row = row_of[np.concatenate(parts["row"])]
    order = np.argsort(row, kind="stable")
    order = order[row[order] >= 0]
    data: dict[str, Any] = {"row": row[order]}
    for column, dtype in DETAIL_COLUMNS[table].items():
        if column == "row":
            continue
        values = np.concatenate(parts[column])[order]
        if dtype == "category":
            words = columns.details.vocabularies[f"{table}.{column}"]
            data[column] = pd.Categorical.from_codes(values, categories=pd.Index(list(words), dtype="str"))
        else:
            data[column] = values.astype(dtype, copy=False)
    return pd.DataFrame(data, copy=False)
