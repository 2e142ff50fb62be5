"""A summary as one Parquet file: its facts in the file's metadata, each column of its tables as one list.

The file has one row. Column ``collectives.start_ns`` is the list of that column's values; a column of texts holds the
places of its texts in the list ``collectives.group#``, so that a long text is written and read once. The metadata
holds ``hermes-dx`` with version, key and facts as JSON. Pages carry checksums.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tools.run.packing import DamagedError
from tools.sources.files import READER_VERSION
from tools.sources.options import Limits
from tools.summaries.record import SUMMARY_VERSION, TABLES, RankSummary, SummaryFacts, TableName

SUFFIX = ".parquet"
MEMBER = b"hermes-dx"  # of the file's metadata
TEXTS = "#"  # behind the name of a column: its different texts
MOST_BYTES = 256 << 20  # of a file, and of what it expands to; a rank of 2,500 collectives takes some 100 KB
ALL: tuple[TableName, ...] = tuple(TABLES)


class _About(msgspec.Struct, frozen=True):
    """The member of the file's metadata."""

    version: int
    key: str
    facts: SummaryFacts


def key_of(identity: str, limits: Limits) -> str:
    """The key of a trace's summary: changes with the trace, its reader and the meaning of a summary."""
    text = f"{identity} {READER_VERSION} {SUMMARY_VERSION} {limits!r}"
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def file_name(key: str) -> str:
    """The name of the file with the summary of that key."""
    return f"{key}{SUFFIX}"


@cache
def _schema() -> pa.Schema:
    fields: list[pa.Field[Any]] = []
    for table, columns in TABLES.items():
        for column, dtype in columns.items():
            coded = dtype == "category"
            fields.append(pa.field(f"{table}.{column}", pa.list_(pa.int32() if coded else pa.int64())))
            fields += [pa.field(f"{table}.{column}{TEXTS}", pa.list_(pa.string()))] if coded else []
    return pa.schema(fields)


def encode(summary: RankSummary, key: str) -> bytes:
    """The file of a summary."""
    arrays: list[pa.Array[Any]] = []
    for table, columns in TABLES.items():
        frame = summary.table(table)
        for column, dtype in columns.items():
            if dtype == "category":
                arrays += [_listed(frame[column].cat.codes, pa.int32())]
                arrays += [_listed(frame[column].cat.categories.astype("str").tolist(), pa.string())]
            else:
                arrays += [_listed(frame[column], pa.int64())]
    about = msgspec.json.encode(_About(SUMMARY_VERSION, key, summary.facts))
    sink = pa.BufferOutputStream()
    rows = pa.Table.from_arrays(arrays, schema=_schema().with_metadata({MEMBER: about}))
    pq.write_table(rows, sink, compression="zstd", write_page_checksum=True, write_statistics=False)
    return bytes(sink.getvalue())


def _listed(values: Any, kind: pa.DataType) -> pa.Array[Any]:  # noqa: ANN401 - whatever Arrow makes an array of
    """One row with the list of the values."""
    array = pa.array(values, type=kind)
    return pa.ListArray.from_arrays(pa.array([0, len(array)], type=pa.int32()), array)


def decode(data: bytes, key: str, tables: Sequence[TableName] = ALL) -> RankSummary:
    """The summary in a file's bytes, tables that are not wanted empty.

    Raises ``DamagedError`` where the bytes are not a summary of that key as it was written.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        about = _about(file)
        if about.version != SUMMARY_VERSION or about.key != key:
            raise DamagedError("it is of another trace or version")
        wanted = [name for name in file.schema_arrow.names if name.partition(".")[0] in tables]
        rows = file.read(columns=None if tables == ALL else wanted, use_threads=False)
        columns = {name: _values(rows.column(name)) for name in wanted}
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"it is no summary that can be read ({_first_line(error)})") from error
    return RankSummary(
        about.facts, **{name: _frame(name, columns) if name in tables else _no_rows(name) for name in TABLES}
    )


def _about(file: pq.ParquetFile) -> _About:
    """The member of the metadata; checks that the file holds what a summary holds, and not more than memory does."""
    metadata, schema = file.metadata, file.schema_arrow
    if len(schema.metadata or {}) > 8 or not schema.remove_metadata().equals(_schema()):
        raise DamagedError("its columns are not those of a summary")
    groups = [metadata.row_group(place) for place in range(min(metadata.num_row_groups, 2))]
    if metadata.num_rows != 1 or len(groups) != 1 or groups[0].total_byte_size > MOST_BYTES:
        raise DamagedError("it holds other rows than a summary")
    if any(groups[0].column(place).num_values > MOST_BYTES // 8 for place in range(groups[0].num_columns)):
        raise DamagedError("it holds more values than a summary")
    return msgspec.json.decode((schema.metadata or {}).get(MEMBER, b""), type=_About)


def _frame(table: TableName, columns: dict[str, pa.Array[Any]]) -> pd.DataFrame:
    """The table of these columns; raises ``DamagedError`` where they contradict each other."""
    data: dict[str, Any] = {}
    for column, dtype in TABLES[table].items():
        name = f"{table}.{column}"
        values = _numbers(columns[name]) if columns else np.empty(0, dtype=np.int64)
        data[column] = values if dtype != "category" else _texts(name, values, columns.get(f"{name}{TEXTS}"))
    if len({len(values) for values in data.values()}) > 1:
        raise DamagedError(f"the columns of {table} are not of one length")
    return pd.DataFrame(data, copy=False)


def _texts(name: str, places: NDArray[Any], texts: pa.Array[Any] | None) -> pd.Categorical:
    """The column of the texts at these places."""
    categories = pd.Index([] if texts is None else texts.to_pylist(), dtype="str")
    if categories.hasnans or not categories.is_unique:
        raise DamagedError(f"{name} holds a text twice, or a missing one")
    if len(places) and (places.min() < 0 or places.max() >= len(categories)):
        raise DamagedError(f"{name} refers to texts that it does not hold")
    return pd.Categorical.from_codes(places, categories=categories, validate=False)


@cache
def _no_rows(table: TableName) -> pd.DataFrame:
    """A table that was not wanted; the same one for all summaries, of which there are thousands."""
    return _frame(table, {})


def _values(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """The values of the one list in a column."""
    (array,) = column.chunks
    if not isinstance(array, pa.ListArray) or array.null_count:
        raise DamagedError("a list is missing")
    values: pa.Array[Any] = array.flatten()
    return values


def _numbers(values: pa.Array[Any]) -> NDArray[Any]:
    if values.null_count:
        raise DamagedError("a number is missing")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:120] or type(error).__name__
