"""communication.json, communication_matrix.json and cluster_communication.json of an Ascend profiler folder.

``{step: {"p2p" | "collective": {operator@group: {...}}}}``, of a cluster ``{group: {step: {operator: {rank: ...}}}}``.
``Total Op Info`` sums the others and is left out. Times are ms, sizes MB of 10^6 bytes, bandwidths GB/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.documents import parse_json
from tools.errors import InputError
from tools.run.recorded.ascend import AscendTables, table_of
from tools.sources.decompress import beginning

MOST_BYTES = 256 << 20
STEP = re.compile(r"\d{1,15}")
TOTAL = "Total Op Info"
TIMES, BANDWIDTH = "Communication Time Info", "Communication Bandwidth Info"
TIME_COLUMNS = {
    "elapse_ms": "Elapse Time(ms)",
    "transit_ms": "Transit Time(ms)",
    "wait_ms": "Wait Time(ms)",
    "synchronization_ms": "Synchronization Time(ms)",
    "idle_ms": "Idle Time(ms)",
}
LINK = re.compile(r"(\d{1,9})-(\d{1,9})\Z")
Row = dict[str, Any]


@dataclass
class _Found:
    collectives: list[Row] = field(default_factory=list)
    transfers: list[Row] = field(default_factory=list)
    packets: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)

    def tables(self) -> AscendTables:
        own = {name: _table(name, rows) for name, rows in vars(self).items()}
        return AscendTables(**own)


def _table(name: str, rows: list[Row]) -> Any:  # noqa: ANN401 - a field of a dataclass
    return table_of(name, {key: [row.get(key) for row in rows] for key in rows[0]} if rows else {})


def read_communication(path: Path, rank: int) -> AscendTables:
    """The collectives of one rank, or of every rank of a cluster; raises ``InputError`` where it cannot be used."""
    try:
        content = beginning(path, MOST_BYTES)
        value = parse_json(bytes(content.data).decode("utf-8", "replace"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    except ValueError as error:
        raise InputError(f"{path}: is no whole JSON text ({error}); copy or export it again") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no communication of an Ascend profiler")
    found = _Found()
    for step, kinds in value.items():
        if step.startswith("("):
            _cluster(found, kinds)
            continue
        for kind, operators in _members(kinds):
            for name, said in _members(operators):
                _operator(found, rank, _step(step), kind, name, said)
    return found.tables()


def _cluster(found: _Found, steps: object) -> None:
    for step, operators in _members(steps):
        for name, ranks in _members(operators):
            for rank, said in _members(ranks):
                if rank.isdecimal() and len(rank) < 10:
                    _operator(found, int(rank), _step(step), "collective", name, said)


def _operator(found: _Found, rank: int, step: int, kind: str, name: str, said: Mapping[str, Any]) -> None:
    operator, _, group = name.rpartition("@")
    if name == TOTAL or operator == TOTAL:
        return
    own: Row = {"rank": rank, "step": step, "kind": kind, "name": operator or name, "group": group if operator else ""}
    times = said.get(TIMES)
    if isinstance(times, dict):
        found.collectives.append(own | {column: number(times.get(key)) for column, key in TIME_COLUMNS.items()})
    for transport, moved in _members(said.get(BANDWIDTH)):
        if number(moved.get("Transit Size(MB)")) > 0:
            found.transfers.append(own | {"transport": transport, **_amounts(moved)})
        for size, counted in _sizes(moved.get("Size Distribution")):
            count, time = ([number(each) for each in counted] + [float("nan")] * 2)[:2]
            found.packets.append(own | {"transport": transport, "packet_mb": size, "count": count, "duration_ms": time})
    for link, moved in _members(said):
        if ends := LINK.match(link):
            pair = {"source": int(ends[1]), "target": int(ends[2]), "transport": str(moved.get("Transport Type", ""))}
            found.links.append(own | pair | _amounts(moved))


def _amounts(moved: Mapping[str, Any]) -> Row:
    return {
        "size_mb": number(moved.get("Transit Size(MB)")),
        "transit_ms": number(moved.get("Transit Time(ms)")),
        "gb_per_s": number(moved.get("Bandwidth(GB/s)")),
    }


def _members(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield from ((str(key), own) for key, own in value.items() if isinstance(own, dict))


def _sizes(value: object) -> Iterator[tuple[float, list[Any]]]:
    if isinstance(value, dict):
        for key, own in value.items():
            size = number(key)
            if size > 0 and isinstance(own, list):
                yield size, own


def number(value: object) -> float:
    """A finite number, NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return float("nan")
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return float("nan")
    return found if abs(found) < 1e18 else float("nan")


def _step(text: str) -> int:
    digits = STEP.search(text)
    return int(digits[0]) if digits else -1
