"""A summary comes back from its file as it was, or is said to be damaged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tools.run.packing import DamagedError
from tools.sources.options import Limits, LoadOptions
from tools.sources.registry import trace_format
from tools.summaries.file import MEMBER, decode, encode, file_name, key_of
from tools.summaries.folder import LocalFolder, cached
from tools.summaries.record import TABLES, RankSummary
from tools.summaries.summarize import summarize

NAMES = ("param/dlrm_8rank/worker2.pt.trace.json.gz", "hta/cpu_only.json.gz", "real/deepseek_dualpipe_h800.json.gz")
KEY = key_of("digest", Limits())


@pytest.fixture(scope="module")
def summaries(traces: Path) -> list[RankSummary]:
    """Summaries of recorded traces: of a rank with a device, of one without, and with empty tables."""
    options = LoadOptions(workers=1)
    return [summarize(trace_format(traces / n).read(traces / n, "digest", options, None)) for n in NAMES]


def test_everything_comes_back_and_equal_summaries_are_equal_bytes(summaries: list[RankSummary]) -> None:
    for summary in summaries:
        data = encode(summary, KEY)
        read = decode(data, KEY)
        assert read.facts == summary.facts
        for name in TABLES:
            pd.testing.assert_frame_equal(read.table(name), summary.table(name))
        assert encode(read, KEY) == data


def test_only_the_tables_that_are_wanted_are_read(summaries: list[RankSummary]) -> None:
    read = decode(encode(summaries[0], KEY), KEY, ("steps",))
    pd.testing.assert_frame_equal(read.steps, summaries[0].steps)
    assert len(summaries[0].collectives) > 0
    assert len(read.collectives) == 0
    assert read.collectives.dtypes.astype("str").to_dict() == TABLES["collectives"]


def test_a_cut_or_changed_file_is_damaged(summaries: list[RankSummary]) -> None:
    data = encode(summaries[0], KEY)
    for size in (0, 3, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(DamagedError):
            decode(data[:size], KEY)
    noticed = 0
    for place in range(4, len(data), len(data) // 60):
        changed = data[:place] + bytes([data[place] ^ 0x5A]) + data[place + 1 :]
        try:
            read = decode(changed, KEY)
        except DamagedError:
            noticed += 1
        else:  # a byte that means nothing, such as one of the writer's name
            pd.testing.assert_frame_equal(read.collectives, summaries[0].collectives)
            pd.testing.assert_frame_equal(read.steps, summaries[0].steps)
    assert noticed > 0


def test_a_file_of_another_trace_is_not_taken(summaries: list[RankSummary]) -> None:
    with pytest.raises(DamagedError, match="another trace"):
        decode(encode(summaries[0], KEY), key_of("other", Limits()))


def changed(data: bytes, column: str, values: pa.Array[Any]) -> bytes:
    """The file with another list in that column."""
    table = pq.read_table(pa.BufferReader(data))
    place = table.schema.get_field_index(column)
    lists = pa.ListArray.from_arrays(pa.array([0, len(values)], type=pa.int32()), values)
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(place, table.schema.field(place), lists), sink)
    return bytes(sink.getvalue())


def test_columns_that_contradict_each_other_are_damaged(summaries: list[RankSummary]) -> None:
    data = encode(summaries[0], KEY)
    codes = len(summaries[0].collectives)
    wrong: dict[str, pa.Array[Any]] = {
        "collectives.kind": pa.array([99] * codes, type=pa.int32()),
        "collectives.group": pa.array([-1] * codes, type=pa.int32()),
        "collectives.kind#": pa.array(["all_reduce", "all_reduce"]),
        "collectives.start_ns": pa.array([1], type=pa.int64()),
        "steps.idle_ns": pa.array([None], type=pa.int64()),
    }
    for column, values in wrong.items():
        with pytest.raises(DamagedError):
            decode(changed(data, column, values), KEY)


def test_a_parquet_file_of_something_else_is_no_summary(summaries: list[RankSummary]) -> None:
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1, 2]})
    pq.write_table(table.replace_schema_metadata({MEMBER: msgspec.json.encode({"version": 1})}), sink)
    with pytest.raises(DamagedError, match="columns"):
        decode(bytes(sink.getvalue()), KEY)


def test_the_oldest_summaries_of_a_cache_go_first(tmp_path: Path) -> None:
    folder = cached(tmp_path)
    for age, name in enumerate("abc"):
        folder.write(file_name(name), bytes(10))
        os.utime(folder.path / file_name(name), (age, age))
    assert {path.stem for path in cached(tmp_path, 30).path.iterdir()} == {"a", "b", "c"}
    assert {path.stem for path in cached(tmp_path, 20).path.iterdir()} == {"b", "c"}


def test_a_folder_gives_what_it_was_given(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path / "made" / "when_needed")
    assert folder.read(file_name(KEY)) is None
    folder.write(file_name(KEY), b"data")
    assert folder.read(file_name(KEY)) == b"data"
    assert [path.name for path in folder.path.iterdir()] == [f"{KEY}.parquet"]
