"""A packed table is the table that was packed, or refused."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tools.run.events import DETAIL_COLUMNS, EventTable
from tools.run.packing import DamagedError, pack, read_header, unpack
from tools.sources.files import TraceCache
from tools.sources.kineto.reader import read_trace
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions

REAL = ("hta/amd_trace.json.gz", "hta/cpu_only.json.gz", "param/dlrm_8rank/worker1.pt.trace.json.gz")


def real_table(traces: Path, name: str) -> EventTable:
    return load_run([traces / name], LoadOptions(workers=1)).ranks[0].events


def packed(table: EventTable) -> bytes:
    return b"".join(pack(table, 1, "key", b'{"a":1}'))


@pytest.mark.parametrize("name", REAL)
def test_every_column_comes_back(traces: Path, name: str) -> None:
    table = real_table(traces, name)
    data = memoryview(packed(table))

    header = read_header(data)
    found = unpack(data, header)

    assert (header.version, header.key, bytes(header.about)) == (1, "key", b'{"a":1}')
    pd.testing.assert_frame_equal(found.frame, table.frame)
    pd.testing.assert_frame_equal(found.tracks, table.tracks)
    for detail in DETAIL_COLUMNS:
        pd.testing.assert_frame_equal(
            getattr(found.details, detail), getattr(table.details, detail), check_categorical=False, check_dtype=False
        )


def test_no_changed_byte_goes_unnoticed(traces: Path) -> None:
    table = real_table(traces, REAL[0])
    whole = packed(table)

    for at in range(0, len(whole), 97):
        changed = bytearray(whole)
        changed[at] ^= 0x55
        data = memoryview(bytes(changed))
        try:
            found = unpack(data, read_header(data))
        except DamagedError:
            continue
        pd.testing.assert_frame_equal(found.frame, table.frame)  # a byte of padding
        pd.testing.assert_frame_equal(found.tracks, table.tracks)


def test_a_cut_table_is_refused(traces: Path) -> None:
    whole = packed(real_table(traces, REAL[0]))

    for size in range(0, len(whole) - 64, 501):
        data = memoryview(whole[:size])
        with pytest.raises(DamagedError):
            unpack(data, read_header(data))


def test_a_table_of_another_reader_version_is_not_used(traces: Path, tmp_path: Path) -> None:
    cache = TraceCache(tmp_path, Limits())
    cache.file("key").write_bytes(b"".join(pack(real_table(traces, REAL[0]), 0, "key", b"{}")))

    assert cache.get(Path("a.json"), "key") is None


def test_two_writers_of_one_entry_leave_a_whole_one(traces: Path, tmp_path: Path) -> None:
    path = traces / REAL[0]
    trace = read_trace(path, "key", LoadOptions(workers=1))
    first, second = TraceCache(tmp_path, Limits()), TraceCache(tmp_path, Limits())

    assert first.put(trace)
    held = first.get(path, "key")
    assert second.put(trace)
    again = second.get(path, "key")

    assert held is not None
    assert again is not None
    pd.testing.assert_frame_equal(held.table.frame, again.table.frame)
    assert list(tmp_path.iterdir()) == [first.file("key")]
