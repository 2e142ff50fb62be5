"""Traces of one rank, recorded one after the other, are one rank with all their steps."""

from __future__ import annotations

from pathlib import Path

from tests.tools.sources.kineto_text import JsonEvent, kernel, launch, rank_info, span, write_trace
from tools.run.events import EventKind
from tools.sources.load import load_run
from tools.sources.options import LoadOptions


def window(first_step: int, start: float) -> list[JsonEvent]:
    events = []
    for number in range(2):
        at = start + 100 * number
        events += [
            span(f"ProfilerStep#{first_step + number}", at, 100, "user_annotation"),
            span(f"op{first_step}", at + 1, 20, args={"External id": 5, "Sequence number": number}),
            launch(at + 5, 2, 1 + number),
            kernel("gemm", at + 30, 40, 1 + number, grid=[2, 1, 1], block=[64, 1, 1]),
        ]
    return events


def test_later_steps_of_a_rank_are_appended(tmp_path: Path) -> None:
    write_trace(tmp_path / "second.json", window(10, 5000), distributedInfo=rank_info(0))
    write_trace(tmp_path / "first.json", window(3, 1000), distributedInfo=rank_info(0))

    run = load_run([tmp_path], LoadOptions(workers=1))

    (rank,) = run.ranks
    frame = rank.events.frame
    assert [(step.number, step.start_ns, step.end_ns) for step in rank.steps] == [
        (3, 0, 100_000),
        (4, 100_000, 200_000),
        (10, 4_000_000, 4_100_000),
        (11, 4_100_000, 4_200_000),
    ]
    assert len(frame) == 16
    assert frame["start_ns"].is_monotonic_increasing
    assert [source.status for source in run.sources] == ["complete", "complete"]


def test_ids_of_different_files_stay_apart(tmp_path: Path) -> None:
    write_trace(tmp_path / "second.json", window(10, 5000), distributedInfo=rank_info(0))
    write_trace(tmp_path / "first.json", window(3, 1000), distributedInfo=rank_info(0))

    table = load_run([tmp_path], LoadOptions(workers=1)).ranks[0].events

    kernels = table.of_kind(EventKind.KERNEL)
    assert kernels["correlation"].is_unique
    calls = table.of_kind(EventKind.RUNTIME).set_index("correlation")["start_ns"]
    assert (kernels["start_ns"] - kernels["correlation"].map(calls)).unique().tolist() == [25_000]
    assert table.frame["kind"].to_numpy()[table.details.kernels["row"]].tolist() == [EventKind.KERNEL] * 4
    assert table.details.kernels["blocks"].tolist() == [2, 2, 2, 2]
    names = table.frame["name"].astype(str).to_numpy()[table.details.operators["row"]]
    assert names.tolist() == ["op3", "op3", "op10", "op10"]
    assert len(table.tracks) == 2


def test_another_start_of_the_training_is_left_out_and_told(tmp_path: Path) -> None:
    for name, pid, first_step, start in (("first.json", 900, 3, 1000.0), ("second.json", 901, 10, 5000.0)):
        events = [{**each, "pid": pid} if each["cat"] != "kernel" else each for each in window(first_step, start)]
        lane = span("PyTorch Profiler (0)", start, 10, "Trace", pid="Spans", tid="PyTorch Profiler")
        write_trace(tmp_path / name, [lane, *events], distributedInfo=rank_info(0))

    run = load_run([tmp_path], LoadOptions(workers=1))

    assert [step.number for step in run.ranks[0].steps] == [3, 4]
    assert [source.status for source in run.sources] == ["complete", "excluded"]
    assert "another start of the training" in run.sources[1].note
