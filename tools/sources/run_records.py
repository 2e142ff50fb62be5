"""Which start of a job is the traced one, where the monitor's records hold several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from tools.errors import InputError
from tools.run.model import MONITOR_FORMAT, Source
from tools.sources.inventory import RECORDS, has_records, record_files, run_folders
from tools.sources.monitor.reader import MonitorRecords, read_monitor
from tools.sources.step_log import StepLogs, read_step_logs

TOLERANCE_NS = 60 * 10**9  # clocks of two machines, and how far apart the ranks of one start begin


def reaches(read: MonitorRecords, ranks: Sequence[int], origin_unix_ns: int | None) -> bool:
    """Whether a start of a traced rank was under way at the trace's origin; also where that cannot be told."""
    return origin_unix_ns is None or read.steps.empty or not _under_way(_spans(read), ranks, origin_unix_ns).empty


def traced_start(read: MonitorRecords, ranks: Sequence[int], origin_unix_ns: int | None) -> tuple[MonitorRecords, bool]:
    """The records of the start that was traced, else of the last one, and whether others were left out.

    The starts of all ranks that ended their first step within a minute of each other are one; of a rank that has none
    of that time nothing is kept.
    """
    if read.steps.empty:
        return read, False
    spans = _spans(read)
    possible = spans if origin_unix_ns is None else _under_way(spans, ranks, origin_unix_ns)
    if possible.empty:
        return read, False
    traced = _closest(possible, origin_unix_ns)
    apart = (spans["first"] - int(traced["first"])).abs()
    before = (spans["end"] < int(traced["begin"])) & (spans["attempt"].max() > 0)  # an earlier start that failed soon
    together = spans[(apart <= TOLERANCE_NS) & ~before].assign(apart=apart).sort_values("apart", kind="stable")
    kept = together.drop_duplicates("rank")
    wanted = set(zip(kept["rank"].tolist(), kept["attempt"].tolist(), strict=True))
    if all((each.rank, each.attempt) in wanted for each in read.ranks):
        return read, False
    return _of(read, wanted), True


def _spans(read: MonitorRecords) -> pd.DataFrame:
    """Begin, end of the first step and end of every start that has steps."""
    steps = read.steps
    begins = steps["end_unix_ns"] - (steps["wall_ms"] * 1e6).astype("int64")
    table = steps[["rank", "attempt"]].assign(begin=begins, first=steps["end_unix_ns"], end=steps["end_unix_ns"])
    return table.groupby(["rank", "attempt"]).agg({"begin": "min", "first": "min", "end": "max"}).reset_index()


def _under_way(spans: pd.DataFrame, ranks: Sequence[int], origin_unix_ns: int) -> pd.DataFrame:
    begun = spans["begin"] - TOLERANCE_NS <= origin_unix_ns
    return spans[spans["rank"].isin(list(ranks)) & begun & (spans["end"] + TOLERANCE_NS >= origin_unix_ns)]


def _closest(possible: pd.DataFrame, origin_unix_ns: int | None) -> pd.Series[int]:
    """The start that needs least tolerance to hold the origin, the latest of those that need none."""
    if origin_unix_ns is None:
        return possible.sort_values("begin").iloc[-1]
    before = (possible["begin"] - origin_unix_ns).clip(lower=0)
    after = (origin_unix_ns - possible["end"]).clip(lower=0)
    best = possible.assign(off=before + after).sort_values(["off", "begin"], ascending=[True, False])
    return best.iloc[0]


def _of(read: MonitorRecords, wanted: set[tuple[int, int]]) -> MonitorRecords:
    return replace(
        read,
        steps=_only(read.steps, wanted),
        gc=_only(read.gc, wanted),
        system=_only(read.system, wanted),
        captures=_only(read.captures, wanted),
        ranks=tuple(each for each in read.ranks if (each.rank, each.attempt) in wanted),
        environments=tuple(each for each in read.environments if (each.rank, each.attempt) in wanted),
    )


def _only(table: pd.DataFrame, wanted: set[tuple[int, int]]) -> pd.DataFrame:
    kept = pd.MultiIndex.from_frame(table[["rank", "attempt"]].astype("int64")).isin(wanted)
    return table[kept].reset_index(drop=True)


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
