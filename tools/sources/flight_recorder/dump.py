"""One dump of PyTorch's flight recorder: its groups, the state of each, and the calls that it remembers.

The members are those of torch/csrc/distributed/c10d/FlightRecorderDetail.hpp, of a pickle and of ``dump_json`` alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from tools.documents import parse_json
from tools.errors import InputError
from tools.run.recorded.collective_records import NO_PEER, NOT_COMPARED, CallState, FlightGroup
from tools.sources.flight_recorder.plain_pickle import PickleError, loads
from tools.sources.plain_files import whole_file

MOST_BYTES = 256 << 20
MOST_CALLS = 1 << 20  # the recorder keeps 2,000 unless set otherwise
MOST_GROUPS, MOST_RANKS = 1 << 16, 1 << 20
LONGEST_RANKS = 1 << 25  # characters, of all groups: a pickle may repeat one group at no cost in bytes
MOST_SIZES = 1 << 24  # tensors of all calls, which may repeat as well
MOST_TENSORS, MOST_DIMENSIONS = 1 << 12, 16
LARGEST = 1 << 62
LONGEST_NAME = 200
AGAIN = "write the dumps again, of all ranks at the same moment"
STATES = {"scheduled": CallState.SCHEDULED, "started": CallState.STARTED, "completed": CallState.COMPLETED}
RANKS = re.compile(r"\[(?: ?\d{1,7},?)*\]\Z")
BATCH = "coalesced"  # in the name of the call that closes a batch
PEERS = re.compile(r"(?P<kind>send|recv) (?P<own>\d{1,7})(?:->|<-)(?P<other>\d{1,7})\Z")
# Whose elements must be equal on all ranks. Of the other kinds NCCL allows different sizes, or a list of tensors.
COMPARED = {
    **dict.fromkeys(("all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_allgather_base"), "input"),
    **dict.fromkeys(("_reduce_scatter_base",), "output"),
}


@dataclass(frozen=True)
class Call:
    """One call of a collective, a send or a receive; as in ``CALL_COLUMNS``, the group by its place in the dump."""

    row: int
    record: int
    group: tuple[str, str]
    group_id: str
    sequence: int
    operation: str
    state: CallState
    created_ns: int
    seen_ns: int
    timeout_ms: int
    p2p: bool
    transfer: int  # counts the sends and receives of a group, those of one batch once
    sends: bool
    peer: int  # inside the group
    elements: int
    types: str


@dataclass(frozen=True)
class Dump:
    """What a file holds; ``left_out`` of its entries could not be read."""

    calls: tuple[Call, ...]
    groups: dict[str, FlightGroup]  # by name
    status: dict[str, tuple[int, int]]  # last enqueued and last completed, by the number of the group in the process
    version: str
    left_out: int


def read_dump(path: Path) -> Dump:
    """The dump in a file; InputError where it holds none."""
    data = whole_file(path, MOST_BYTES, "dump of a flight recorder")
    try:
        value = parse_json(data) if data.startswith(b"{") else loads(data)
    except PickleError as error:
        raise InputError(f"{path}: is no plain dump of a flight recorder: {error}; {AGAIN}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON: it is cut or damaged; {AGAIN}") from error
    if not isinstance(value, dict) or not isinstance(value.get("pg_config", value.get("entries")), (dict, list)):
        raise InputError(f"{path}: holds no groups and no entries of a flight recorder; {AGAIN}")
    if _ranks_text(value.get("pg_config")) > LONGEST_RANKS or _tensors(value.get("entries")) > MOST_SIZES:
        raise InputError(f"{path}: holds more ranks or tensors than any dump of a flight recorder")
    return _dump(value)


def _ranks_text(groups: object) -> int:
    """Characters in which the groups list their ranks."""
    found = [each for each in groups.values() if isinstance(each, dict)] if isinstance(groups, dict) else []
    return sum(len(ranks) for each in found if isinstance(ranks := each.get("ranks"), str))


def _tensors(entries: object) -> int:
    """How many shapes and types the entries list."""
    found = [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []
    listed = (each.get(key) for each in found for key in ("input_sizes", "output_sizes", "input_dtypes"))
    return sum(len(each) for each in listed if isinstance(each, (list, tuple)))


def _dump(value: Mapping[str, Any]) -> Dump:
    groups = dict(_groups(value.get("pg_config")))
    entries = value.get("entries")
    found = entries[:MOST_CALLS] if isinstance(entries, list) else []
    calls = _with_batches([call for row, each in enumerate(found) if (call := _call(row, each)) is not None])
    status: dict[str, tuple[int, int]] = {}
    stated = value.get("pg_status")
    for name, each in list(stated.items())[:MOST_GROUPS] if isinstance(stated, dict) else ():
        if isinstance(each, dict):
            last = [_whole(each.get(f"last_{key}_collective")) for key in ("enqueued", "completed")]
            if last[0] is not None and last[1] is not None:
                status[_text(name)] = (last[0], last[1])
    return Dump(calls, groups, status, _text(value.get("version")), len(found) - len(calls))


def _with_batches(calls: list[Call]) -> tuple[Call, ...]:
    """The calls of a batch (``batch_isend_irecv``, a coalescing manager) as far as the one that closes it.

    PyTorch records the state of the closing call alone; the others stay scheduled for ever.
    """
    calls.sort(key=lambda each: each.record)
    opened: dict[tuple[object, ...], list[int]] = {}
    for place, call in enumerate(calls):
        own = (call.group, call.p2p, call.transfer if call.p2p else call.sequence)
        if BATCH not in call.operation:
            opened.setdefault(own, []).append(place)
            continue
        for inside in opened.pop(own, ()):
            calls[inside] = replace(calls[inside], state=call.state, seen_ns=max(calls[inside].seen_ns, call.seen_ns))
    return tuple(calls)


def _groups(value: object) -> list[tuple[str, FlightGroup]]:
    found = []
    for name, each in list(value.items())[:MOST_GROUPS] if isinstance(value, dict) else ():
        ranks = each.get("ranks") if isinstance(each, dict) else None
        if isinstance(ranks, str) and RANKS.match(ranks) and ranks.count(",") < MOST_RANKS:
            numbers = tuple(sorted({int(rank) for rank in re.findall(r"\d+", ranks)}))
            found.append((_text(name), FlightGroup(_text(name), _text(each.get("desc")), numbers)))
    return found


def _call(row: int, entry: object) -> Call | None:
    """The call of an entry; None where something of it is missing that every call has."""
    if not isinstance(entry, dict):
        return None
    group, state = entry.get("process_group"), STATES.get(_text(entry.get("state")))
    record, created = _whole(entry.get("record_id")), _whole(entry.get("time_created_ns"))
    sequence = _whole(entry.get("collective_seq_id"))
    if not isinstance(group, (list, tuple)) or len(group) != 2 or state is None:
        return None
    if record is None or created is None or sequence is None:
        return None
    operation = _text(entry.get("profiling_name")).partition(":")[2] or _text(entry.get("profiling_name"))
    peers = PEERS.match(operation)
    p2p = entry.get("is_p2p") is True or peers is not None
    seen = [_whole(entry.get(f"time_discovered_{name}_ns")) or 0 for name in ("started", "completed")]
    return Call(
        row,
        record,
        (_text(group[0]), _text(group[1])),
        str(_whole(entry.get("pg_id"))),
        0 if p2p else sequence,
        operation,
        state,
        created,
        max(created, *seen),
        _whole(entry.get("timeout_ms")) or 0,
        p2p,
        _whole(entry.get("p2p_seq_id")) or 0,
        peers is not None and peers["kind"] == "send",
        NO_PEER if peers is None else int(peers["other"]),
        _elements(operation, entry),
        _types(entry.get("input_dtypes")),
    )


def _elements(operation: str, entry: Mapping[str, Any]) -> int:
    """The elements of all tensors that must be equal on all ranks."""
    side = COMPARED.get(operation)
    shapes = None if side is None else entry.get(f"{side}_sizes")
    if not isinstance(shapes, (list, tuple)) or not 0 < len(shapes) <= MOST_TENSORS:
        return NOT_COMPARED
    total = 0
    for shape in shapes:
        if not isinstance(shape, (list, tuple)) or len(shape) > MOST_DIMENSIONS:
            return NOT_COMPARED
        sizes = [_whole(size) for size in shape]
        known = [size for size in sizes if size is not None and 0 <= size < 1 << 40]
        if len(known) < len(sizes):
            return NOT_COMPARED
        total += prod(known)
    return total if total < LARGEST else NOT_COMPARED


def _types(value: object) -> str:
    found = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    return ", ".join(sorted({_text(each) for each in found[:MOST_TENSORS]}))[:LONGEST_NAME]


def _whole(value: object) -> int | None:
    """A whole number, also one that is written as text; None where it is none or too large for a column."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST else None


def _text(value: object) -> str:
    return value[:LONGEST_NAME] if isinstance(value, str) else ""
