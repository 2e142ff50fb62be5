"""A summary comes back from its file as it was, or is said to be damaged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pytest
from isal import isal_zlib

from tools.run.packing import PREFIX_BYTES, DamagedError, pack_frames, read_header
from tools.sources.options import Limits, LoadOptions
from tools.sources.registry import trace_format
from tools.summaries.file import decode, encode, file_name, key_of
from tools.summaries.folder import LocalFolder, cached
from tools.summaries.record import SUMMARY_VERSION, TABLES, RankSummary, TableName
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


def packed(tables: Mapping[str, pd.DataFrame], facts: object, version: int = SUMMARY_VERSION) -> bytes:
    """A file with these tables and facts."""
    return bytes(isal_zlib.compress(b"".join(pack_frames(tables, version, KEY, msgspec.json.encode(facts)))))


def coded(codes: list[int], texts: list[str]) -> pd.Categorical:
    return pd.Categorical.from_codes(np.array(codes, dtype=np.int8), pd.Index(texts, dtype="str"), validate=False)


def test_columns_that_are_not_those_of_a_summary_are_damaged(summaries: list[RankSummary]) -> None:
    tables: dict[str, pd.DataFrame] = {name: summaries[0].table(name) for name in TABLES}
    facts, steps, stalls = summaries[0].facts, tables["steps"], tables["stalls"].iloc[:1]
    assert len(decode(packed(tables, facts), KEY).steps) == len(steps)
    wrong: list[tuple[TableName, pd.DataFrame]] = [
        ("steps", steps.drop(columns="idle_ns")),
        ("steps", steps.assign(more=1)),
        ("steps", steps.assign(idle_ns=0.5)),
        ("steps", pd.DataFrame()),
        ("stalls", stalls.assign(before=coded([-1], ["a"]))),
        ("stalls", stalls.assign(before="text")),
    ]
    for name, table in wrong:
        with pytest.raises(DamagedError, match=f" {name} "):
            decode(packed(tables | {name: table}, facts), KEY)
    with pytest.raises(DamagedError, match="facts"):
        decode(packed(tables, {"path": 1}), KEY)
    with pytest.raises(DamagedError, match="version"):
        decode(packed(tables, facts, SUMMARY_VERSION + 1), KEY)


def forged(data: bytes, old: bytes, new: bytes) -> bytes:
    """The file with other bytes of the same length in one array, and checksums that fit."""
    plain = isal_zlib.decompress(data)
    header = read_header(memoryview(plain))
    start = plain.index(old)
    plain = plain[:start] + new + plain[start + len(old) :]
    base = PREFIX_BYTES + int.from_bytes(plain[16:24], "little")
    arrays = []
    for each in header.arrays:
        own = plain[base + each.offset : base + each.offset + each.count * np.dtype(each.dtype).itemsize]
        arrays.append(msgspec.structs.replace(each, crc=isal_zlib.crc32(own) if own else 0))
    text = msgspec.json.encode(msgspec.structs.replace(header, arrays=arrays)).ljust(base - PREFIX_BYTES)
    prefix = plain[:16] + len(text).to_bytes(8, "little") + isal_zlib.crc32(text).to_bytes(4, "little")
    return bytes(isal_zlib.compress(prefix + text[: base - PREFIX_BYTES] + plain[base:]))


def test_a_forged_file_is_damaged(summaries: list[RankSummary]) -> None:
    tables: dict[str, pd.DataFrame] = {name: summaries[0].table(name) for name in TABLES}
    stalls = tables["stalls"].iloc[:1].assign(before=coded([1], ["first one", "other one"]))
    data = packed(tables | {"stalls": stalls}, summaries[0].facts)
    assert decode(forged(data, b"other one", b"other two"), KEY).stalls["before"].tolist() == ["other two"]
    whole = b'["first one", "other one"]'
    for wrong in (b'["first one", "first one"]', b'["first one"]', b"[" * 26, b"7", b'{"first one": "other one"}'):
        with pytest.raises(DamagedError):
            decode(forged(data, whole, wrong.ljust(len(whole))), KEY)


def test_what_expands_beyond_any_summary_or_goes_on_is_damaged(
    summaries: list[RankSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = encode(summaries[0], KEY)
    with pytest.raises(DamagedError, match="too late"):
        decode(data + b"more", KEY)
    monkeypatch.setattr("tools.summaries.file.MOST_BYTES", 1000)
    with pytest.raises(DamagedError, match="too early"):
        decode(data, KEY)


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
    assert [path.name for path in folder.path.iterdir()] == [f"{KEY}.summary"]
