"""A summary as one file: its tables packed as ``tools.run.packing`` packs those of a trace, compressed as a whole.

Compression is zlib at its fastest: a summary is read more often than it is made. Opened are the tables that are asked
for; each column has a checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache

import msgspec
import pandas as pd
from isal import isal_zlib

from tools.run.events import empty_table
from tools.run.packing import DamagedError, PackedHeader, pack_frames, read_header, unpack_frames
from tools.sources.files import READER_VERSION
from tools.sources.options import Limits
from tools.summaries.record import SUMMARY_VERSION, TABLES, RankSummary, SummaryFacts, TableName

SUFFIX = ".summary"
MOST_BYTES = 256 << 20  # of a file, and of what it expands to; a rank of 2,500 collectives takes some 50 KB
FASTEST = 1  # level of compression
ALL: tuple[TableName, ...] = tuple(TABLES)


def key_of(identity: str, limits: Limits) -> str:
    """The key of a trace's summary: changes with the trace, its reader and the meaning of a summary."""
    text = f"{identity} {READER_VERSION} {SUMMARY_VERSION} {limits!r}"
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def file_name(key: str) -> str:
    """The name of the file with the summary of that key."""
    return f"{key}{SUFFIX}"


def encode(summary: RankSummary, key: str) -> bytes:
    """The file of a summary."""
    tables: dict[str, pd.DataFrame] = {name: summary.table(name) for name in TABLES}
    packed = pack_frames(tables, SUMMARY_VERSION, key, msgspec.json.encode(summary.facts))
    return bytes(isal_zlib.compress(b"".join(packed), FASTEST))


def decode(data: bytes, key: str, tables: Sequence[TableName] = ALL) -> RankSummary:
    """The summary in a file's bytes, tables that are not wanted empty.

    Raises ``DamagedError`` where the bytes are not a summary of that key as it was written.
    """
    packed = _expanded(data)
    header = read_header(packed)
    if header.version != SUMMARY_VERSION or header.key != key:
        raise DamagedError("it is of another trace or version")
    found = unpack_frames(packed, header, tables)
    return RankSummary(_facts(header), **{name: _checked(name, found.get(name)) for name in TABLES})


def _facts(header: PackedHeader) -> SummaryFacts:
    try:
        return msgspec.json.decode(header.about, type=SummaryFacts)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"its facts cannot be read ({error})") from error


def _expanded(data: bytes) -> memoryview:
    """What was compressed, as long as it is no larger than any summary."""
    expanding = isal_zlib.decompressobj()
    try:
        packed = expanding.decompress(data, MOST_BYTES)
    except isal_zlib.error as error:  # type: ignore[misc] # its stub declares an instance
        raise DamagedError(f"it is no summary that can be read ({error})") from error
    if not expanding.eof or expanding.unused_data:
        raise DamagedError("it is no summary that can be read (it ends too early or too late)")
    return memoryview(packed)


def _checked(name: TableName, table: pd.DataFrame | None) -> pd.DataFrame:
    """The table, where it holds the columns of a summary; an empty one where it was not asked for."""
    if table is None:
        return _empty(name)
    wanted = TABLES[name]
    if {column: str(dtype) for column, dtype in table.dtypes.items()} != wanted:
        raise DamagedError(f"the columns of {name} are not those of a summary")
    texts = [table[column].cat for column, dtype in wanted.items() if dtype == "category"]
    if not all(column.categories.is_unique for column in texts) or any((column.codes < 0).any() for column in texts):
        raise DamagedError(f"a text of {name} is there twice, or missing")
    return table


@cache
def _empty(name: TableName) -> pd.DataFrame:
    return empty_table(TABLES[name])
