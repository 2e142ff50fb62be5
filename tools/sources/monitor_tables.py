"""The monitor's tables, each built once over all ranks from the records of every start of a rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.sources.monitor_events import Capture, RankEvents
from tools.sources.monitor_ring import UNKNOWN_US
from tools.sources.monitor_steps import Head, RankSteps

CAPTURED = 3  # a profiler ran in the step, or was ended before it or written during it
WRITTEN = 2
FIRST = 4
DURATIONS = ("wall", "data_wait", "own", "waiting", "gc", "gc_longest", "thread_cpu")
QUEUES = ("in_flight", "result_queue", "pinned_queue")
COUNTS = ("gc_runs", "fetches", "samples", *QUEUES)
NOT_ALWAYS = ("voluntary_switches", "involuntary_switches", "major_faults")
Columns = dict[str, object]


def step_table(numbered: Sequence[tuple[int, RankSteps]]) -> pd.DataFrame:
    """The steps of all starts, one after the other; see ``MonitorRecords.steps``."""
    alike = [list(each) for _, each in groupby(numbered, key=lambda one: one[1].rows.dtype)]
    tables = [pd.DataFrame(_step_columns(group)) for group in alike]
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def gc_table(events: Sequence[tuple[int, int, RankEvents]]) -> pd.DataFrame:
    """The collections of all starts, given as rank, attempt and events; see ``MonitorRecords.gc``."""
    rows = np.concatenate([read.pauses for _, _, read in events])
    columns = {name: rows[name] for name in rows.dtype.names or () if name != "pause_us"}
    pause_ms = rows["pause_us"].astype(np.float64) / 1e3
    return pd.DataFrame({**columns, "pause_ms": pause_ms, **_owners(events, lambda read: len(read.pauses))})


def system_table(events: Sequence[tuple[int, int, RankEvents]]) -> pd.DataFrame:
    """The samples of all starts; see ``MonitorRecords.system``."""
    rows = np.concatenate([read.samples for _, _, read in events])
    columns = {name: rows[name] for name in rows.dtype.names or ()}
    return pd.DataFrame({**columns, **_owners(events, lambda read: len(read.samples))})


def capture_table(events: Sequence[tuple[int, int, RankEvents]]) -> pd.DataFrame:
    """The captures of all starts; see ``MonitorRecords.captures``."""
    rows = [msgspec.structs.astuple(each) for _, _, read in events for each in read.captures]
    kinds = {name: "str" if name == "path" else "int64" for name in Capture.__struct_fields__}
    table = pd.DataFrame(rows, columns=list(kinds)).astype(kinds)
    return table.assign(**_owners(events, lambda read: len(read.captures)))


def _owners(
    events: Sequence[tuple[int, int, RankEvents]], count: Callable[[RankEvents], int]
) -> dict[str, NDArray[np.int64]]:
    """Rank and attempt of every row."""
    counts = [count(read) for _, _, read in events]
    return {
        "rank": np.repeat(np.array([rank for rank, _, _ in events], dtype=np.int64), counts),
        "attempt": np.repeat(np.array([attempt for _, attempt, _ in events], dtype=np.int64), counts),
    }


def _step_columns(numbered: Sequence[tuple[int, RankSteps]]) -> Columns:
    rows = np.concatenate([each.rows for _, each in numbered])
    counts = [len(each.rows) for _, each in numbered]
    ranks = np.array([each.head.rank for _, each in numbered], dtype=np.int64)
    attempts = np.array([attempt for attempt, _ in numbered], dtype=np.int64)
    return {
        "rank": np.repeat(ranks, counts),
        "attempt": np.repeat(attempts, counts),
        "step": rows["step"],
        "end_unix_ns": rows["end_unix_ns"],
        **{f"{name}_ms": _known(rows[f"{name}_us"]) / 1e3 for name in DURATIONS},
        **{name: rows[name] for name in COUNTS},
        **{name: _counted(rows, name) for name in NOT_ALWAYS},
        **{name: np.where(rows[name] < 0, np.nan, rows[name]) for name in QUEUES},
        "captured": (rows["flags"] & CAPTURED) > 0,
        "written": (rows["flags"] & WRITTEN) > 0,
        "first": (rows["flags"] & FIRST) > 0,
        **_speed(rows, [each.head for _, each in numbered], counts),
    }


def _known(values: NDArray[np.uint32]) -> NDArray[np.float64]:
    return np.where(values == UNKNOWN_US, np.nan, values)


def _counted(rows: NDArray[np.void], name: str) -> NDArray[np.float64]:
    return _known(rows[name]) if name in (rows.dtype.names or ()) else np.full(len(rows), np.nan)


def _speed(rows: NDArray[np.void], heads: Sequence[Head], counts: Sequence[int]) -> Columns:
    seconds = rows["wall_us"] / 1e6
    seconds = np.where(seconds > 0, seconds, np.nan)
    batch = _told([head.batch_size for head in heads], counts)
    done = _told([head.flops_per_step for head in heads], counts)
    peak = _told([head.peak_flops_per_s for head in heads], counts)
    samples = np.where(rows["samples"] > 0, rows["samples"], batch)
    return {"samples_per_s": samples / seconds, "mfu": done / seconds / peak}


def _told(values: Sequence[float | None], counts: Sequence[int]) -> NDArray[np.float64]:
    """What a start told of all its steps, for each of them; NaN where it told nothing or 0."""
    return np.repeat(np.array([value or np.nan for value in values], dtype=np.float64), counts)
