"""Reads a table of step operations from Parquet, within bounds."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tools.errors import InputError
from tools.run.recorded.operations import OPERATION_COLUMNS
from tools.sources.plain_files import open_plain

COLUMNS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "gmc")
WHOLE = ("dp_rank", "stage", "rank", "step", "seq_id", "mc", "gmc")
MOST_OPERATIONS = 5_000_000
LARGEST_TABLE_BYTES = 1 << 30  # unpacked
LONGEST_OPERATION = 200  # characters of the name
LARGEST_FOOTER_TEXT = 16 << 20  # of the description of the columns
MOST_FOOTER_ITEMS = 1 << 20
MS_PER_S = 1000.0


def holds_operations(path: Path) -> bool:
    """Whether the columns of a Parquet file are those of step operations; False where it cannot be read."""
    try:
        return set(COLUMNS) <= set(column_names(path))
    except (OSError, ValueError):
        return False


def column_names(path: Path) -> list[str]:
    """The columns of a Parquet file; raises OSError or ValueError where it cannot be read."""
    try:
        with open_plain(path) as file:
            return [str(name) for name in _opened(file).schema_arrow.names]
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def read_operations(source: Path | bytes) -> pd.DataFrame:
    """The operations with ``OPERATION_COLUMNS``; raises InputError with what is wrong, which does not name the file."""
    try:
        if isinstance(source, bytes):
            rows = _rows(BytesIO(source))
        else:
            with open_plain(source) as file:
                rows = _rows(file)
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise InputError(f"the table cannot be read: {(str(error) or type(error).__name__).splitlines()[0]}") from None
    rows["start_ms"], rows["duration_ms"] = rows.pop("start_ts") * MS_PER_S, rows.pop("duration") * MS_PER_S
    if not np.isfinite(rows[["start_ms", "duration_ms"]].to_numpy()).all() or (rows["duration_ms"] < 0).any():
        raise InputError("start_ts and duration have to be numbers, and no duration negative")
    if rows.empty:
        raise InputError("the table is empty; give the operations of at least one step")
    if (rows[["dp_rank", "stage", "rank"]].to_numpy() < 0).any():
        raise InputError("dp_rank, stage and rank have to be 0 or more")
    return rows[list(OPERATION_COLUMNS)]


def _opened(file: BinaryIO, held_once: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(
        file,
        read_dictionary=list(held_once),
        thrift_string_size_limit=LARGEST_FOOTER_TEXT,
        thrift_container_size_limit=MOST_FOOTER_ITEMS,
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _rows(file: BinaryIO) -> pd.DataFrame:
    table = _opened(file)
    absent = set(COLUMNS) - set(table.schema_arrow.names)
    if absent:
        raise InputError(f"the table lacks the columns {', '.join(sorted(absent))}; it needs {', '.join(COLUMNS)}")
    schema = table.schema_arrow
    texts = [name for name in COLUMNS if name != "optype" and not _is_number(schema.field(name).type)]
    if texts:
        raise InputError(f"the columns {', '.join(texts)} have to be numbers")
    if table.metadata.num_rows > MOST_OPERATIONS:
        raise InputError(f"the table has more than {MOST_OPERATIONS} rows; give fewer steps")
    groups = range(table.metadata.num_row_groups)
    if sum(table.metadata.row_group(each).total_byte_size for each in groups) > LARGEST_TABLE_BYTES:
        raise InputError(f"the table unpacks to more than {LARGEST_TABLE_BYTES >> 30} GiB; give fewer steps")
    # A name that repeats is held once, however long: the stated size counts it once as well.
    rows = _opened(file, ["optype"]).read(columns=list(COLUMNS)).to_pandas(ignore_metadata=True)
    kinds = rows["optype"].dtype
    if not isinstance(kinds, pd.CategoricalDtype) or max(map(len, kinds.categories), default=0) > LONGEST_OPERATION:
        raise InputError(f"optype has to name the operation, with at most {LONGEST_OPERATION} characters")
    return rows.astype({"optype": str, "start_ts": float, "duration": float, **dict.fromkeys(WHOLE, "int64")})
