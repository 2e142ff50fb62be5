"""The declaration of the live monitor's records, and which start of a job is the traced one where there are several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.monitor.format import ANOMALIES, CAPTURES, EVENTS, RECORDS, STEPS
from tools.errors import InputError
from tools.run.kinds import MONITOR_FORMAT
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

if TYPE_CHECKING:
    import pandas as pd

    from tools.run.model import Source
    from tools.run.recorded.records import MonitorRecords

CAPTURE = re.compile(rf"{CAPTURES}\d+$")  # a folder of traces that the monitor made inside the run folder
STEP_FILES = re.compile(rf"rank.*{re.escape(STEPS)}\Z")
ANOMALY_FILES = re.compile(rf"{ANOMALIES}.*\.jsonl\Z")
NAMES = re.compile(rf"{STEP_FILES.pattern}|.*{re.escape(EVENTS)}\Z|{ANOMALY_FILES.pattern}")
TOLERANCE_NS = 60 * 10**9  # clocks of two machines, and how far apart the ranks of one start begin
Start = tuple[int, int]  # rank and attempt


def read_records(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The first folder's records that can be of the traced run."""
    records: MonitorRecords | None = None
    sources: list[Source] = []
    notes: list[str] = []
    for each in found:
        read, source = _of_folder(each, anchor, records is not None)
        records = records or read
        sources.append(source)
        notes += [] if read is None else read.notes
        notes += [f"monitor records: {source.note}"] if source.note and source.note not in notes else []
    return Contribution(records=records, sources=tuple(sources), notes=tuple(notes))


MONITOR = RecordFormat(MONITOR_FORMAT, NAMES, read_records, folder=RECORDS, needed=STEP_FILES)


def _of_folder(found: FolderFiles, anchor: Anchor, already: bool) -> tuple[MonitorRecords | None, Source]:
    from tools.run.model import Source
    from tools.sources.monitor.reader import read_monitor

    size = sum(map(_size, found.files))
    source = Source(found.folder / RECORDS, MONITOR_FORMAT, (), "excluded", bytes=size)
    try:
        read = read_monitor(found.folder)
    except InputError as error:
        return None, replace(source, note=str(error))
    source = replace(source, ranks=tuple(sorted({each.rank for each in read.ranks})))
    reason = "records of another folder were read already" if already else _foreign(read, anchor)
    if reason:
        return None, replace(source, note=f"left out: {reason}")
    used, dropped = traced_start(read, anchor)
    which = "start that was traced" if anchor.ranks else "last start"
    note = f"ranks were started more than once; only the {which} is used" if dropped else ""
    return used, replace(source, status="complete", note=note, events=len(used.steps))


def _size(file: Path) -> int:
    """The bytes of a file, 0 where it is gone since it was listed: a training may be running there."""
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _foreign(read: MonitorRecords, anchor: Anchor) -> str:
    """The reason why the records cannot be of the traced run; "" when they can."""
    ranks = {each.rank for each in read.ranks}
    sizes = {each.world_size for each in read.ranks if each.world_size is not None}
    if anchor.world_size is not None and (sizes - {anchor.world_size} or max(ranks) >= anchor.world_size):
        of = sizes - {anchor.world_size} or {max(ranks) + 1}
        return f"they are of a job with another number of ranks ({max(of)}) than the traces ({anchor.world_size})"
    if anchor.ranks and not ranks & set(anchor.ranks):
        return f"they are of other ranks ({_span(ranks)}) than the traces ({_span(anchor.ranks)})"
    if not read.steps.empty and _possible(_spans(read), anchor).empty:
        spans = _spans(read)
        times = [_utc(each) for each in (spans["begin"].min(), spans["end"].max(), anchor.origin_unix_ns or 0)]
        written = f"({times[0]} to {times[1]} UTC)"
        return f"they were written {written} more than a minute before or after the traces ({times[2]} UTC)"
    return ""


def _span(ranks: Iterable[int]) -> str:
    first, last = min(ranks := list(ranks)), max(ranks)
    return str(first) if first == last else f"{first} to {last}"


def _utc(unix_ns: int) -> str:
    return f"{datetime.fromtimestamp(int(unix_ns) // 10**9, UTC):%Y-%m-%d %H:%M:%S}"


def traced_start(read: MonitorRecords, anchor: Anchor) -> tuple[MonitorRecords, bool]:
    """The records of the start that was traced, else of the last one, and whether others were left out.

    The starts of all ranks that ended their first step within a minute of each other are one; of a rank that has none
    of that time nothing is used.
    """
    spans = _spans(read)
    possible = _possible(spans, anchor)
    if possible.empty:
        return read, False
    traced = _closest(possible, anchor.origin_unix_ns)
    apart = (spans["first"] - int(traced["first"])).abs()
    before = (spans["end"] < int(traced["begin"])) & (spans["attempt"].max() > 0)  # an earlier start that failed soon
    together = spans[(apart <= TOLERANCE_NS) & ~before].assign(apart=apart).sort_values("apart", kind="stable")
    nearest = together.drop_duplicates("rank")[["rank", "attempt"]]
    wanted = {(int(rank), int(attempt)) for rank, attempt in nearest.itertuples(index=False, name=None)}
    if all((each.rank, each.attempt) in wanted for each in read.ranks):
        return read, False
    return _only(read, wanted), True


def _spans(read: MonitorRecords) -> pd.DataFrame:
    """Begin, end of the first step and end of every start that has steps."""
    ends = read.steps["end_unix_ns"]
    table = read.steps[["rank", "attempt"]].assign(begin=ends - (read.steps["wall_ms"] * 1e6).astype("int64"), end=ends)
    spans = table.groupby(["rank", "attempt"], as_index=False)
    return spans.agg(begin=("begin", "min"), first=("end", "min"), end=("end", "max"))


def _possible(spans: pd.DataFrame, anchor: Anchor) -> pd.DataFrame:
    """The starts of traced ranks that were under way at the traces' origin; all where that is not known."""
    origin_ns = anchor.origin_unix_ns
    if origin_ns is None:
        return spans
    under_way = (spans["begin"] - TOLERANCE_NS <= origin_ns) & (spans["end"] + TOLERANCE_NS >= origin_ns)
    return spans[spans["rank"].isin(list(anchor.ranks)) & under_way]


def _closest(possible: pd.DataFrame, origin_unix_ns: int | None) -> pd.Series[int]:
    """The start that needs least tolerance to hold the origin, the latest of those that need none."""
    if origin_unix_ns is None:
        return possible.sort_values("begin").iloc[-1]
    before = (possible["begin"] - origin_unix_ns).clip(lower=0)
    after = (origin_unix_ns - possible["end"]).clip(lower=0)
    best = possible.assign(off=before + after).sort_values(["off", "begin"], ascending=[True, False])
    return best.iloc[0]


def _only(read: MonitorRecords, wanted: set[Start]) -> MonitorRecords:
    return replace(
        read,
        steps=_rows(read.steps, wanted),
        gc=_rows(read.gc, wanted),
        system=_rows(read.system, wanted),
        captures=_rows(read.captures, wanted),
        ranks=tuple(each for each in read.ranks if (each.rank, each.attempt) in wanted),
        environments=tuple(each for each in read.environments if (each.rank, each.attempt) in wanted),
    )


def _rows(table: pd.DataFrame, wanted: set[Start]) -> pd.DataFrame:
    import pandas as pd

    own = pd.MultiIndex.from_frame(table[["rank", "attempt"]].astype("int64")).isin(wanted)
    return table[own].reset_index(drop=True)
