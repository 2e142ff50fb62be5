"""Several processes read the same as one, and reading survives what happens to them."""

from __future__ import annotations

import gzip
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from tests.tools.sources.kineto_text import JsonEvent, kernel, launch, rank_info, span, trace_text, write_trace
from tools.run.events import DETAIL_COLUMNS, EventTable
from tools.sources.files import Failure, read_files
from tools.sources.kineto.collect import Collected, NeedsCareError, Walk
from tools.sources.kineto.parallel_decode import read_shared
from tools.sources.kineto.reader import read_trace
from tools.sources.kineto.table import assemble
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions, Silent
from tools.sources.trace_file import TraceFile
from tools.sources.workers import LostProcessError, ReadingProcess

SMALL = Limits(slice_bytes=2000)


def events(count: int) -> list[JsonEvent]:
    made: list[JsonEvent] = [{"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": "main"}}]
    for i in range(count):
        at = 1000 + 10 * i
        shape = {"External id": i, "Sequence number": i, "Input Dims": [[i % 7, 3]], "Input type": ["float"]}
        made += [span(f"op{i % 40}", at, 5, args=shape), launch(at + 1, 1, i), kernel(f"k{i % 13}", at + 4, 5, i)]
        made += [{"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": i, "pid": 100, "tid": 100, "ts": at}]
        made += [{"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": i - 1, "pid": 100, "tid": 100, "ts": at}]
    return made


def assert_same(first: EventTable, second: EventTable) -> None:
    pd.testing.assert_frame_equal(first.frame, second.frame)
    pd.testing.assert_frame_equal(first.tracks, second.tracks)
    for name in DETAIL_COLUMNS:
        a, b = getattr(first.details, name), getattr(second.details, name)
        pd.testing.assert_frame_equal(a.astype("object"), b.astype("object"), check_dtype=False)


def alone(path: Path) -> Collected:
    return Walk(path, SMALL).run()


def test_three_processes_read_what_one_reads(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json.gz", events(400), distributedInfo=rank_info(1))

    shared = read_shared(path, SMALL, 3, None)

    assert_same(assemble(shared.columns, 7).table, assemble(alone(path).columns, 7).table)
    assert shared.columns.seen == alone(path).columns.seen == 2001
    assert shared.members["distributedInfo"]["rank"] == 1


def test_every_slice_is_decoded_once(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json", events(300))

    assert len(assemble(read_shared(path, SMALL, 4, None).columns, 7).table) == 900


def test_unsound_text_is_left_to_a_careful_reader(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(trace_text(events(300))[:-100_00])

    with pytest.raises(NeedsCareError):
        read_shared(path, SMALL, 2, None)


def test_a_damaged_large_file_is_read_carefully_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    text = trace_text(events(300))
    path.write_text(text[: text.index('"name": "op7", "pid": 100, "tid": 100, "ts": 2670')])

    read = read_trace(path, "", LoadOptions(workers=2, alone_bytes=0, limits=SMALL))

    assert len(read.table) == 167 * 3
    assert read.facts.status == "partial"
    assert read.facts.cut


def test_progress_is_told_in_bytes_of_the_file(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json", events(300))
    reported: list[tuple[int, int]] = []

    read_shared(path, SMALL, 2, lambda done, total: reported.append((done, total)))

    assert reported[-1] == (path.stat().st_size, path.stat().st_size)


@dataclass(frozen=True)
class Die:
    """A request that ends the process it runs in."""

    def answer(self) -> object:
        os.kill(os.getpid(), signal.SIGKILL)
        return None


def test_the_death_of_a_reading_process_is_noticed() -> None:
    with ReadingProcess() as process:
        process.ask(Die())
        with pytest.raises(LostProcessError):
            process.take()


def test_files_of_many_ranks_are_read_in_other_processes(tmp_path: Path) -> None:
    paths = [
        write_trace(tmp_path / f"{rank}.json", events(50 + rank), distributedInfo=rank_info(rank, 5))
        for rank in range(5)
    ]
    (tmp_path / "bad.json").write_text("nonsense")
    paths.insert(2, tmp_path / "bad.json")

    found = read_files(paths, LoadOptions(workers=2, alone_bytes=0), Silent()).results

    assert [type(each) for each in found] == [TraceFile, TraceFile, Failure, TraceFile, TraceFile, TraceFile]
    for path, each in zip(paths, found, strict=True):
        if isinstance(each, TraceFile):
            assert each.path == path
            assert_same(each.table, assemble(Walk(path, Limits()).run().columns, 7).table)


def test_ranks_read_apart_and_cached_are_the_same_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for rank in range(3):
        write_trace(folder / f"{rank}.json", events(50), distributedInfo=rank_info(rank, 3))

    plain = load_run([folder], LoadOptions(workers=1))
    cold = load_run([folder], LoadOptions(workers=2, alone_bytes=0, cache_dir=tmp_path / "cache"))
    warm = load_run([folder], LoadOptions(workers=2, alone_bytes=0, cache_dir=tmp_path / "cache"))

    assert len(list((tmp_path / "cache").glob("*.run"))) == 3
    for run in (cold, warm):
        assert run.sources == plain.sources
        assert run.layout == plain.layout
        for rank in range(3):
            assert_same(run.rank(rank).events, plain.rank(rank).events)
            assert run.rank(rank).steps == plain.rank(rank).steps


def test_a_large_real_trace_is_read_alike_by_one_and_by_two(traces: Path) -> None:
    path = traces / "kineto" / "resnet50_workers0.pt.trace.json.gz"

    shared = assemble(read_shared(path, Limits(), 2, None).columns, 7)
    single = assemble(Walk(path, Limits()).run().columns, 7)

    assert_same(shared.table, single.table)
    assert len(gzip.decompress(path.read_bytes())) > 30_000_000
