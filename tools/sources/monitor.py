"""Reads what the monitor of a training left in the run folder: steps of all ranks, collections, system, anomalies.

The form of the files is described in ``docs/monitor.md``. A step file names its own fields, so that nothing of the
monitor has to be imported; records of a killed process that were still in its ring are taken from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from tools.errors import InputError
from tools.sources.monitor_environment import RankEnvironment, environment_of
from tools.sources.monitor_events import RankEvents, read_anomalies, read_events
from tools.sources.monitor_steps import RankSteps, StepFileError, read_steps

RECORDS = "monitor"
MOST_FILES = 65_536
UNKNOWN_US = 0xFFFFFFFF
CAPTURED = 3  # a profiler ran in the step, or was ended before it or written during it
FIRST = 4
DURATIONS = ("wall", "data_wait", "own", "waiting", "gc", "gc_longest", "thread_cpu")
COUNTS = (
    "gc_runs",
    "fetches",
    "samples",
    "in_flight",
    "result_queue",
    "pinned_queue",
)
NOT_ALWAYS = ("voluntary_switches", "involuntary_switches", "major_faults")


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


@dataclass(frozen=True)
class MonitorRecords:
    """All records of a run folder. Every table has the columns rank and attempt; times in ms unless named otherwise.

    steps:     step, end_unix_ns, wall_ms, data_wait_ms, own_ms (NaN when no model was watched), waiting_ms, gc_ms,
               gc_longest_ms, thread_cpu_ms, gc_runs, fetches, samples, in_flight, result_queue,
               pinned_queue (NaN where there is no such queue),
               captured, first (bool), samples_per_s, mfu (NaN when not told), voluntary_switches,
               involuntary_switches, major_faults (NaN where they were not counted per step)
    gc:        step, end_unix_ns, generation, pause_ms, collected: pauses of 1 ms and more
    system:    unix_ns, step and the sampled fields (``tools.sources.monitor_events.System``), counters since boot or
               since the start of the process; NaN where a machine does not tell
    captures:  request, first_step, last_step, path, bytes, write_ms
    anomalies: unix_ns, kind, step, usual_ms, seen_ms, excess_pct, part, claim, foreign (no attempt; rank -1: not one)

    ``environments`` are all settings that were told, see ``tools.sources.monitor_environment``.
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
        files = sorted(records.glob("rank*.steps"))[: MOST_FILES + 1]
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
    steps = [_step_table(attempt, each) for attempt, each in numbered]
    ranks = tuple(_about(attempt, each) for attempt, each in numbered)
    notes += [note for _, each in numbered for note in each.notes]
    events: list[tuple[int, int, RankEvents]] = []
    for attempt, each in numbered:
        read = read_events(each.path.with_suffix(".events.jsonl"))
        notes += read.notes
        events.append((each.head.rank, attempt, read))
    anomalies = read_anomalies(records)
    return MonitorRecords(
        steps=pd.concat(steps, ignore_index=True),
        gc=_stacked([(rank, attempt, read.gc) for rank, attempt, read in events]),
        system=_stacked([(rank, attempt, read.system) for rank, attempt, read in events]),
        captures=_stacked([(rank, attempt, read.captures) for rank, attempt, read in events]),
        anomalies=anomalies.table,
        ranks=ranks,
        notes=(*notes, *anomalies.notes),
        environments=tuple(
            environment_of(rank, attempt, told) for rank, attempt, read in events for told in read.environments
        ),
    )


def _stacked(tables: Sequence[tuple[int, int, pd.DataFrame]]) -> pd.DataFrame:
    named = [table.assign(rank=rank, attempt=attempt) for rank, attempt, table in tables]
    filled = [table for table in named if len(table)]
    return pd.concat(filled or named[:1], ignore_index=True)


def _step_table(attempt: int, each: RankSteps) -> pd.DataFrame:
    rows = each.rows
    columns: dict[str, object] = {"rank": np.full(len(rows), each.head.rank), "attempt": np.full(len(rows), attempt)}
    columns |= {"step": rows["step"], "end_unix_ns": rows["end_unix_ns"]}
    for name in DURATIONS:
        span_us = rows[f"{name}_us"]
        columns[f"{name}_ms"] = np.where(span_us == UNKNOWN_US, np.nan, span_us / 1e3)
    for name in COUNTS:
        columns[name] = rows[name]
    for name in NOT_ALWAYS:
        known = rows[name] if name in (rows.dtype.names or ()) else np.full(len(rows), UNKNOWN_US)
        columns[name] = np.where(known == UNKNOWN_US, np.nan, known)
    for name in ("in_flight", "result_queue", "pinned_queue"):
        columns[name] = np.where(rows[name] < 0, np.nan, rows[name])
    columns |= {"captured": (rows["flags"] & CAPTURED) > 0, "first": (rows["flags"] & FIRST) > 0}
    seconds = rows["wall_us"] / 1e6
    seconds = np.where(seconds > 0, seconds, np.nan)
    samples = np.where(rows["samples"] > 0, rows["samples"], each.head.batch_size or np.nan)
    columns["samples_per_s"] = samples / seconds
    columns["mfu"] = (each.head.flops_per_step or np.nan) / seconds / (each.head.peak_flops_per_s or np.nan)
    return pd.DataFrame(columns)


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
    )
