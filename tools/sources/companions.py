"""Monitor records and step logs of a run, as far as they are of the same run as its traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from tools.errors import InputError
from tools.run.model import MONITOR_FORMAT, Source
from tools.sources.monitor import MonitorRecords, read_monitor
from tools.sources.run_folder import RECORDS, has_records, record_files, run_folders
from tools.sources.step_log import StepLogs, read_step_logs

APART_NS = 3600 * 10**9  # a monitor starts with the run and is there when it is profiled


@dataclass(frozen=True)
class Anchor:
    """What is known of the run from its traces."""

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
    kept, dropped = _one_start(read, anchor)
    note = "ranks were started more than once; the start that was traced is used" if dropped else ""
    return kept, Source(where, MONITOR_FORMAT, ranks, "complete", note, size, len(kept.steps))


def _foreign(read: MonitorRecords, anchor: Anchor) -> str:
    """Why the records cannot be of the traced run; "" when they can."""
    ranks = {each.rank for each in read.ranks}
    sizes = {each.world_size for each in read.ranks if each.world_size is not None}
    if anchor.world_size is not None and (sizes - {anchor.world_size} or max(ranks) >= anchor.world_size):
        return "they are of a job with another number of ranks than the traces"
    if not ranks & set(anchor.ranks):
        return "they are of other ranks than the traces"
    if anchor.origin_unix_ns is None or read.steps.empty:
        return ""
    ends = read.steps["end_unix_ns"]
    if not int(ends.min()) - APART_NS <= anchor.origin_unix_ns <= int(ends.max()) + APART_NS:
        return "they were written more than an hour before or after the traces"
    return ""


def _one_start(read: MonitorRecords, anchor: Anchor) -> tuple[MonitorRecords, bool]:
    """Of a rank that was started several times the start that was traced, else the last one."""
    last = read.steps.groupby(["rank", "attempt"])["end_unix_ns"].max().reset_index()
    if anchor.origin_unix_ns is not None:
        reaching = last[last["end_unix_ns"] >= anchor.origin_unix_ns].groupby("rank")["attempt"].min()
    else:
        reaching = last.iloc[:0].groupby("rank")["attempt"].min()
    chosen = {**_by_rank(last.groupby("rank")["attempt"].max()), **_by_rank(reaching)}
    if (last.groupby("rank").size() <= 1).all():
        return read, False
    wanted = set(chosen.items())
    ranks = tuple(each for each in read.ranks if (each.rank, each.attempt) in wanted)
    told = tuple(each for each in read.environments if (each.rank, each.attempt) in wanted)
    kept = replace(
        read,
        steps=_only(read.steps, wanted),
        gc=_only(read.gc, wanted),
        system=_only(read.system, wanted),
        captures=_only(read.captures, wanted),
        ranks=ranks,
        environments=told,
    )
    return kept, True


def _by_rank(attempts: pd.Series[int]) -> dict[int, int]:
    ranks = attempts.index.to_numpy(dtype="int64").tolist()
    return dict(zip(ranks, attempts.to_numpy(dtype="int64").tolist(), strict=True))


def _only(table: pd.DataFrame, wanted: set[tuple[int, int]]) -> pd.DataFrame:
    kept = pd.MultiIndex.from_frame(table[["rank", "attempt"]].astype("int64")).isin(wanted)
    return table[kept].reset_index(drop=True)


def _of_this_run(
    logs: Sequence[StepLogs], anchor: Anchor
) -> tuple[pd.DataFrame | None, tuple[Source, ...], tuple[str, ...]]:
    """The logs of all folders, each rank's first one, without ranks that the job does not have."""
    tables = [each.table for each in logs if each.table is not None]
    sources = tuple(source for each in logs for source in each.sources)
    notes = [note for each in logs for note in each.notes]
    if not tables:
        return None, sources, tuple(notes)
    whole = pd.concat(tables, ignore_index=True).drop_duplicates(["rank", "step"])
    if anchor.world_size is not None and (whole["rank"] >= anchor.world_size).any():
        notes.append("step logs of ranks that the job does not have were left out")
        whole = whole[whole["rank"] < anchor.world_size]
    return (whole.reset_index(drop=True) if len(whole) else None), sources, tuple(notes)
