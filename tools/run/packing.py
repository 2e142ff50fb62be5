"""Tables as one flat run of bytes: written in one go, and opened again without copying or parsing."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
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
NO_FRAMES: Mapping[str, pd.DataFrame] = MappingProxyType({})
PREFIX_BYTES = len(MAGIC) + 12


class PackedArray(msgspec.Struct, frozen=True):
    """The place of one array, counted from the end of the header."""

    name: str
    dtype: str
    count: int
    offset: int
    crc: int


class PackedHeader(msgspec.Struct, frozen=True):
    """The header before the arrays; ``about`` belongs to whoever packed the tables."""

    version: int
    key: str
    about: msgspec.Raw
    arrays: list[PackedArray]


class DamagedError(Exception):
    """The bytes are not what was packed."""


def pack(
    table: EventTable, version: int, key: str, about: bytes, more: Mapping[str, pd.DataFrame] = NO_FRAMES
) -> Iterator[memoryview]:
    """The table, and ``more`` by name, as buffers to be written one after the other; ``about`` is JSON."""
    frames = {"frame": table.frame, "tracks": table.tracks, **vars(table.details), **more}
    return pack_frames(frames, version, key, about)


def pack_frames(frames: Mapping[str, pd.DataFrame], version: int, key: str, about: bytes) -> Iterator[memoryview]:
    """Tables by name as buffers to be written one after the other; ``about`` is JSON."""
    arrays: list[PackedArray] = []
    buffers: list[NDArray[Any]] = []
    size = 0
    for name, values in _columns(frames):
        crc = isal_zlib.crc32(values.view(np.uint8).data) if values.size else 0
        arrays.append(PackedArray(name, values.dtype.name, len(values), size, crc))
        buffers.append(values)
        size += -(-values.nbytes // ALIGNMENT) * ALIGNMENT
    header = msgspec.json.encode(PackedHeader(version, key, msgspec.Raw(about), arrays))
    header += b" " * (-(PREFIX_BYTES + len(header)) % ALIGNMENT)
    yield memoryview(MAGIC + len(header).to_bytes(8, "little") + isal_zlib.crc32(header).to_bytes(4, "little"))
    yield memoryview(header)
    for values in buffers:
        yield values.view(np.uint8).data if values.size else memoryview(b"")
        yield memoryview(bytes(-values.nbytes % ALIGNMENT))


def _columns(frames: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Every column as "table.column"; its texts, or the texts of its categories, as JSON with "#" behind the name."""
    for prefix, frame in frames.items():
        for column in frame.columns:
            name, values = f"{prefix}.{column}", frame[column]
            texts: pd.Series[str] | pd.Index[str] | None = None
            if isinstance(values.dtype, pd.CategoricalDtype):
                values, texts = values.cat.codes, values.cat.categories.astype("str")
            elif isinstance(values.dtype, pd.StringDtype):
                texts = values
            if texts is not values:
                yield name, np.ascontiguousarray(values.to_numpy())
            if texts is not None:
                yield f"{name}#", np.frombuffer(json.dumps(texts.tolist()).encode(), dtype=np.uint8)


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
    frames = unpack_frames(data, header, ("frame", "tracks", *DETAIL_COLUMNS))
    details = {
        name: frames[name] if len(frames[name].columns) else empty_table(DETAIL_COLUMNS[name])
        for name in DETAIL_COLUMNS
    }
    return EventTable(frames["frame"], frames["tracks"], Details(**details))


def unpack_frames(data: memoryview, header: PackedHeader, wanted: Collection[str]) -> dict[str, pd.DataFrame]:
    """The tables of these names, without columns where none were packed; columns are read-only views of ``data``.

    Raises ``DamagedError`` when a checksum is off or columns contradict each other.
    """
    start = PREFIX_BYTES + int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    arrays = {each.name: _array(data, start, each) for each in header.arrays if each.name.partition(".")[0] in wanted}
    try:
        return {name: _frame(arrays, name) for name in wanted}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
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
        data[column] = _coded(name, data[column], texts) if column in data else pd.array(texts, dtype="str")
    return pd.DataFrame(data, copy=False)


def _coded(name: str, codes: NDArray[Any], texts: list[str]) -> pd.Categorical:
    """The column of the texts at these places, -1 for none."""
    if len(codes) and (int(codes.min()) < -1 or int(codes.max()) >= len(texts)):
        raise DamagedError(f"{name} refers to texts that it does not hold")
    return pd.Categorical.from_codes(codes, categories=pd.Index(texts, dtype="str"), validate=False)
