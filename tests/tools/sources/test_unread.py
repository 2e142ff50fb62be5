"""Files that look like a profile or a log and that nobody reads are named, with what they lack."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hermes_agent.model.request import Request
from hermes_agent.report.text import render_text
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.job_log.logs import megatron
from tools.errors import InputError
from tools.sources.inventory import take_inventory
from tools.sources.options import Limits
from tools.sources.unread import MOST_LOOKED_AT, looks_like, unread_line

OPERATIONS = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id", "mc", "gmc")


def tables(path: Path, *names: str) -> None:
    connection = sqlite3.connect(path)
    for name in names:
        connection.execute(f"CREATE TABLE {name} (start INTEGER)")
    connection.commit()
    connection.close()


def columns(path: Path, *names: str) -> None:
    pq.write_table(pa.table({name: [0] for name in names}), path)


@pytest.mark.parametrize(
    ("name", "write", "said"),
    [
        ("a.sqlite", lambda path: tables(path, "CUPTI_ACTIVITY_KIND_KERNEL"), "export, but table StringIds is absent"),
        (
            "a.sqlite",
            lambda path: tables(path, "StringIds", "ThreadNames"),
            "KIND_RUNTIME and all others",
        ),
        ("a.db", lambda path: tables(path, "STRING_IDS", "TASK"), "database of an Ascend profiler, but its tables"),
        ("a.db", lambda path: tables(path, "rocpd_kernel_dispatch_1"), "a database of rocprofv3"),
        ("a.db", lambda path: tables(path, "users"), "a SQLite file, but without StringIds"),
        ("a.parquet", lambda path: columns(path, *OPERATIONS[:-2]), "StragglerAnalysis table, but columns mc, gmc are"),
        ("a.parquet", lambda path: columns(path, "x", "y"), "its columns (x, y) are not those of StragglerAnalysis"),
        ("a.parquet", lambda path: path.write_bytes(b"PAR1 cut"), "it is cut or damaged"),
        ("a.pkl", lambda path: path.write_bytes(pickle.dumps({"a": 1})), "a pickle, but neither a flight recorder's"),
        ("a.pb", lambda path: path.write_bytes(b"\x0a\x05hello"), "not the planes of XProf"),
        ("a.nsys-rep", lambda path: path.write_bytes(b"report"), "`nsys export --type sqlite`"),
        ("trace.json", lambda path: path.write_text('{"events": [{"ph": "X"}]}'), "no list of `traceEvents`"),
        ("worker.log", lambda path: path.write_text("started\n"), "no line with a step and its time"),
        ("gpu_metrics.csv", lambda path: path.write_text("one,two\n1,2\n"), "its columns (one, two) are of no known"),
    ],
)
def test_what_a_file_is_and_lacks_is_said(tmp_path: Path, name: str, write: Callable[[Path], None], said: str) -> None:
    path = tmp_path / name
    write(path)
    assert said in looks_like(path)


@pytest.mark.parametrize("name", ["train.py", "README.md", "config.json", "model.pt", "notes.csv", "empty.log"])
def test_programs_documents_weights_and_empty_files_are_no_profiles(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(pickle.dumps({"a": 1}) if name == "model.pt" else b"" if name == "empty.log" else b'{"a": 1}\n')
    assert looks_like(path) == ""


def test_many_files_are_one_bounded_line_with_the_nearly_known_ones_first(tmp_path: Path) -> None:
    files = []
    for at in range(40):
        files.append(tmp_path / f"a{at:02d}.log")
        files[-1].write_text("hello\n")
    files.append(tmp_path / "z.parquet")
    columns(files[-1], *OPERATIONS[1:])
    line = unread_line(files)
    assert line.startswith("Not read: z.parquet (looks like a StragglerAnalysis table, but columns dp_rank are absent)")
    assert line.endswith("; and 38 more")
    assert len(line) < 700
    assert len(files) < MOST_LOOKED_AT


def test_the_short_answer_names_unread_files_of_the_folder_and_no_others(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "train.log").write_text(megatron(*((step, 500.0) for step in range(1, 41))))
    columns(folder / "x.parquet", "x")
    tables(folder / "y.sqlite", "NVTX_EVENTS")
    found = diagnose(Request(paths=(folder,), cache_dir=tmp_path / "cache"), lambda _: None)
    text = " ".join(render_text(found).split())
    assert "Not read: y.sqlite (looks like an Nsight Systems export, but table StringIds is absent;" in text
    assert "x.parquet (a Parquet table" in text
    assert "train.log (" not in text
    assert found.run.unread in found.run.notes


def test_a_folder_with_nothing_that_can_be_read_says_what_lies_there(tmp_path: Path) -> None:
    tables(tmp_path / "y.sqlite", "NVTX_EVENTS")
    with pytest.raises(InputError, match=r"no trace there.*y\.sqlite \(looks like an Nsight Systems export"):
        take_inventory([tmp_path], Limits())
