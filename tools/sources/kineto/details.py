"""What only some events have, collected slice by slice: sizes of kernels, bytes of copies, shapes of operators."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tools.run.kinds import DETAIL_COLUMNS, EventKind
from tools.sources.kineto.decode import Args
from tools.sources.kineto.values import Codes, floats, integers, texts

SIDE_TABLES = tuple(name for name in DETAIL_COLUMNS if name != "forward_backward")
OPERATOR_KINDS = (EventKind.OPERATOR, EventKind.ANNOTATION)
COLLECTIVE_KINDS = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.KERNEL, EventKind.DEVICE_ANNOTATION)
COPY_KINDS = (EventKind.MEMCPY, EventKind.MEMSET)

Table = dict[str, list[NDArray[Any]]]


def _empty_tables() -> dict[str, Table]:
    return {name: {column: [] for column in DETAIL_COLUMNS[name]} for name in SIDE_TABLES}


@dataclass
class DetailParts:
    """The side tables as lists of arrays; categorical columns hold codes into ``vocabularies``."""

    tables: dict[str, Table] = field(default_factory=_empty_tables)
    vocabularies: dict[str, Codes[str]] = field(default_factory=dict)  # "table.column" -> texts
    groups: dict[str, tuple[str, str, int]] = field(default_factory=dict)  # group -> description, ranks, size

    def add(self, row: int, kind: NDArray[np.int8], memory: NDArray[np.bool_], args: list[Args]) -> None:
        """Take what the events starting at ``row`` carry; arrays are parallel to ``args``."""

        present = np.bincount(kind, minlength=len(EventKind))

        def of(kinds: Sequence[EventKind]) -> list[int]:
            if not present[list(kinds)].any():
                return []
            wanted = np.zeros(len(EventKind), dtype=bool)
            wanted[list(kinds)] = True
            found: list[int] = np.flatnonzero(wanted[kind]).tolist()
            return found

        self._kernels(row, of([EventKind.KERNEL]), args)
        self._copies(row, of(COPY_KINDS), args)
        self._operators(row, of(OPERATOR_KINDS), args)
        self._collectives(row, of(COLLECTIVE_KINDS), args)
        self._memory(row, np.flatnonzero(memory).tolist(), args)
        self._syncs(row, of([EventKind.SYNC]), args)
        self._python(row, of([EventKind.PYTHON]), args)

    def _append(self, table: str, row: int, at: Sequence[int], columns: dict[str, NDArray[Any]]) -> None:
        parts = self.tables[table]
        parts["row"].append(np.array(at, dtype=np.int64) + row)
        for name, values in columns.items():
            parts[name].append(values)

    def _coded(self, column: str, values: Iterable[str]) -> NDArray[np.int32]:
        codes = self.vocabularies.setdefault(column, Codes())
        return np.array([codes[value] for value in values], dtype=np.int32)

    def _kernels(self, row: int, at: list[int], args: list[Args]) -> None:
        if not at:
            return
        own = [args[i] for i in at]
        columns: dict[str, NDArray[Any]] = {
            "blocks": _products([item.grid for item in own]),
            "threads": _products([item.block for item in own]),
            "registers": floats([item.registers for item in own]),
            "shared_bytes": floats([item.shared_memory for item in own]),
            "warps_per_sm": floats([item.warps for item in own]),
            "occupancy_pct": floats([item.occupancy for item in own]),
        }
        self._append("kernels", row, at, columns)

    def _copies(self, row: int, at: list[int], args: list[Args]) -> None:
        if at:
            self._append("copies", row, at, {"bytes": integers([args[i].bytes for i in at])})

    def _operators(self, row: int, at: list[int], args: list[Args]) -> None:
        at = [i for i in at if _describes_operator(args[i])]
        if not at:
            return
        own = [args[i] for i in at]
        columns: dict[str, NDArray[Any]] = {
            "dims": self._coded("operators.dims", _raw_texts([item.dims for item in own])),
            "types": self._coded("operators.types", _raw_texts([item.types for item in own])),
            "sequence": integers([item.sequence for item in own]),
            "forward_thread": integers([item.forward_thread for item in own]),
            "stack": self._coded("operators.stack", texts([item.stack for item in own])),
        }
        self._append("operators", row, at, columns)

    def _collectives(self, row: int, at: list[int], args: list[Args]) -> None:
        at = [i for i in at if args[i].collective is not None]
        if not at:
            return
        own = [args[i] for i in at]
        groups, sizes = texts([item.group for item in own]), integers([item.group_size for item in own])
        ranks = texts([item.group_ranks for item in own])
        columns: dict[str, NDArray[Any]] = {
            "collective": self._coded("collectives.collective", texts([item.collective for item in own])),
            "group": self._coded("collectives.group", groups),
            "group_size": sizes,
            "ranks": self._coded("collectives.ranks", ranks),
            "dtype": self._coded("collectives.dtype", texts([item.dtype for item in own])),
            "in_elements": integers([item.in_elements for item in own]),
            "out_elements": integers([item.out_elements for item in own]),
        }
        self._append("collectives", row, at, columns)
        described = texts([item.group_description for item in own])
        for group, text, members, size in zip(groups, described, ranks, sizes.tolist(), strict=True):
            self.groups[group] = (text, members, size)

    def _memory(self, row: int, at: list[int], args: list[Args]) -> None:
        if not at:
            return
        own = [args[i] for i in at]
        device_type = integers([item.device_type for item in own], absent=0)
        columns: dict[str, NDArray[Any]] = {
            "bytes": integers([item.memory_bytes for item in own], absent=0),
            "total_allocated": integers([item.total_allocated for item in own]),
            "total_reserved": integers([item.total_reserved for item in own]),
            "device_type": (device_type > 0).astype(np.int8),
            "device": integers([item.device_id for item in own]),
        }
        self._append("memory", row, at, columns)

    def _syncs(self, row: int, at: list[int], args: list[Args]) -> None:
        if not at:
            return
        own = [args[i] for i in at]
        columns: dict[str, NDArray[Any]] = {
            "sync_kind": self._coded("syncs.sync_kind", texts([item.sync_kind for item in own])),
            "stream": integers([item.stream for item in own]),
            "wait_on_stream": integers([item.wait_on_stream for item in own]),
            "wait_on_record_correlation": integers([item.wait_on_record for item in own]),
            "event": integers([item.wait_on_event for item in own]),
        }
        self._append("syncs", row, at, columns)

    def _python(self, row: int, at: list[int], args: list[Args]) -> None:
        if not at:
            return
        own = [args[i] for i in at]
        columns: dict[str, NDArray[Any]] = {
            "python_id": integers([item.python_id for item in own]),
            "parent_id": integers([item.python_parent for item in own]),
        }
        self._append("python", row, at, columns)


def _describes_operator(item: Args) -> bool:
    return bool(item.sequence != -1 or item.stack or bytes(item.dims) or bytes(item.types))


def _raw_texts(values: list[msgspec.Raw]) -> list[str]:
    return [bytes(value).decode("utf-8", "replace") for value in values]


def _products(values: list[msgspec.Raw]) -> NDArray[np.int64]:
    """Products of recorded lists of sizes such as ``[2, 1, 1]``; -1 where there is none."""
    known: dict[bytes, int] = {}
    result = np.empty(len(values), dtype=np.int64)
    for at, value in enumerate(values):
        text = bytes(value)
        if text not in known:
            known[text] = _product(text)
        result[at] = known[text]
    return result


def _product(text: bytes) -> int:
    try:
        sizes = msgspec.json.decode(text, type=list[int], strict=False)
    except (msgspec.DecodeError, RecursionError):
        return -1
    product = math.prod(sizes)
    return product if sizes and 0 <= product < 2**63 else -1
