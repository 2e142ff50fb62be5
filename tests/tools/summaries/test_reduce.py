"""The map over the traces of a run: every rank once, whatever happens to the workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from evals.benchmarks.many_ranks import ManyRanks, write
from tools.sources.options import LoadOptions, Silent
from tools.sources.workers import Request
from tools.summaries.executor import Executor, LocalProcesses
from tools.summaries.file import ALL, encode
from tools.summaries.folder import LocalFolder, RefusedError, SecondFolder
from tools.summaries.reduce import Reduced, SummaryFile, read_summary, reduce_traces

RUN = ManyRanks(ranks=6, per_host=2, steps=1, layers=1, straggler=2)
TWO = LocalProcesses(2)


class Here:
    """Answers requests in this process."""

    def map(self, requests: Sequence[Request]) -> Iterator[tuple[int, object]]:
        """Yield place and answer, in order."""
        return ((place, request.answer()) for place, request in enumerate(requests))


HERE = Here()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """The traces of six ranks."""
    return write(RUN, tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def whole(run: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalFolder, Reduced]:
    """The summaries of all ranks, made without any trouble."""
    folder = LocalFolder(tmp_path_factory.mktemp("summaries"))
    return folder, reduced(run, folder, TWO)


def reduced(traces: Sequence[Path], folder: LocalFolder, executor: Executor = HERE) -> Reduced:
    """What becomes of these traces."""
    return reduce_traces(traces, folder, executor, LoadOptions(), Silent())


def contents(folder: LocalFolder) -> dict[str, bytes]:
    """The files of a folder."""
    return {path.name: path.read_bytes() for path in folder.path.iterdir()}


def test_each_rank_has_its_summary(run: tuple[Path, ...], whole: tuple[LocalFolder, Reduced]) -> None:
    folder, result = whole
    assert [file.trace for file in result.summaries] == list(run)
    assert all(file.made for file in result.summaries)
    assert not result.failures
    ranks = [read_summary(folder, file).facts.trace.metadata.rank for file in result.summaries]
    assert ranks == list(range(6))
    assert len(contents(folder)) == 6


def test_what_was_made_before_is_taken_and_a_damaged_summary_is_made_again(
    run: tuple[Path, ...], whole: tuple[LocalFolder, Reduced], tmp_path: Path
) -> None:
    before, folder = contents(whole[0]), LocalFolder(tmp_path)
    first = reduced(run[:4], folder)
    damaged = next(file for file in first.summaries if file.trace == run[1])
    (tmp_path / f"{damaged.key}.summary").write_bytes(before[f"{damaged.key}.summary"][:-9])

    again = reduced(run, folder)

    assert [file.made for file in again.summaries] == [False, True, False, False, True, True]
    assert len(again.notes) == 1
    assert again.notes[0].startswith("the summary of rank1.pt.trace.json.gz was damaged")
    assert contents(folder) == before


@dataclass(frozen=True)
class KillsWorkers:
    """Kills the processes of this one in the middle of the work, once."""

    killed: list[int]

    def update(self, stage: str, done: int, total: int, detail: str) -> None:
        """Kill all workers when the first summary is there."""
        if not self.killed:
            for child in psutil.Process().children():
                child.send_signal(signal.SIGKILL)
                self.killed.append(child.pid)


def test_a_killed_worker_is_replaced_and_its_rank_tried_again(
    run: tuple[Path, ...], whole: tuple[LocalFolder, Reduced], tmp_path: Path
) -> None:
    folder, killer = LocalFolder(tmp_path), KillsWorkers([])

    result = reduce_traces(run, folder, TWO, LoadOptions(), killer)

    assert len(killer.killed) >= 2
    assert not result.failures
    assert contents(folder) == contents(whole[0])


@dataclass(frozen=True)
class KillsOnWrite(LocalFolder):
    """A folder at which the process dies that brings the summary of one file."""

    deadly: str = ""

    def write(self, name: str, data: bytes) -> None:
        """Die, or write."""
        if name == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(name, data)


def test_a_rank_that_always_kills_its_reader_is_listed_and_the_others_are_made(
    run: tuple[Path, ...], whole: tuple[LocalFolder, Reduced], tmp_path: Path
) -> None:
    deadly = whole[1].summaries[3]
    folder = KillsOnWrite(tmp_path, f"{deadly.key}.summary")

    result = reduced(run, folder, LocalProcesses(1))

    assert [failure.path for failure in result.failures] == [run[3]]
    assert "killed" in result.failures[0].reason
    assert [file.trace for file in result.summaries] == [trace for trace in run if trace != run[3]]


def test_a_trace_that_cannot_be_read_is_listed_with_its_reason(run: tuple[Path, ...], tmp_path: Path) -> None:
    empty, folder = tmp_path / "rank6.json", LocalFolder(tmp_path / "summaries")
    empty.write_text("")
    result = reduced((run[0], empty, tmp_path / "gone.json"), folder)
    assert [file.trace for file in result.summaries] == [run[0]]
    assert [failure.path.name for failure in result.failures] == ["rank6.json", "gone.json"]
    assert "is empty" in result.failures[0].reason


def test_a_folder_that_takes_nothing_is_named(run: tuple[Path, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedError, match=r"file: takes no file; check its permissions and the space left"):
        reduced(run[:1], LocalFolder(tmp_path / "file"))


def test_of_two_folders_both_are_read_and_the_second_is_written(tmp_path: Path) -> None:
    first, second = LocalFolder(tmp_path / "first"), LocalFolder(tmp_path / "second")
    first.write("a", b"1")
    both = SecondFolder(first, second)
    both.write("b", b"2")
    assert (both.read("a"), both.read("b"), both.read("c"), first.read("b")) == (b"1", b"2", None, None)
    (tmp_path / "first" / "d").mkdir()  # cannot be read
    assert both.read("d") is None


def test_reading_again_gives_what_was_written(run: tuple[Path, ...], whole: tuple[LocalFolder, Reduced]) -> None:
    folder, result = whole
    file: SummaryFile = result.summaries[4]
    summary = read_summary(folder, file, ALL)
    assert summary.facts.path == str(run[4])
    assert encode(summary, file.key) == contents(folder)[f"{file.key}.summary"]
