"""All tables of a run's Ascend folders as one record: by rank, text before databases, with what contradicts noted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import ASCEND_FORMAT
from tools.run.layout import pipeline_stages
from tools.run.model import Layout, ProcessGroup, Source
from tools.run.recorded.ascend import COLUMNS, AscendTables, joined
from tools.sources.ascend.communication import read_communication
from tools.sources.ascend.csv_tables import read_csv_table
from tools.sources.ascend.database_tables import read_kernels, read_tables
from tools.sources.ascend.folder import folder_of, read_folder
from tools.sources.ascend.recognise import HEAD_BYTES, holds_timeline, is_communication
from tools.sources.decompress import beginning
from tools.sources.formats import Anchor, Contribution, FolderFiles
from tools.sources.sqlite_file import is_sqlite
from tools.sources.trace_file import TraceMetadata

NAMED_RANK = re.compile(r"rank[_\-.]?(\d{1,7})(?!\d)", re.IGNORECASE)
AGREE = 0.005  # of a step time: text and database round differently
COMPARED = ("computing_ms", "exposed_communication_ms", "free_ms", "stage_ms")


@dataclass
class _Rank:
    """The tables of one folder."""

    tables: list[AscendTables]
    about: TraceMetadata


def read_ascend(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The record of all tables; a file that cannot be read is listed as excluded."""
    folders: dict[Path, _Rank] = {}
    sources: list[Source] = []
    notes: list[str] = []
    # Text first: of what both give, what was read first is used.
    files = sorted(
        dict.fromkeys(file for each in found for file in each.files), key=lambda path: (is_sqlite(path), path)
    )
    for path in files:
        own = folders.setdefault(folder_of(path), _Rank([], read_folder(path)))
        rank, assumed = _rank_of(path, own.about)
        try:
            tables, remark = _read(path, rank)
        except InputError as error:
            sources.append(Source(path, ASCEND_FORMAT, (), "excluded", str(error)))
            notes.append(f"left out: {error}")
            continue
        rows = sum(len(getattr(tables, name)) for name in COLUMNS)
        note = "; ".join(text for text in (remark, assumed if tables.ranks == (rank,) else "") if text)
        size = path.stat().st_size
        sources.append(
            Source(
                path, ASCEND_FORMAT, tables.ranks, "partial" if remark else "complete", note, bytes=size, events=rows
            )
        )
        notes += [f"{path.name}: {note}"] if note else []
        notes += _contradictions(path, own.tables, tables)
        own.tables.append(_new(own.tables, tables))
    parts = [table for each in folders.values() for table in each.tables]
    if not parts:
        return Contribution(sources=tuple(sources), notes=tuple(notes))
    record = _once(joined(parts))
    about = [each.about for each in folders.values()]
    variables = {name: value for each in about for name, value in each.plain.items() if name.isupper()}
    return Contribution(
        ascend=replace(record, stages=_stages(about), world_size=_world_size(about)),
        variables={} if anchor.ranks else variables,
        sources=tuple(sources),
        notes=tuple(notes),
    )


def _read(path: Path, rank: int) -> tuple[AscendTables, str]:
    if not is_sqlite(path):
        try:
            start = bytes(beginning(path, HEAD_BYTES).data)
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
        return (read_communication(path, rank), "") if is_communication(start) else read_csv_table(path, rank)
    tables = read_tables(path, rank)
    beside = sorted(each for each in path.parent.glob("*.db") if each != path and not each.is_symlink())
    timeline = next((each for each in beside if holds_timeline(each)), None)
    return (tables if timeline is None else replace(tables, kernels=read_kernels(timeline, rank).kernels)), ""


def _rank_of(path: Path, about: TraceMetadata) -> tuple[int, str]:
    if about.rank is not None:
        return about.rank, ""
    for text in (path.name, folder_of(path).name):
        if match := NAMED_RANK.search(text):
            return int(match[1]), ""
    return 0, "the table names no rank; 0 was assumed"


def _contradictions(path: Path, before: Sequence[AscendTables], now: AscendTables) -> list[str]:
    """Where a folder's text and database give different times for one step."""
    known = next((each.steps for each in before if len(each.steps)), None)
    if known is None or now.steps.empty:
        return []
    both = known.merge(now.steps, on=["rank", "step"], suffixes=("", "_now"), validate="m:m")
    stage_ms = both["stage_ms"]
    off = [name for name in COMPARED if ((both[name] - both[f"{name}_now"]).abs() > AGREE * stage_ms).any()]
    said = ", ".join(name.removesuffix("_ms").replace("_", " ") for name in off)
    return [f"{path.name}: gives other times than the text next to it for {said}; the text is used"] if off else []


def _new(before: Sequence[AscendTables], now: AscendTables) -> AscendTables:
    """What no earlier file of the same folder gave."""
    taken = {name for name in COLUMNS if any(len(getattr(each, name)) for each in before)}
    empty = AscendTables()
    own = {each.name: getattr(empty if each.name in taken else now, each.name) for each in fields(AscendTables)}
    return AscendTables(**own)


def _once(record: AscendTables) -> AscendTables:
    """Each step of a rank once: a cluster's table repeats those of its ranks."""
    return replace(record, steps=record.steps.drop_duplicates(["rank", "step"]).reset_index(drop=True))


def _stages(about: Sequence[TraceMetadata]) -> tuple[tuple[int, ...], ...]:
    """The ranks of each pipeline stage, by the groups that the folders state."""
    groups = [
        ProcessGroup(str(each["pg_name"]), str(each["pg_desc"]), "hccl", tuple(each["ranks"]), len(each["ranks"]))
        for one in about
        for each in one.groups
        if all(isinstance(rank, int) for rank in each["ranks"])
    ]
    of = pipeline_stages(Layout(groups=tuple(groups)))
    found = [tuple(sorted(rank for rank, own in of.items() if own == stage)) for stage in sorted(set(of.values()))]
    return tuple(found) if len(found) > 1 else ()


def _world_size(about: Sequence[TraceMetadata]) -> int | None:
    sizes = {each.world_size for each in about if each.world_size is not None}
    return sizes.pop() if len(sizes) == 1 else None
