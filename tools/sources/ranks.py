"""The rank of each trace file, what became of every file, and the traces of one rank as one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import union_categoricals

from tools.run.events import DETAIL_COLUMNS, Details, EventTable
from tools.run.model import UNREADABLE, CutTrace, Device, RankOrigin, Source
from tools.sources.files import Failure
from tools.sources.trace_file import TraceFacts, TraceFile

ROW_COLUMNS = ("row", "forward_row", "backward_row")
DAY_NS = 86_400 * 10**9
LONGEST_GAP_NS = DAY_NS  # between two traces of one rank: farther apart they are of two runs
MOST_LISTED = 10  # notes on files; of a run of a thousand ranks there may be as many
LINK_COLUMNS = ("correlation", "external")


@dataclass(frozen=True)
class FileFacts:
    """What a trace file says of its rank and of its place in the run, apart from its events."""

    path: Path
    digest: str
    facts: TraceFacts
    last_ns: int  # the end of the last event, from ``facts.origin_ns``
    processes: frozenset[str]  # whose threads the trace holds


def file_facts(trace: TraceFile) -> FileFacts:
    """The facts of a trace that was read."""
    last_ns = int(trace.table.frame["end_ns"].max())
    return FileFacts(trace.path, trace.digest, trace.facts, last_ns, frozenset(processes_of(trace.table)))


def clash(earlier: FileFacts, later: FileFacts) -> str:
    """The reason why two traces of one rank cannot both belong to the run; "" when they can."""
    first, second = earlier.facts, later.facts
    name = earlier.path.name
    if first.epoch != second.epoch:
        return f"cannot be put on one time axis with {name}, which is of the same rank"
    if first.metadata.world_size != second.metadata.world_size:
        return f"is of a job of another size than {name}, which is of the same rank"
    gap_ns = second.origin_ns - first.origin_ns - earlier.last_ns
    if gap_ns < 0:
        return f"overlaps {name} in time, which is of the same rank"
    if earlier.processes and later.processes and not earlier.processes & later.processes:
        return f"is of another process than {name}, which is of the same rank: of another start of the training"
    if gap_ns > LONGEST_GAP_NS:
        return f"was recorded {gap_ns / DAY_NS:.1f} days after {name}, which is of the same rank"
    return ""


def processes_of(table: EventTable) -> set[str]:
    """The processes whose threads the trace holds; profilers add lanes of their own, which have names for a number."""
    tracks = table.tracks
    return {pid for pid in tracks.loc[tracks["device"] < 0, "pid"].astype(str) if pid.isdecimal()}


def join_tables(parts: Sequence[TraceFile]) -> EventTable:
    """One table for traces in order of time that do not overlap; times count from the first part's origin."""
    if len(parts) == 1:
        return parts[0].table
    tracks, track_codes = _join_tracks([part.table.tracks for part in parts])
    frames: list[pd.DataFrame] = []
    details: dict[str, list[pd.DataFrame]] = {name: [] for name in DETAIL_COLUMNS}
    row = link = 0  # the first of the next part
    for part, codes in zip(parts, track_codes, strict=True):
        frame = part.table.moved(part.facts.origin_ns - parts[0].facts.origin_ns).frame
        links = {name: frame[name].where(frame[name] < 0, frame[name] + link) for name in LINK_COLUMNS}
        frames.append(frame.assign(track=codes[frame["track"].to_numpy()], **links))
        for name, tables in details.items():
            table: pd.DataFrame = getattr(part.table.details, name)
            tables.append(table.assign(**{column: table[column] + row for column in ROW_COLUMNS if column in table}))
        link = max(link, *(int(frames[-1][name].max()) + 1 for name in LINK_COLUMNS))
        row += len(frame)
    return EventTable(_stack(frames), tracks, Details(**{name: _stack(tables) for name, tables in details.items()}))


def join_devices(parts: Sequence[TraceFile]) -> tuple[Device, ...]:
    """The devices any part describes, by index."""
    known = {device.index: device for part in reversed(parts) for device in part.facts.metadata.devices}
    return tuple(known[index] for index in sorted(known))


