"""The timeline of one rank from ``ascend_pytorch_profiler_<rank>.db`` (of MindSpore ``ascend_mindspore_profiler_``).

Times are ns since 1970. Tables and what they give: TASK with COMPUTE_TASK_INFO the kernels, COMMUNICATION_OP the whole
collectives (their parts, COMMUNICATION_TASK_INFO, are left out), CANN_API the calls of the host, PYTORCH_API operators,
queues and Python frames, STRING_IDS all names. ``connectionId`` joins a call with the task that it launches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.documents import parse_json
from tools.errors import InputError
from tools.run.kinds import CORE_CLOCK, DETAIL_COLUMNS, EventKind
from tools.run.model import Device
from tools.sources.ascend.folder import read_folder, variables_of
from tools.sources.ascend.numbers import whole_numbers
from tools.sources.ascend.processes import CANN, GROUP_STREAMS, HARDWARE, inputs_of, task_kind
from tools.sources.kineto.columns import NO_CONNECTION, Columns, clock_name
from tools.sources.kineto.details import HCCL_TYPES, Codes
from tools.sources.kineto.table import assemble
from tools.sources.options import LoadOptions
from tools.sources.sqlite_file import Database, open_database
from tools.sources.trace_file import TraceFacts, TraceFile, TraceMetadata

FORMAT = "ascend database"
OPERATOR, QUEUE, FRAME, MARK = "op", "queue", "trace", "mstx"  # of PYTORCH_API
API_KINDS = {
    OPERATOR: EventKind.OPERATOR,
    QUEUE: EventKind.RUNTIME,
    FRAME: EventKind.PYTHON,
    MARK: EventKind.ANNOTATION,
}
API_LAYERS = {"acl": "AscendCL", "node": "Node", "runtime": "Runtime", "hccl": "Hccl", "model": "Model"}
MOST_GROUPS = 1024  # of communication, one lane each
LONGEST_STACK = 64  # frames that are kept of one operator

Numbers = NDArray[np.int64]


def read_database(path: Path, digest: str, options: LoadOptions) -> TraceFile:
    """The timeline of one rank; raises ``InputError`` when nothing in it can be used."""
    with open_database(path) as database:
        timeline = _Timeline(database)
        timeline.fill()
        metadata = _metadata(database, read_folder(path))
    columns = timeline.columns
    if not columns.rows:
        raise InputError(f"{path}: holds no timeline: its tables of tasks and operators are missing or empty")
    assembled = assemble(columns, options.limits.span_days)
    excluded = {reason: count for reason, count in assembled.excluded.items() if count}
    parts = [*timeline.notes, *(f"{count} events {reason} were left out" for reason, count in excluded.items())]
    if _pending(path):
        parts.append("what the journal next to it (-wal) holds is not read")
    size = path.stat().st_size
    facts = TraceFacts(
        format=FORMAT,
        origin_ns=assembled.origin_ns,
        epoch=True,
        metadata=metadata,
        status="partial" if parts else "complete",
        note="; ".join(parts),
        bytes=size,
        events=columns.rows,
        groups=assembled.groups,
        text_bytes=size,
    )
    return TraceFile(path, digest, assembled.table, facts)


def _pending(path: Path) -> bool:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size > 0
    except OSError:
        return False


def _metadata(database: Database, around: TraceMetadata) -> TraceMetadata:
    """The rank and its settings, from the database first."""
    mapped = whole_numbers(database.table("RANK_DEVICE_MAP", "rankId")["rankId"])
    own = sorted({int(rank) for rank in mapped if 0 <= rank < 10**7})
    said = database.table("META_DATA", "name", "value")
    pairs = {str(name): str(value) for name, value in zip(said["name"], said["value"], strict=True)}
    named = [str(name)[:200] for name in database.table("NPU_INFO", "name")["name"][:1]]
    rank = own[0] if len(own) == 1 else None
    return replace(
        around,
        rank=around.rank if rank is None else rank,
        devices=tuple(Device(0, name) for name in named),
        plain=around.plain | variables_of(_object(pairs.get("ENV_VARIABLES", ""))),
    )


def _object(text: str) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass
class _Rows:
    """Events of one table: names and lanes as codes of the columns."""

    start: Numbers
    end: Numbers
    kind: NDArray[np.int8]
    name: NDArray[np.int32]
    track: NDArray[np.int32]
    correlation: Numbers


class _Timeline:
    """Fills the columns that every reader of traces fills."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.columns = Columns()
        self.notes: list[str] = []
        texts = database.table("STRING_IDS", "id", "value")
        keys = whole_numbers(texts["id"]).tolist()
        self.texts = {key: str(value) for key, value in zip(keys, texts["value"], strict=True)}

    def fill(self) -> None:
        """Take every table that is there; what is missing is noted."""
        for read in (self._tasks, self._collectives, self._calls, self._operators, self._clocks):
            read()

    def _named(self, ids: Sequence[object], form: Callable[[str], str] = str) -> tuple[list[str], NDArray[np.int32]]:
        """The different texts behind ids, and the place of each row's among them."""
        unique, place = np.unique(whole_numbers(ids), return_inverse=True)
        return [form(self.texts.get(key, "")) for key in unique.tolist()], place.astype(np.int32)

    def _name_codes(self, ids: Sequence[object]) -> NDArray[np.int32]:
        texts, place = self._named(ids)
        codes = np.array([self.columns.names[text] for text in texts], dtype=np.int32)
        return codes[place] if len(place) else np.empty(0, dtype=np.int32)

    def _lanes(self, keys: Numbers, lane: Callable[[int], tuple[int | str, int | str]]) -> NDArray[np.int32]:
        unique, place = np.unique(keys, return_inverse=True)
        codes = np.array([self.columns.tracks[lane(key)] for key in unique.tolist()], dtype=np.int32)
        return codes[place] if len(place) else np.empty(0, dtype=np.int32)

    def _add(self, rows: _Rows, usable: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
        """Append the events that have a time; True for these."""
        good = (rows.start > 0) & (rows.end >= rows.start)
        good = good if usable is None else good & usable
        lost = int(len(good) - good.sum()) if usable is None else int((usable & ~good).sum())
        self.columns.excluded["without a usable time"] += lost
        added: dict[str, NDArray[Any]] = {
            **{"start_ns": rows.start, "end_ns": rows.end, "kind": rows.kind, "name": rows.name, "track": rows.track},
            **{"correlation": rows.correlation, "external": np.full(len(good), -1, dtype=np.int64)},
        }
        for column, values in added.items():
            self.columns.rows_of[column].append(values[good])
        count = int(good.sum())
        self.columns.rows += count
        self.columns.spans += count
        return good

    def _tasks(self) -> None:
        own = self.database.table(
            "TASK", *("startNs", "endNs", "deviceId", "connectionId", "globalTaskId", "taskType", "streamId")
        )
        if not own["startNs"]:
            self.notes.append("it has no tasks of the device (table TASK)")
            return
        task = whole_numbers(own["globalTaskId"])
        computed = self.database.table("COMPUTE_TASK_INFO", "globalTaskId", "name")
        types, place = self._named(own["taskType"])
        kinds = np.array([task_kind(text) for text in types], dtype=np.int8)[place]
        name = self._name_codes(own["taskType"])
        at = _places(task, whole_numbers(computed["globalTaskId"]))
        if len(computed["name"]):
            # Kernels are those that are described; the others are what streams do for collectives and for waiting.
            kinds = np.where(kinds == EventKind.KERNEL, EventKind.OTHER, kinds)
            names = self._name_codes(computed["name"])
            name = np.where(at >= 0, names[np.maximum(at, 0)], name)
            kinds = np.where(at >= 0, EventKind.KERNEL, kinds)
        else:
            self.notes.append("kernels have the names of their task types: it lacks COMPUTE_TASK_INFO, needs level 1")
        parts = whole_numbers(self.database.table("COMMUNICATION_TASK_INFO", "globalTaskId")["globalTaskId"])
        device, stream = whole_numbers(own["deviceId"]), whole_numbers(own["streamId"])
        lane = np.where((device >= 0) & (device < 2**16), device, 0) * 2**32 + np.clip(stream, 0, 2**32 - 1)
        track = self._lanes(lane, lambda key: (HARDWARE, f"{key >> 32}.{key & (2**32 - 1)}"))
        for key in np.unique(lane).tolist():
            self._lane(self.columns.tracks[HARDWARE, f"{key >> 32}.{key & (2**32 - 1)}"], key >> 32, key & (2**32 - 1))
        rows = _Rows(
            *(whole_numbers(own["startNs"]), whole_numbers(own["endNs"]), kinds.astype(np.int8), name.astype(np.int32)),
            *(track, _connection(own["connectionId"])),
        )
        self._add(rows, ~np.isin(task, parts))

    def _lane(self, code: int, device: int, stream: int) -> None:
        self.columns.devices[code] = (int(device), int(stream))
        self.columns.labels[list(self.columns.tracks)[code]] = f"Stream {stream}"

    def _collectives(self) -> None:
        own = self.database.table(
            *("COMMUNICATION_OP", "opName", "startNs", "endNs", "connectionId", "groupName", "dataType", "count")
        )
        if not own["startNs"]:
            return
        groups, place = self._named(own["groupName"])
        if len(groups) > MOST_GROUPS:
            raise InputError(f"{self.database.path}: names more than {MOST_GROUPS} groups; it is damaged")
        codes = []
        for number, group in enumerate(groups):
            code = self.columns.tracks["HCCL", group]
            self.columns.devices[code] = (0, GROUP_STREAMS + number)
            self.columns.labels["HCCL", group] = f"Group {number} Communication"
            codes.append(code)
        first = self.columns.rows
        kind = np.full(len(place), EventKind.KERNEL, dtype=np.int8)
        good = self._add(
            _Rows(
                *(whole_numbers(own["startNs"]), whole_numbers(own["endNs"]), kind, self._name_codes(own["opName"])),
                *(np.array(codes, dtype=np.int32)[place], _connection(own["connectionId"])),
            )
        )
        types = self.database.table("ENUM_HCCL_DATA_TYPE", "id", "name")
        named = dict(zip(whole_numbers(types["id"]).tolist(), map(str, types["name"]), strict=True))
        dtype = [HCCL_TYPES.get(named.get(key, ""), "") for key in whole_numbers(own["dataType"]).tolist()]
        self._detail(
            "collectives",
            first,
            good,
            {
                **{"collective": [""] * len(good), "ranks": [""] * len(good), "dtype": dtype},
                **{"group": [groups[at] for at in place.tolist()], "group_size": [-1] * len(good)},
                **{"in_elements": whole_numbers(own["count"]), "out_elements": [-1] * len(good)},
            },
        )

    def _clocks(self) -> None:
        own = self.database.table("AICORE_FREQ", "timestampNs", "freq")
        if not own["timestampNs"]:
            return
        at = whole_numbers(own["timestampNs"])
        names = [clock_name(mhz) for mhz in whole_numbers(own["freq"]).tolist()]
        spans = self.columns.spans
        self._add(
            _Rows(
                *(at, at, np.full(len(at), EventKind.INSTANT, dtype=np.int8)),
                np.array([self.columns.names[name] for name in names], dtype=np.int32),
                np.full(len(at), self.columns.tracks[CORE_CLOCK, 0], dtype=np.int32),
                np.full(len(at), -1, dtype=np.int64),
            )
        )
        self.columns.spans = spans  # readings have no duration

    def _calls(self) -> None:
        own = self.database.table("CANN_API", "startNs", "endNs", "type", "globalTid", "connectionId", "name")
        if not own["startNs"]:
            self.notes.append("it has no calls of the host (table CANN_API): launches are not known")
            return
        layers = self._enum("ENUM_API_TYPE")
        names, name_at = self._named(own["name"])
        layer = [API_LAYERS.get(layers.get(key, ""), "") for key in whole_numbers(own["type"]).tolist()]
        texts = [f"{of}@{names[at]}" if of else names[at] for of, at in zip(layer, name_at.tolist(), strict=True)]
        self._add(
            _Rows(
                whole_numbers(own["startNs"]),
                whole_numbers(own["endNs"]),
                np.full(len(texts), EventKind.RUNTIME, dtype=np.int8),
                np.array([self.columns.names[text] for text in texts], dtype=np.int32),
                self._threads(own["globalTid"], CANN),
                _connection(own["connectionId"]),
            )
        )

    def _operators(self) -> None:
        own = self.database.table(
            *("PYTORCH_API", "startNs", "endNs", "globalTid", "name", "sequenceNumber", "fwdThreadId"),
            *("inputDtypes", "inputShapes", "callchainId", "type"),
        )
        if not own["startNs"]:
            self.notes.append("it has no operators of the framework (table PYTORCH_API)")
            return
        layers = self._enum("ENUM_API_TYPE")
        kinds = [API_KINDS.get(layers.get(key, ""), EventKind.OTHER) for key in whole_numbers(own["type"]).tolist()]
        kind = np.array(kinds, dtype=np.int8)
        first = self.columns.rows
        good = self._add(
            _Rows(
                *(whole_numbers(own["startNs"]), whole_numbers(own["endNs"]), kind, self._name_codes(own["name"])),
                *(self._threads(own["globalTid"], ""), np.full(len(kind), -1, dtype=np.int64)),
            )
        )
        dims, types = self._inputs(own["inputShapes"], numbers=True), self._inputs(own["inputDtypes"], numbers=False)
        stacks = self._stacks(own["callchainId"])
        sequence = whole_numbers(own["sequenceNumber"])
        said = np.array([bool(a or b or c) for a, b, c in zip(dims, types, stacks, strict=True)]) | (sequence >= 0)
        values = {"dims": dims, "types": types, "sequence": sequence, "stack": stacks}
        values["forward_thread"] = whole_numbers(own["fwdThreadId"])
        self._detail("operators", first, good, values, said & (kind == EventKind.OPERATOR))

    def _detail(
        self,
        table: str,
        first: int,
        good: NDArray[np.bool_],
        values: dict[str, Any],
        chosen: NDArray[np.bool_] | None = None,
    ) -> None:
        """The side table of rows that were appended from ``first`` on, of those that are ``good`` and chosen."""
        row = first + np.cumsum(good) - 1
        own = np.flatnonzero(good if chosen is None else good & chosen)
        parts = self.columns.details.tables[table]
        parts["row"].append(row[own])
        for column, dtype in DETAIL_COLUMNS[table].items():
            if column == "row":
                continue
            if dtype == "category":
                codes = self.columns.details.vocabularies.setdefault(f"{table}.{column}", Codes())
                parts[column].append(np.array([codes[values[column][at]] for at in own.tolist()], dtype=np.int32))
            else:
                parts[column].append(np.asarray(values[column])[own].astype(dtype))

    def _enum(self, table: str) -> dict[int, str]:
        own = self.database.table(table, "id", "name")
        return dict(zip(whole_numbers(own["id"]).tolist(), map(str, own["name"]), strict=True))

    def _threads(self, ids: Sequence[object], layer: str) -> NDArray[np.int32]:
        """Lanes of global threads: the process in the upper half, the thread in the lower. CANN's are of their own."""

        def lane(key: int) -> tuple[int | str, int | str]:
            pid, tid = (key >> 32) & (2**32 - 1), key & (2**32 - 1)
            return (f"{layer} {pid}" if layer else str(pid)), str(tid)

        return self._lanes(whole_numbers(ids), lane)

    def _inputs(self, ids: Sequence[object], numbers: bool) -> list[str]:
        texts, place = self._named(ids, lambda text: inputs_of(json.dumps(text), numbers) if text else "")
        return [texts[at] for at in place.tolist()]

    def _stacks(self, ids: Sequence[object]) -> list[str]:
        """The call stack of each operator, its innermost frame first."""
        own = self.database.table("PYTORCH_CALLCHAINS", "id", "stack", "stackDepth")
        chains, depth = whole_numbers(own["id"]), whole_numbers(own["stackDepth"])
        frames, place = self._named(own["stack"])
        found: dict[int, list[str]] = {}
        for at in np.lexsort((depth, chains)).tolist():
            chain = found.setdefault(int(chains[at]), [])
            if len(chain) < LONGEST_STACK:
                chain.append(frames[place[at]])
        joined = {key: ";\r\n".join(chain) for key, chain in found.items()}
        return [joined.get(key, "") for key in whole_numbers(ids).tolist()]


def _connection(ids: Sequence[object]) -> Numbers:
    found = whole_numbers(ids)
    return np.where((found >= 0) & (found != NO_CONNECTION), found, -1)


def _places(wanted: Numbers, among: Numbers) -> Numbers:
    """The place of each number in a list, -1 where it is not in it."""
    if not len(among):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(among, kind="stable")
    at = order[np.minimum(np.searchsorted(among[order], wanted), len(order) - 1)]
    return np.where(among[at] == wanted, at, -1)
