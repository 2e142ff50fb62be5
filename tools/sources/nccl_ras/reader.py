"""Answers of NCCL RAS (2.28.7 and later) as one record, in the order of their time stamps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.documents import parse_json
from tools.errors import InputError
from tools.run.kinds import RAS_FORMAT
from tools.run.model import Source
from tools.run.recorded.collective_records import CollectiveRecords, RasCommunicator, RasRank, RasRecords
from tools.sources.formats import Anchor, Contribution, FolderFiles
from tools.sources.plain_files import whole_file

MOST_BYTES = 64 << 20
MOST_SAMPLES = 1024
MOST_COMMUNICATORS, MOST_RANKS, MOST_KINDS = 1 << 14, 1 << 17, 64
LARGEST = 1 << 53
LONGEST = 256
AGAIN = "ask again with `ncclras -f json -v`"
# NCCL 2.28.9 leaves out a comma in the members of a missing rank.
LACKS_COMMA = re.compile(rb'("nvml_dev"\s*:\s*\d{1,6})(\s{1,200}"status")')


@dataclass(frozen=True)
class _Answer:
    path: Path
    stamp: str
    version: str
    communicators: tuple[tuple[str, int, tuple[RasRank, ...], tuple[RasRank, ...]], ...]
    left_out: int


def read_ras(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The record of all answers; a file that holds none is listed as excluded."""
    answers: list[_Answer] = []
    sources: list[Source] = []
    notes: list[str] = []
    for path in sorted({file for each in found for file in each.files})[:MOST_SAMPLES]:
        try:
            answer = _read(path)
        except InputError as error:
            sources.append(Source(path, RAS_FORMAT, (), "excluded", str(error)))
            notes.append(f"left out: {error}")
            continue
        note = f"{answer.left_out} of its communicators or ranks cannot be read" if answer.left_out else ""
        size, events = path.stat().st_size, len(answer.communicators)
        sources.append(Source(path, RAS_FORMAT, (), "partial" if note else "complete", note, bytes=size, events=events))
        notes += [f"{path.name}: {note}"] if note else []
        answers.append(answer)
    if not answers:
        return Contribution(sources=tuple(sources), notes=tuple(notes))
    # Local time without a zone: it orders the answers of one machine.
    answers.sort(key=lambda each: (each.stamp, each.path))
    communicators = [
        RasCommunicator(key, size, ranks, missing, sample, sample)
        for sample, answer in enumerate(answers)
        for key, size, ranks, missing in answer.communicators
    ]
    record = RasRecords(
        tuple(communicators), len(answers), tuple(each.path.name for each in answers), answers[-1].version
    )
    return Contribution(collectives=CollectiveRecords(ras=record), sources=tuple(sources), notes=tuple(notes))


def _read(path: Path) -> _Answer:
    data = whole_file(path, MOST_BYTES, "answer of NCCL RAS")
    try:
        value = parse_json(LACKS_COMMA.sub(rb"\1,\2", data))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON: it is cut or damaged; {AGAIN}") from error
    stated = value.get("communicators") if isinstance(value, dict) else None
    if not isinstance(stated, list):
        raise InputError(f"{path}: holds no communicators of NCCL RAS; {AGAIN}")
    found, left_out = [], max(0, len(stated) - MOST_COMMUNICATORS)
    for each in stated[:MOST_COMMUNICATORS]:
        size = _whole(each.get("size")) if isinstance(each, dict) else None
        if size is None:
            left_out += 1
            continue
        ranks, bad = _ranks(each.get("ranks"), answered=True)
        missing, worse = _ranks(each.get("missing_ranks"), answered=False)
        left_out += bad + worse
        found.append((f"{_text(each.get('hash'))} {_text(each.get('secondary_hash'))}".strip(), size, ranks, missing))
    return _Answer(path, _text(value.get("timestamp")), _text(value.get("nccl_version")), tuple(found), left_out)


def _ranks(value: object, *, answered: bool) -> tuple[tuple[RasRank, ...], int]:
    """The ranks of a list, and how many of it cannot be read."""
    listed = value[:MOST_RANKS] if isinstance(value, list) else []
    found = [rank for each in listed if (rank := _rank(each, answered)) is not None]
    return tuple(found), len(listed) - len(found)


def _rank(value: object, answered: bool) -> RasRank | None:
    if not isinstance(value, dict):
        return None
    rank, pid = _whole(value.get("rank")), _whole(value.get("pid"))
    stated = value.get("status")
    status: Mapping[str, Any] = stated if isinstance(stated, dict) else value
    if rank is None or pid is None:
        return None
    counts = value.get("collective_counts")
    return RasRank(
        rank,
        _text(value.get("host")),
        pid,
        _whole(status.get("async_error")) or 0,
        _kinds(counts) if answered and isinstance(counts, dict) else None,
        status.get("unresponsive") is True,
        status.get("considered_dead") is True,
    )


def _kinds(counts: Mapping[object, object]) -> dict[str, int]:
    listed = list(counts.items())[:MOST_KINDS]
    return {_text(kind): count for kind, each in listed if (count := _whole(each)) is not None}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < LARGEST else None


def _text(value: object) -> str:
    return value[:LONGEST] if isinstance(value, str) else ""
