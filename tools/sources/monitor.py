"""Reads what the monitor of a training left in the run folder: steps of all ranks, collections, system, anomalies.

The form of the files is described in ``docs/monitor.md``. A step file names its own fields, so that nothing of the
monitor has to be imported; records of a killed process that were still in its ring are taken from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tools.errors import InputError
from tools.sources.monitor_environment import RankEnvironment, environment_of
from tools.sources.monitor_events import RankEvents, read_anomalies, read_events
from tools.sources.monitor_steps import RankSteps, StepFileError, read_steps
from tools.sources.monitor_tables import capture_table, gc_table, step_table, system_table
from tools.sources.run_folder import MOST_FILES, RECORDS, STEPS, events_file, plain_or_packed


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
