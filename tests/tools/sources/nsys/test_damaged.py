"""Damaged, foreign and hostile exports end with one sentence, and no export is ever written to."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.sources.nsys.export import KERNEL, Export, training
from tools.errors import InputError
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.options import LoadOptions

EXAMPLES = 60
LONGEST_SENTENCE = 400
SIZE = 65_536  # at least the size of the export below


def loaded(path: Path) -> Run:
    return load_run([path], LoadOptions(workers=1))


@cache
def whole() -> bytes:
    """An export with every table that is read."""
    export = training(steps=1)
    export.sampled(0, "SMs Active [Throughput %]", 1, [50, 60])
    export.memory(500, 0, 10, 1 << 20)
    export.off_cpu(500, 100, 200)
    export.schema(7, ("NCCL communicator ID", 0), ("Message size [bytes]", 8))
    export.called(500, "ncclAllReduce", 68, 78, 7, bytes(16))
    with TemporaryDirectory() as folder:
        return export.write(Path(folder) / "a.sqlite").read_bytes()


def outcome(data: bytes) -> str:
    """What reading the bytes gives: the sentence of the error, or "" where they are read."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "damaged.sqlite"
        path.write_bytes(data)
        try:
            loaded(path)
        except InputError as error:
            return str(error)
    return ""


def is_one_sentence(text: str) -> bool:
    return "damaged.sqlite" in text and "\n" not in text and len(text) < LONGEST_SENTENCE


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.integers(0, SIZE))
def test_an_export_cut_at_any_byte_ends_with_one_sentence(size: int) -> None:
    assert is_one_sentence(outcome(whole()[: min(size, len(whole()) - 1)]))


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, 255)), min_size=1, max_size=40))
def test_an_export_with_changed_bytes_is_read_or_ends_with_one_sentence(changes: list[tuple[int, int]]) -> None:
    data = bytearray(whole())
    for at, value in changes:
        data[at % len(data)] = value
    text = outcome(bytes(data))
    assert text == "" or is_one_sentence(text)


def test_reading_writes_nothing_even_where_the_file_asks_for_a_log(tmp_path: Path) -> None:
    """A file in WAL mode makes SQLite create two files next to it, unless it is opened as immutable."""
    path = training(ranks=1).write(tmp_path / "a.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before, data = sorted(tmp_path.iterdir()), path.read_bytes()
    assert data[18] == 2  # the header says WAL
    assert len(loaded(path).ranks) == 1
    assert sorted(tmp_path.iterdir()) == before
    assert path.read_bytes() == data


def test_views_and_triggers_of_the_file_are_not_run(tmp_path: Path) -> None:
    path = training(ranks=1).write(tmp_path / "a.sqlite", without=[KERNEL])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE VIEW {KERNEL} AS SELECT 1 AS start, 2 AS end, 0 AS deviceId, 7 AS streamId")
        connection.commit()
    run = loaded(path)
    assert "kernels" not in " ".join(run.notes)
    assert len(run.ranks[0].events.details.kernels) == 0


@pytest.mark.parametrize(
    ("version", "stated"),
    [("3.25.0", ""), ("3.16.1", ""), ("2.7.1", ""), ("3.26.0", "3.26.0"), ("4.0.0", "4.0.0"), ("x", "version x")],
)
def test_a_schema_version_outside_of_the_known_range_is_stated(tmp_path: Path, version: str, stated: str) -> None:
    export = training(ranks=1)
    export.rows["META_DATA_EXPORT"] = []
    export.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value=version)
    (source,) = loaded(export.write(tmp_path / "a.sqlite")).sources
    assert ("is not known" in source.note) == bool(stated)
    assert stated in source.note


def test_processes_that_share_a_device_and_one_that_uses_two_stay_apart(tmp_path: Path) -> None:
    export = Export()
    for pid, device, start in ((500, 0, 0), (501, 0, 100), (502, 1, 0), (502, 2, 50)):
        export.launched(pid, device, start, start + 10, start + 40, f"kernel of {pid} on {device}")
    run = loaded(export.write(tmp_path / "a.sqlite"))
    names = [
        sorted(rank.events.frame["name"].astype(str)[lambda each: each.str.startswith("kernel")]) for rank in run.ranks
    ]
    assert names == [["kernel of 500 on 0"], ["kernel of 501 on 0"], ["kernel of 502 on 1", "kernel of 502 on 2"]]
    devices = [sorted(set(rank.events.tracks["device"]) - {-1}) for rank in run.ranks]
    assert devices == [[0], [0], [1, 2]]
