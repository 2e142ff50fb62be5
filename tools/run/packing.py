"""An event table as one flat run of bytes: written in one go, and opened again without copying or parsing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from isal import isal_zlib
from numpy.typing import NDArray

from tools.run.events import DETAIL_COLUMNS, Details, EventTable, empty_table

MAGIC = b"HERMES-RUN\x00\x01\x00\x00\x00\x00"
ALIGNMENT = 64
DTYPES = ("int8", "int16", "int32", "int64", "float64", "uint8")
PREFIX_BYTES = len(MAGIC) + 12


class PackedArray(msgspec.Struct, frozen=True):
    """Where one array lies, counted from the end of the header."""

    name: str
    dtype: str
    count: int
    offset: int
    crc: int


class PackedHeader(msgspec.Struct, frozen=True):
    """The header before the arrays; ``about`` belongs to whoever packed the table."""

    version: int
    key: str
    about: msgspec.Raw
    arrays: list[PackedArray]


class DamagedError(Exception):
    """The bytes are not what was packed."""


@dataclass
class _Parts:
    arrays: list[PackedArray] = field(default_factory=list)
    buffers: list[NDArray[Any]] = field(default_factory=list)
    size: int = 0

    def add(self, name: str, values: NDArray[Any]) -> None:
        values = np.ascontiguousarray(values)
        crc = isal_zlib.crc32(values.view(np.uint8).data) if values.size else 0
        self.arrays.append(PackedArray(name, values.dtype.name, len(values), self.size, crc))
        self.buffers.append(values)
        self.size += -(-values.nbytes // ALIGNMENT) * ALIGNMENT

    def add_texts(self, name: str, texts: list[str]) -> None:
        self.add(name, np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8))


def pack(table: EventTable, version: int, key: str, about: bytes) -> Iterator[memoryview]:
    """The table as buffers to be written one after the other; ``about`` is JSON."""
    parts = _Parts()
    _add_frame(parts, "frame", table.frame)
    _add_frame(parts, "tracks", table.tracks)
    for name in DETAIL_COLUMNS:
        _add_frame(parts, name, getattr(table.details, name))
    header = msgspec.json.encode(PackedHeader(version, key, msgspec.Raw(about), parts.arrays))
    header += b" " * (-(PREFIX_BYTES + len(header)) % ALIGNMENT)
    yield memoryview(MAGIC + len(header).to_bytes(8, "little") + isal_zlib.crc32(header).to_bytes(4, "little"))
    yield memoryview(header)
    for values in parts.buffers:
        yield values.view(np.uint8).data if values.size else memoryview(b"")
        yield memoryview(bytes(-values.nbytes % ALIGNMENT))


def _add_frame(parts: _Parts, prefix: str, frame: pd.DataFrame) -> None:
    for column in frame.columns:
        name = f"{prefix}.{column}"
        values = frame[column]
        if isinstance(values.dtype, pd.CategoricalDtype):
            parts.add(name, values.cat.codes.to_numpy())
            parts.add_texts(f"{name}#", values.cat.categories.astype("str").tolist())
        elif isinstance(values.dtype, pd.StringDtype):
            parts.add_texts(f"{name}#", values.tolist())
        else:
            parts.add(name, values.to_numpy())


def read_header(data: memoryview) -> PackedHeader:
    """The header of packed bytes; raises ``DamagedError`` when the bytes are not as they were written."""
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    crc = int.from_bytes(data[len(MAGIC) + 8 : PREFIX_BYTES], "little")
    header = data[PREFIX_BYTES : PREFIX_BYTES + size]
    if bytes(data[: len(MAGIC)]) != MAGIC or len(header) != size or isal_zlib.crc32(header) != crc:
        raise DamagedError("the header is damaged")
    try:
        return msgspec.json.decode(header, type=PackedHeader)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedError("the header is damaged") from error


def unpack(data: memoryview, header: PackedHeader) -> EventTable:
    """The table, its columns read-only views of ``data``; raises ``DamagedError`` when a checksum is off."""
    start = PREFIX_BYTES + int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    arrays = {entry.name: _array(data, start, entry) for entry in header.arrays}
    try:
        details = {name: _frame(arrays, name) for name in DETAIL_COLUMNS}
        return EventTable(_frame(arrays, "frame"), _frame(arrays, "tracks"), Details(**details))
    except (ValueError, KeyError) as error:
        raise DamagedError(str(error)) from error


def _array(data: memoryview, start: int, entry: PackedArray) -> NDArray[Any]:
    if entry.dtype not in DTYPES:
        raise DamagedError(f"{entry.name} is of the unknown type {entry.dtype}")
    dtype = np.dtype(entry.dtype)
    own = data[start + entry.offset : start + entry.offset + entry.count * dtype.itemsize]
    if len(own) != entry.count * dtype.itemsize or (len(own) and isal_zlib.crc32(own) != entry.crc):
        raise DamagedError(f"{entry.name} is damaged")
    return np.frombuffer(own, dtype=dtype)


def _frame(arrays: dict[str, NDArray[Any]], prefix: str) -> pd.DataFrame:
    data: dict[str, Any] = {}
    for name, values in arrays.items():
        table, _, column = name.partition(".")
        if table != prefix:
            continue
        if not column.endswith("#"):
            data[column] = values
            continue
        column = column[:-1]
        texts = json.loads(values.tobytes())
        if column in data:
            categories = pd.Index(texts, dtype="str")
            data[column] = pd.Categorical.from_codes(data[column], categories=categories, validate=False)
        else:
            data[column] = pd.array(texts, dtype="str")
    return pd.DataFrame(data, copy=False) if data else empty_table(DETAIL_COLUMNS.get(prefix, {}))
