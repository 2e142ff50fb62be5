"""Records of a diagnosis and events of a rank as DataFrames, units in the column names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tools.run.events import EventKind

if TYPE_CHECKING:
    from hermes_agent.model.record import Record
    from tools.views.rank_profile import RankProfile

KINDS = [kind.name.lower() for kind in sorted(EventKind)]  # in the order of their numbers, which count from 0


def record_frame(kind: type[Record], records: Sequence[Record]) -> pd.DataFrame:
    """One row per record, one column per field of its kind, also where there are no records."""
    columns = list(kind.model_fields)
    return pd.DataFrame([{name: getattr(each, name) for name in columns} for each in records], columns=columns)


def event_frame(view: RankProfile) -> pd.DataFrame:
    """All events of a rank, in order of start.

    rank, step (-1 outside of the steps), name (as recorded, untrusted), kind, thread (of the host, "" on a device),
    device and stream (-1 on the host), start_ns (from the run's origin, ranks aligned), duration_ns. The index is the
    row of the rank's event table.
    """
    frame, tracks = view.events.frame, view.events.tracks
    of_track = view.track
    names = pd.Index(KINDS, dtype="object")
    threads = tracks["label"].where(tracks["device"] < 0, "").astype("category")
    return pd.DataFrame(
        {
            "rank": np.full(len(frame), view.rank.rank, dtype=np.int64),
            "step": view.step_of(np.arange(len(frame), dtype=np.int64)),
            "name": frame["name"],
            "kind": pd.Categorical.from_codes(view.kind, categories=names),
            "thread": threads.array[of_track],
            "device": tracks["device"].to_numpy()[of_track],
            "stream": tracks["stream"].to_numpy()[of_track],
            "start_ns": view.start,
            "duration_ns": view.end - view.start,
        },
        index=frame.index,
    )