def _join_tracks(tables: Sequence[pd.DataFrame]) -> tuple[pd.DataFrame, list[NDArray[np.int32]]]:
    keys = ["pid", "tid", "device", "stream"]
    joined = pd.concat(tables, ignore_index=True).drop_duplicates(keys).sort_values(keys, ignore_index=True)
    places = pd.MultiIndex.from_frame(joined[keys])
    return joined, [places.get_indexer(pd.MultiIndex.from_frame(table[keys])).astype(np.int32) for table in tables]


def _stack(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables of the same columns, categories united."""
    filled = [table for table in tables if len(table)] or list(tables[:1])
    data: dict[str, Any] = {}
    for name in filled[0].columns:
        columns = [table[name] for table in filled]
        categorical = isinstance(columns[0].dtype, pd.CategoricalDtype)
        data[name] = union_categoricals(columns) if categorical else np.concatenate([c.to_numpy() for c in columns])
    return pd.DataFrame(data, copy=False)


NAMED_RANK = (
    re.compile(r"(?:^|[^a-z])rank[_\-.]?(\d{1,7})(?!\d)", re.I),
    re.compile(r"(?:^|[^a-z])worker[_\-.]?(\d{1,7})(?!\d)", re.I),
    re.compile(r"(?:^|[_\-.])r(\d{1,7})(?=[_\-.]|$)", re.I),
    re.compile(r"[_\-](\d{1,5})\.(?:pt\.)?(?:trace\.)?json", re.I),
)
# tensorboard_trace_handler writes host_pid.time.pt.trace.json: the number in it is a process, not a rank.
HANDLER_NAME = re.compile(r"^(?P<host>.+)_(?P<pid>\d+)\.\d{10,}\.pt\.trace\.json(?:\.gz)?$")


@dataclass(frozen=True)
class RankGuess:
    """A file's rank and what says so."""

    rank: int
    origin: RankOrigin

    @property
    def assumed(self) -> str:
        """A sentence where the trace itself does not name the rank, else ""."""
        sentences: dict[RankOrigin, str] = {
            "file_name": f"rank {self.rank} is taken from the file name",
            "order": f"the trace names no rank; {self.rank} was assumed",
        }
        return sentences.get(self.origin, "")


def host_of(path: Path) -> str:
    """The host that a trace's file name holds, "" when it holds none."""
    match = HANDLER_NAME.match(path.name)
    return match["host"] if match and not any(p.search(match["host"]) for p in NAMED_RANK[:2]) else ""


def assign_ranks(paths: Sequence[Path], recorded: Sequence[int | None]) -> list[RankGuess]:
    """A rank for each file: the recorded one, else the one in its name, else the lowest that is free."""
    guesses: list[RankGuess | None] = [None if rank is None else RankGuess(rank, "recorded") for rank in recorded]
    taken = {guess.rank for guess in guesses if guess}
    held = Counter(paths)  # of a file that holds several ranks the name does not say which is which
    named = {at: _named_rank(path) for at, path in enumerate(paths) if guesses[at] is None and held[path] == 1}
    for at, rank in named.items():
        if rank is not None and rank not in taken:
            guesses[at] = RankGuess(rank, "file_name")
    taken |= {guess.rank for guess in guesses if guess}
    free = (rank for rank in range(len(paths) + len(taken)) if rank not in taken)
    return [guess or RankGuess(next(free), "order") for guess in guesses]


def named_ranks(paths: Sequence[Path]) -> dict[Path, int] | None:
    """The rank in the name of every file; None where a name holds none."""
    named = {path: rank for path in paths if (rank := _named_rank(path)) is not None}
    return named if len(named) == len(paths) else None


def _named_rank(path: Path) -> int | None:
    patterns = NAMED_RANK[:2] if HANDLER_NAME.match(path.name) else NAMED_RANK
    for text in (path.name, path.parent.name):
        for pattern in patterns:
            if match := pattern.search(text):
                return int(match[1])
    return None


HOUR_NS = 3600 * 10**9


@dataclass(frozen=True)
class Part:
    """A trace file and whose it is; ``rejected`` says why it is not used, "" when it is."""

    file: FileFacts
    guess: RankGuess
    rejected: str = ""


def parts_of(files: Sequence[FileFacts]) -> list[Part]:
    """Every file with its rank, those rejected that repeat or contradict another one."""
    guesses = assign_ranks([file.path for file in files], [file.facts.metadata.rank for file in files])
    ordered = sorted(map(Part, files, guesses), key=lambda part: (part.guess.rank, part.file.facts.origin_ns))
    parts: list[Part] = []
    first_with: dict[str, Path] = {}
    last_of: dict[int, FileFacts] = {}
    for part in ordered:
        before = last_of.get(part.guess.rank)
        same = first_with.setdefault(part.file.digest, part.file.path)
        if same != part.file.path:
            reason = f"holds the same bytes as {same.name}"
        else:
            reason = clash(before, part.file) if before else ""
        parts.append(replace(part, rejected=reason))
        if not reason and not part.file.facts.cut:
            last_of[part.guess.rank] = part.file
    return parts


def cut_traces(parts: Sequence[Part]) -> tuple[CutTrace, ...]:
    """The traces of which an unknown part is missing, so that nothing may be measured on them."""
    return tuple(
        CutTrace(
            each.file.path, each.guess.rank, facts.cut, facts.events, facts.text_bytes, within=facts.damaged_within
        )
        for each in parts
        if (facts := each.file.facts).cut and not each.rejected
    )


def sources(files: Sequence[Path], parts: Sequence[Part], failures: Sequence[Failure]) -> tuple[Source, ...]:
    """One record per file, in the order of the files."""
    found: dict[Path, Source] = {}
    for part in parts:
        own = _source(part)
        found[own.path] = _joined(found[own.path], own) if own.path in found else own
    for failure in failures:
        named = _named_rank(failure.path)
        ranks = () if named is None else (named,)
        found[failure.path] = Source(failure.path, UNREADABLE, ranks, "excluded", failure.reason)
    return tuple(found[path] for path in files if path in found)


def _joined(first: Source, second: Source) -> Source:
    """The record of a file that holds several ranks."""
    return replace(
        first,
        ranks=tuple(sorted({*first.ranks, *second.ranks})),
        status=max(first.status, second.status, key=("complete", "partial", "excluded").index),
        note="; ".join(dict.fromkeys(text for text in (first.note, second.note) if text)),
        events=first.events + second.events,
    )


def _source(part: Part) -> Source:
    facts = part.file.facts
    return Source(
        path=part.file.path,
        format=facts.format,
        ranks=(part.guess.rank,),
        status="excluded" if part.rejected else facts.status,
        note="; ".join(text for text in (part.rejected, facts.note, part.guess.assumed) if text),
        bytes=facts.bytes,
        events=facts.events,
        digest=part.file.digest,
    )


def notes(parts: Sequence[Part], failures: Sequence[Failure]) -> list[str]:
    """Notes on the files of a run, one sentence each; of many alike the first, and how many more there are."""
    found = []
    for part in parts:
        name = part.file.path.name
        if part.rejected:
            found.append(f"{name} was left out: it {part.rejected}")
            continue
        found += [f"{name}: {text}" for text in (part.file.facts.note, part.guess.assumed) if text]
    left_out = _first([f"left out: {failure.reason}" for failure in failures], "files were left out as well")
    if len({part.file.facts.epoch for part in parts if not part.rejected}) > 1:
        left_out.append("not all traces record the time of day, so times of different ranks may not be comparable")
    return [*_first(found, "such notes on other traces"), *left_out]


def _first(texts: list[str], more: str) -> list[str]:
    rest = len(texts) - MOST_LISTED
    return texts if rest <= 0 else [*texts[:MOST_LISTED], f"{rest:,} {more}"]


def contradiction(parts: Sequence[Part]) -> str:
    """The reason why the ranks' traces cannot be those of one run; "" when they can."""
    first = {part.guess.rank: part.file for part in reversed(parts) if not part.rejected}
    facts = [file.facts for file in first.values()]
    sizes = sorted({each.metadata.world_size for each in facts if each.metadata.world_size is not None})
    found = []
    if len(sizes) > 1:
        found.append(f"are of jobs of different sizes ({', '.join(map(str, sizes))} ranks)")
    if all(each.epoch for each in facts):
        apart_ns = max(each.origin_ns for each in facts) - min(each.origin_ns for each in facts)
        if apart_ns > HOUR_NS:
            found.append(f"were recorded up to {apart_ns / HOUR_NS:.1f} hours apart")
    return " and ".join(found)
