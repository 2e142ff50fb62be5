"""Monitor records and step logs of a run, as far as they are of the same run as its traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tools.errors import InputError
from tools.run.model import MONITOR_FORMAT, Source
from tools.sources.monitor import MonitorRecords, read_monitor
from tools.sources.run_folder import RECORDS, has_records, record_files, run_folders
from tools.sources.starts import reaches, traced_start
from tools.sources.step_log import StepLogs, read_step_logs


@dataclass(frozen=True)
class Anchor:
    """What is known of the run from its traces; no ranks where there are none."""

    ranks: tuple[int, ...]
    world_size: int | None
    origin_unix_ns: int | None


@dataclass(frozen=True)
class Companions:
    """What was read beside the traces."""

    records: MonitorRecords | None
    step_log: pd.DataFrame | None
    sources: tuple[Source, ...]
    notes: tuple[str, ...]


def read_companions(paths: Sequence[Path], anchor: Anchor) -> Companions:
    """Records and logs of the run folders; what is damaged or of another run is left out with a note."""
    records: MonitorRecords | None = None
    logs: list[StepLogs] = []
    sources: list[Source] = []
    notes: list[str] = []
    for folder in run_folders(paths):
        logs.append(read_step_logs(folder))
        if not has_records(folder):
            continue
        found, source = _of_folder(folder, anchor, records is not None)
        records = records or found
        sources.append(source)
        notes += [] if found is None else found.notes
        notes += [f"monitor records: {source.note}"] if source.note and source.note not in notes else []
    table, log_sources, log_notes = _of_this_run(logs, anchor)
    return Companions(records, table, (*sources, *log_sources), (*notes, *log_notes))


def _of_folder(folder: Path, anchor: Anchor, already: bool) -> tuple[MonitorRecords | None, Source]:
    where = folder / RECORDS
    size = sum(file.stat().st_size for file in record_files(folder))
    try:
        read = read_monitor(folder)
    except InputError as error:
        return None, Source(where, MONITOR_FORMAT, (), "excluded", str(error), size)
    ranks = tuple(sorted({each.rank for each in read.ranks}))
    reason = "records of another folder were read already" if already else _foreign(read, anchor)
    if reason:
        return None, Source(where, MONITOR_FORMAT, ranks, "excluded", f"left out: {reason}", size)
    kept, dropped = traced_start(read, anchor.ranks, anchor.origin_unix_ns)
    which = "start that was traced" if anchor.ranks else "last start"
    note = f"ranks were started more than once; only the {which} is used" if dropped else ""
    return kept, Source(where, MONITOR_FORMAT, ranks, "complete", note, size, len(kept.steps))


def _foreign(read: MonitorRecords, anchor: Anchor) -> str:
    """Why the records cannot be of the traced run; "" when they can."""
    ranks = {each.rank for each in read.ranks}
    sizes = {each.world_size for each in read.ranks if each.world_size is not None}
    if anchor.world_size is not None and (sizes - {anchor.world_size} or max(ranks) >= anchor.world_size):
        return "they are of a job with another number of ranks than the traces"
    if anchor.ranks and not ranks & set(anchor.ranks):
        return "they are of other ranks than the traces"
    if not reaches(read, anchor.ranks, anchor.origin_unix_ns):
        return "they were written more than a minute before or after the traces"
    return ""


def _of_this_run(
    logs: Sequence[StepLogs], anchor: Anchor
) -> tuple[pd.DataFrame | None, tuple[Source, ...], tuple[str, ...]]:
    """The logs of all folders, each rank's first one, without ranks that the job does not have."""
    tables = [each.table for each in logs if each.table is not None]
    sources = tuple(source for each in logs for source in each.sources)
    notes = [note for each in logs for note in each.notes]
    if not tables:
        return None, sources, tuple(notes)
    whole = pd.concat([table.assign(folder=number) for number, table in enumerate(tables)], ignore_index=True)
    first = whole["folder"] == whole.groupby("rank")["folder"].transform("min")
    if not first.all():
        notes.append("step logs of ranks whose log lies in another folder too were left out")
    whole = whole[first].drop(columns="folder")
    if anchor.world_size is not None and (whole["rank"] >= anchor.world_size).any():
        notes.append("step logs of ranks that the job does not have were left out")
        whole = whole[whole["rank"] < anchor.world_size]
    return (whole.reset_index(drop=True) if len(whole) else None), sources, tuple(notes)
