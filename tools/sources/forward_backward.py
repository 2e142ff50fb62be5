"""Joins forward operators with the backward operators that autograd ran for them."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import DETAIL_COLUMNS, empty_table
from tools.sources.columns import Columns


def pair_operators(
    columns: Columns, origin_ns: int, frame: pd.DataFrame, operators: pd.DataFrame, track_of: NDArray[np.int32]
) -> pd.DataFrame:
    """Rows of the operators at both ends of each recorded arrow; arrows without an operator at an end are left out."""
    flows = columns.flows
    if not flows.time_ns or not len(operators):
        return empty_table(DETAIL_COLUMNS["forward_backward"])
    raw_tracks = np.concatenate(columns.track)
    table_track = np.full(len(columns.tracks), -1, dtype=np.int64)
    table_track[raw_tracks] = track_of
    start_ns = np.concatenate(flows.time_ns) - origin_ns
    track = table_track[np.concatenate(flows.track)]
    rows = operators["row"].to_numpy()[operators["sequence"].to_numpy() >= 0]
    found = _operator_at(frame, rows, start_ns, track)
    starting = np.concatenate(flows.starting)
    ends = pd.DataFrame({"identity": np.concatenate(flows.identity), "row": found})
    pairs = ends[starting & (found >= 0)].merge(ends[~starting & (found >= 0)], on="identity", validate="m:m")
    result = pairs.rename(columns={"row_x": "forward_row", "row_y": "backward_row"})[["forward_row", "backward_row"]]
    return result.drop_duplicates().sort_values(["forward_row", "backward_row"], ignore_index=True)


def _operator_at(
    frame: pd.DataFrame, rows: NDArray[np.int64], start_ns: NDArray[np.int64], track: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The first of the given rows that starts at that moment on that track, -1 where none does."""
    if not len(rows):
        return np.full(len(start_ns), -1, dtype=np.int64)
    own_start = frame["start_ns"].to_numpy()[rows]
    own_track = frame["track"].to_numpy()[rows].astype(np.int64)
    keys = pd.MultiIndex.from_arrays([own_track, own_start])
    first = ~keys.duplicated()
    position = keys[first].get_indexer(pd.MultiIndex.from_arrays([track, start_ns]))
    return np.where(position >= 0, rows[first][position], -1)
