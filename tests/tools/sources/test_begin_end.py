"""Durations written as begin and end events, and device work of profilers whose categories are not known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools.sources.kineto_text import HOST, THREAD, JsonEvent, kernel, span, write_trace
from tools.run.events import EventKind
from tools.sources.kineto.begin_end import END, Edges, pair
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions

ALONE = LoadOptions(workers=1)


def edge(phase: str, name: str, ts: float, thread: int = THREAD, **more: object) -> JsonEvent:
    return {"ph": phase, "cat": "cpu_op", "name": name, "pid": HOST, "tid": thread, "ts": ts, **more}


def spans(path: Path, options: LoadOptions = ALONE) -> list[tuple[str, int, int]]:
    frame = load_run([path], options).ranks[0].events.frame
    return list(zip(frame["name"].astype(str), frame["start_ns"], frame["end_ns"] - frame["start_ns"], strict=True))


def test_nested_begins_and_ends_are_spans(tmp_path: Path) -> None:
    events = [
        edge("B", "outer", 10),
        edge("B", "inner", 12),
        edge("B", "elsewhere", 13, thread=7),
        edge("E", "", 15),
        edge("E", "elsewhere", 30, thread=7),
        edge("E", "outer", 20),
        span("whole", 11, 1),
    ]
    assert spans(write_trace(tmp_path / "t.json", events)) == [
        ("outer", 0, 10_000),
        ("whole", 1_000, 1_000),
        ("inner", 2_000, 3_000),
        ("elsewhere", 3_000, 17_000),
    ]


def test_what_never_ends_or_never_began_is_left_out_and_said(tmp_path: Path) -> None:
    events = [edge("E", "before", 5), edge("B", "lost", 6), edge("B", "a", 10), edge("E", "a", 12), span("x", 6, 8)]
    run = load_run([write_trace(tmp_path / "t.json", events)], ALONE)
    assert set(run.ranks[0].events.frame["name"]) == {"a", "x"}
    (source,) = run.sources
    assert "1 event that begin and never end was left out" in source.note
    assert "1 event that end and never began was left out" in source.note


def test_an_end_closes_what_was_begun_under_its_name(tmp_path: Path) -> None:
    events = [edge("B", "outer", 0), edge("B", "lost", 1), edge("E", "outer", 9), edge("B", "next", 10)]
    events += [edge("E", "next", 10)]
    assert spans(write_trace(tmp_path / "t.json", events)) == [("outer", 0, 9_000), ("next", 10_000, 0)]


def test_begins_and_ends_in_many_slices_and_for_many_readers(tmp_path: Path) -> None:
    events = [
        each for at in range(2_000) for each in (edge("B", f"op{at % 7}", 10.0 * at), edge("E", "", 10.0 * at + 4))
    ]
    path = write_trace(tmp_path / "t.json", events)
    small = Limits(slice_bytes=10_000)
    expected = [(f"op{at % 7}", 10_000 * at, 4_000) for at in range(2_000)]
    assert spans(path, LoadOptions(workers=1, limits=small)) == expected
    assert spans(path, LoadOptions(workers=2, limits=small, alone_bytes=1)) == expected


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20), st.integers(0, 2)), max_size=30))
def test_properly_nested_spans_come_back(made: list[tuple[int, int, int]]) -> None:
    """Spans laid one after the other on each of three tracks."""
    edges, expected, free = Edges(), {}, {0: 0, 1: 0, 2: 0}
    for row, (gap, length, track) in enumerate(made):
        start = free[track] + gap
        free[track] = start + length
        edges.add([row, END], [start, start + length], [track, track], ["a", ""])
        expected[row] = start + length
    pairs = pair(edges)
    assert dict(zip(pairs.rows.tolist(), pairs.ends_ns.tolist(), strict=True)) == expected
    assert len(pairs.open_rows) == pairs.lone_ends == 0


DEVICE = 800


def of_device(process: str, lane: str, events: list[JsonEvent], label: str = "") -> list[JsonEvent]:
    named: list[JsonEvent] = [
        {"ph": "M", "name": "process_name", "pid": DEVICE, "tid": 0, "args": {"name": process}},
        {"ph": "M", "name": "thread_name", "pid": DEVICE, "tid": 3, "args": {"name": lane}},
    ]
    if label:
        named.append({"ph": "M", "name": "process_labels", "pid": DEVICE, "tid": 0, "args": {"labels": label}})
    return [*named, *events]


def work(name: str, ts: float, dur: float, **more: object) -> JsonEvent:
    return {"ph": "X", "name": name, "pid": DEVICE, "tid": 3, "ts": ts, "dur": dur, **more}


@pytest.mark.parametrize(
    ("process", "label", "lane", "kinds"),
    [
        ("Ascend Hardware", "NPU", "Stream 3", [EventKind.KERNEL, EventKind.MEMCPY]),
        ("/device:GPU:0", "", "Stream #3(Compute)", [EventKind.KERNEL, EventKind.MEMCPY]),
        ("/device:TPU:0", "", "XLA Modules", [EventKind.DEVICE_ANNOTATION, EventKind.DEVICE_ANNOTATION]),
        ("chip", "XPU 1", "queue 3", [EventKind.KERNEL, EventKind.MEMCPY]),
        ("Overlap Analysis", "NPU", "Computing", [EventKind.OTHER, EventKind.OTHER]),
        ("python", "CPU", "thread 3", [EventKind.OTHER, EventKind.OTHER]),
        ("/device:CPU:0", "", "thread 3", [EventKind.OTHER, EventKind.OTHER]),
    ],
)
def test_unknown_categories_on_a_device_are_its_work(
    tmp_path: Path, process: str, label: str, lane: str, kinds: list[EventKind]
) -> None:
    events = of_device(process, lane, [work("MatMul", 10, 4), work("memcpy_async HtoD", 15, 2)], label)
    run = load_run([write_trace(tmp_path / "t.json", [span("aten::mm", 9, 1), *events])], ALONE)
    table = run.ranks[0].events
    assert table.frame["kind"].tolist() == [EventKind.OPERATOR, *kinds]
    is_device = kinds[0] != EventKind.OTHER
    assert run.has_device == is_device
    if is_device:
        tracks = table.tracks.iloc[np.unique(table.frame["track"].to_numpy()[1:])]
        assert tracks["device"].tolist() == [0]
        assert tracks["stream"].tolist() == ([3] if "3" in lane else [-1])


def test_where_device_work_is_known_unknown_categories_stay_unknown(tmp_path: Path) -> None:
    events = [kernel("gemm", 10, 5, 1), *of_device("GPU 0", "lane 3", [work("mystery", 12, 1)])]
    frame = load_run([write_trace(tmp_path / "t.json", events)], ALONE).ranks[0].events.frame
    assert frame["kind"].tolist() == [EventKind.KERNEL, EventKind.OTHER]
