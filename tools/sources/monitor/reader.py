"""The monitor's tables, each built once over all ranks from the records of every start of a rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import InputError
from tools.sources.inventory import MOST_FILES, RECORDS, STEPS, events_file, plain_or_packed
from tools.sources.monitor.environment import RankEnvironment, environment_of
from tools.sources.monitor.events import Capture, RankEvents, read_anomalies, read_events
from tools.sources.monitor.ring import UNKNOWN_US
from tools.sources.monitor.steps import Head, RankSteps, StepFileError, read_steps

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


# The form of the files is described in ``docs/monitor.md``. A step file names its own fields, so that nothing of the
# monitor has to be imported; records of a killed process that were still in its ring are taken from there.


@dataclass(frozen=True)
class MonitoredRank:
    """One start of one rank, and how much of it was kept. ``attempt`` counts the starts of a rank from 0."""

    rank: int
    attempt: int
    host: str
    world_size: int | None
    steps: int
    lost_steps: int  # recorded and overwritten before they were written to the file
    ended_in_order: bool
    peak_flops_per_s: float | None
    flops_per_step: float | None
    local_rank: int | None = None  # 0 and None speak for their machine


@dataclass(frozen=True)
class MonitorRecords:
    """All records of a run folder. Every table has the columns rank and attempt; times in ms unless named otherwise.

    steps:     step, end_unix_ns, wall_ms, data_wait_ms, own_ms (NaN when no model was watched), waiting_ms, gc_ms,
               gc_longest_ms, thread_cpu_ms, gc_runs, fetches, samples, in_flight, result_queue,
               pinned_queue (NaN where there is no such queue),
               captured, written (a profiler was ended or its trace written), first (bool), samples_per_s, mfu (NaN
               when not told), voluntary_switches,
               involuntary_switches, major_faults (NaN where they were not counted per step)
    gc:        step, end_unix_ns, generation, pause_ms, collected: pauses of 1 ms and more
    system:    unix_ns, step and the sampled fields (``tools.sources.monitor.events.System``), counters since boot or
               since the start of the process; NaN where a machine does not tell
    captures:  request, first_step, last_step, path, bytes, write_ms
    anomalies: unix_ns, kind, step, usual_ms, seen_ms, excess_pct, part, claim, foreign (no attempt; rank -1: not one)

    ``environments`` are all settings that were told, see ``tools.sources.monitor.environment``.
    """

    steps: pd.DataFrame
    gc: pd.DataFrame
    system: pd.DataFrame
    captures: pd.DataFrame
    anomalies: pd.DataFrame
    ranks: tuple[MonitoredRank, ...]
    notes: tuple[str, ...]
    environments: tuple[RankEnvironment, ...] = ()


def read_monitor(folder: Path) -> MonitorRecords:
    """The monitor's records below ``folder`` (the run folder); raises InputError when there are none."""
    records = folder / RECORDS
    try:
        files = plain_or_packed(records, STEPS)[: MOST_FILES + 1]
    except OSError as error:
        raise InputError(f"{records}: cannot be listed ({error.strerror}); check the rights") from error
    if not files:
        raise InputError(f"{folder}: holds no monitor records; they are written to {RECORDS}/rank*.steps there")
    notes = [f"{records} holds more than {MOST_FILES} step files; the others were left out"] * (len(files) > MOST_FILES)
    found: list[RankSteps] = []
    for file in files[:MOST_FILES]:
        try:
            found.append(read_steps(file))
        except StepFileError as error:
            notes.append(str(error))
    if not found:
        raise InputError(f"{folder}: its monitor records cannot be read: {notes[0]}")
    return _together(records, _numbered(found), notes)


def _numbered(found: Sequence[RankSteps]) -> list[tuple[int, RankSteps]]:
    """Each start with its number among those of its rank."""
    attempts: dict[int, int] = {}
    numbered = []
    for each in sorted(found, key=lambda one: (one.head.rank, one.head.start_unix_ns)):
        attempt = attempts.get(each.head.rank, -1) + 1
        attempts[each.head.rank] = attempt
        numbered.append((attempt, each))
    return numbered


def _together(records: Path, numbered: Sequence[tuple[int, RankSteps]], notes: list[str]) -> MonitorRecords:
    ranks = tuple(_about(attempt, each) for attempt, each in numbered)
    notes += [note for _, each in numbered for note in each.notes]
    events: list[tuple[int, int, RankEvents]] = []
    for attempt, each in numbered:
        read = read_events(events_file(each.path))
        notes += read.notes
        events.append((each.head.rank, attempt, read))
    anomalies = read_anomalies(records)
    return MonitorRecords(
        steps=step_table(numbered),
        gc=gc_table(events),
        system=system_table(events),
        captures=capture_table(events),
        anomalies=anomalies.table,
        ranks=ranks,
        notes=(*notes, *anomalies.notes),
        environments=tuple(
            environment_of(rank, attempt, told) for rank, attempt, read in events for told in read.environments
        ),
    )


def _about(attempt: int, each: RankSteps) -> MonitoredRank:
    head = each.head
    return MonitoredRank(
        rank=head.rank,
        attempt=attempt,
        host=head.host,
        world_size=head.world_size,
        steps=len(each.rows),
        lost_steps=each.lost,
        ended_in_order=each.ended_in_order,
        peak_flops_per_s=head.peak_flops_per_s,
        flops_per_step=head.flops_per_step,
        local_rank=head.local_rank,
    )
