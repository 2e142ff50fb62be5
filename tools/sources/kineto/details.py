"""Attributes that only some events have, slice by slice, and lists of recorded values as arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tools.run.kinds import DETAIL_COLUMNS, EventKind
from tools.sources.kineto.decode import Args

Key = TypeVar("Key")
INT64_MAX = 2**63 - 1


class Codes(dict[Key, int]):
    """Numbers keys in the order of their first appearance."""

    def __missing__(self, key: Key) -> int:
        code = self[key] = len(self)
        return code


def integers(values: Sequence[Any], absent: int = -1) -> NDArray[np.int64]:
    """The values as int64; ``absent`` where a value is none."""
    array = _converted(values, np.int64)
    return np.array([_integer(value, absent) for value in values], dtype=np.int64) if array is None else array


def floats(values: Sequence[Any]) -> NDArray[np.float64]:
    """The values as float64, NaN where a value is missing or no number."""
    array = _converted(values, np.float64)
    return np.array([_float(value) for value in values], dtype=np.float64) if array is None else array


def _converted(values: Sequence[Any], dtype: type[np.generic]) -> NDArray[Any] | None:
    """All values at once; None where one of them does not fit."""
    try:
        array = np.array(values, dtype=dtype)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if array.ndim == 1 else None


def texts(values: Sequence[Any]) -> list[str]:
    """The values as text, the empty text for those that are none."""
    return [value if isinstance(value, str) else "" if value is None else str(value) for value in values]


def _integer(value: object, absent: int) -> int:
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)  # type: ignore[call-overload]
    except (ValueError, TypeError, OverflowError):
        return absent
    return number if abs(number) <= INT64_MAX else absent


def _float(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return float("nan")


SIDE_TABLES = tuple(name for name in DETAIL_COLUMNS if name != "forward_backward")
KINDS = {
    "kernels": (EventKind.KERNEL,),
    "copies": (EventKind.MEMCPY, EventKind.MEMSET),
    "operators": (EventKind.OPERATOR, EventKind.ANNOTATION),
    "collectives": (
        *(EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.KERNEL, EventKind.DEVICE_ANNOTATION),
        EventKind.OTHER,  # HCCL's, of no category
    ),
    "syncs": (EventKind.SYNC,),
    "python": (EventKind.PYTHON,),
}
# The attribute that fills a column, where it is not called like the column.
ATTRIBUTES = {
    "kernels.blocks": "grid",
    "kernels.threads": "block",
    "kernels.shared_bytes": "shared_memory",
    "kernels.warps_per_sm": "warps",
    "kernels.occupancy_pct": "occupancy",
    "collectives.ranks": "group_ranks",
    "memory.bytes": "memory_bytes",
    "memory.device": "device_id",
    "syncs.wait_on_record_correlation": "wait_on_record",
    "syncs.event": "wait_on_event",
    "python.parent_id": "python_parent",
}

# Types of elements as HCCL names them.
HCCL_TYPES = {
    **{"FP32": "float", "FP16": "half", "BFP16": "bfloat16", "BF16": "bfloat16", "FP64": "double"},
    **{"INT8": "int8", "UINT8": "uint8", "INT16": "int16", "INT32": "int32", "INT64": "int64"},
}

Table = dict[str, list[NDArray[Any]]]
Values = list[Any]


ONLY: dict[str, Callable[[Args], object]] = {
    "operators": lambda item: len(item.dims) or len(item.types) or item.sequence != -1 or item.stack,
    "collectives": lambda item: item.collective is not None or item.algorithm is not None,
}


@dataclass
class DetailParts:
    """The side tables as lists of arrays; categorical columns hold codes into ``vocabularies``."""

    tables: dict[str, Table] = field(
        default_factory=lambda: {name: {column: [] for column in DETAIL_COLUMNS[name]} for name in SIDE_TABLES}
    )
    vocabularies: dict[str, Codes[str]] = field(default_factory=dict)  # "table.column" -> texts
    groups: dict[str, tuple[str, str, int]] = field(default_factory=dict)  # group -> description, ranks, size

    def add(self, row: int, kind: NDArray[np.int8], memory: NDArray[np.bool_], args: list[Args]) -> None:
        """Take what the events starting at ``row`` carry; arrays are parallel to ``args``."""
        present = np.bincount(kind, minlength=len(EventKind))
        for table, kinds in KINDS.items():
            if present[list(kinds)].any():
                at: list[int] = np.flatnonzero(np.isin(kind, kinds)).tolist()
                only = ONLY.get(table)
                self._append(table, row, [i for i in at if only(args[i])] if only else at, args)
        self._append("memory", row, np.flatnonzero(memory).tolist(), args)

    def _append(self, table: str, row: int, at: Sequence[int], args: list[Args]) -> None:
        if not at:
            return
        own = [args[i] for i in at]
        if table == "collectives":
            _read_hccl(own)
        parts = self.tables[table]
        parts["row"].append(np.array(at, dtype=np.int64) + row)
        for column, dtype in DETAIL_COLUMNS[table].items():
            if column != "row":
                name = f"{table}.{column}"
                attribute = ATTRIBUTES.get(name, column)
                parts[column].append(self._values(name, dtype, [getattr(item, attribute) for item in own]))
        if table == "collectives":
            self._note_groups(own)

    def _values(self, name: str, dtype: str, values: Values) -> NDArray[Any]:
        match name:
            case "kernels.blocks" | "kernels.threads":
                return _products(values)
            case "operators.dims" | "operators.types":
                return self._coded_raw(name, values)
            case "memory.device_type":
                return (integers(values, absent=0) > 0).astype(np.int8)
            case "memory.bytes":
                return integers(values, absent=0)
        if dtype == "category":
            return self._coded(name, texts(values))
        return floats(values) if dtype == "float64" else integers(values)

    def _coded(self, name: str, values: list[str]) -> NDArray[np.int32]:
        codes = self.vocabularies.setdefault(name, Codes())
        return np.array([codes[value] for value in values], dtype=np.int32)

    def _coded_raw(self, name: str, values: list[msgspec.Raw]) -> NDArray[np.int32]:
        """Codes of recorded lists as they are written; each of the few different ones is read once per slice."""
        different: Codes[bytes] = Codes()
        at = [different[bytes(value)] for value in values]
        return self._coded(name, [text.decode("utf-8", "replace") for text in different])[at]

    def _note_groups(self, own: list[Args]) -> None:
        names = ("group", "group_description", "group_ranks")
        columns = [texts([getattr(item, name) for item in own]) for name in names]
        sizes = integers([item.group_size for item in own]).tolist()
        for group, text, ranks, size in zip(*columns, sizes, strict=True):
            self.groups[group] = (text, ranks, size)


def _read_hccl(own: list[Args]) -> None:
    """What HCCL writes on a collective, under the names that Kineto uses."""
    for item in own:
        if item.algorithm is not None and item.collective is None:
            item.in_elements, item.dtype = item.count, HCCL_TYPES.get(str(item.data_type), "")


def _products(values: list[msgspec.Raw]) -> NDArray[np.int64]:
    """Products of recorded lists of sizes such as ``[2, 1, 1]``; -1 where there is none."""
    codes: Codes[bytes] = Codes()
    at = [codes[bytes(value)] for value in values]
    return np.array([_product(text) for text in codes], dtype=np.int64)[at]


def _product(text: bytes) -> int:
    try:
        sizes = msgspec.json.decode(text, type=list[int], strict=False)
    except (msgspec.DecodeError, RecursionError):
        return -1
    product = math.prod(sizes)
    return product if sizes and 0 <= product < 2**63 else -1
