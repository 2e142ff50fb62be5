"""The monitor's tables are built once over all ranks; here they are held against a row by row construction."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hermes_agent.monitor.format import FIELDS, PREAMBLE, SCHEMA, STEPS_MAGIC, Description, Workload
from tools.run.recorded.records import MonitorRecords
from tools.sources.monitor.events import SAMPLE_ROW, Capture
from tools.sources.monitor.reader import read_monitor

CODES = {"Q": "<u8", "q": "<i8", "I": "<u4", "i": "<i4"}
UNKNOWN = 0xFFFFFFFF
NEWER = ("voluntary_switches", "involuntary_switches", "major_faults")
BIGGEST = (1 << 62) - 1
NO_WORKLOAD = Workload()
TOLD_NOTHING = Workload(batch_size=0, flops_per_step=3e12, peak_flops_per_s=0.0)
Row = dict[str, Any]


def step_row(rng: np.random.Generator, number: int) -> Row:
    row = {name: int(rng.integers(0, 50_000)) for name, _ in FIELDS}
    row |= {"sequence": number, "step": number, "end_unix_ns": 1_700_000_000_000_000_001 + number}
    row |= {"flags": int(rng.integers(0, 8)), "samples": number % 3, "wall_us": (number % 5 + 1) * 1001}
    row |= {name: number % 4 - 1 for name in ("in_flight", "result_queue", "pinned_queue")}
    return row | {"own_us": UNKNOWN if number % 2 else 77, "major_faults": UNKNOWN if number % 3 else 5}


def write(
    folder: Path,
    rank: int,
    rows: list[Row],
    events: list[Row],
    start_ns: int = 10**15,
    workload: Workload = NO_WORKLOAD,
    without: tuple[str, ...] = (),
) -> None:
    about = Description(rank, 4, None, f"node{rank}", 7, start_ns, 16, workload)
    fields = [each for each in FIELDS if each[0] not in without]
    head = json.dumps({"schema": SCHEMA, **asdict(about), "fields": fields}).encode()
    dtype = np.dtype([(name, CODES[code]) for name, code in fields])
    packed = np.array([tuple(row[name] for name, _ in fields) for row in rows], dtype=dtype)
    path = folder / "monitor" / f"{about.stem}.steps"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(PREAMBLE.pack(STEPS_MAGIC, len(head)) + head + packed.tobytes())
    path.with_suffix(".events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


def events_of(rank: int, count: int) -> list[Row]:
    pause = {"event": "gc", "step": 2, "end_unix_ns": BIGGEST, "generation": 2, "pause_us": 1500 + rank, "collected": 3}
    sample = {"event": "system", "unix_ns": 1_700_000_000_000_000_003, "step": rank, "load_1min": 0.1, "children": 2}
    capture = {"event": "capture", "request": 1, "first_step": 5, "last_step": 7, "path": f"r{rank}.json", "bytes": 9}
    environment = {"event": "environment", "unix_ns": 5, "python": f"3.11.{rank}"}
    return [environment, *(each for _ in range(count) for each in (pause, sample, capture))]


def expected_step(rank: int, attempt: int, row: Row, workload: Workload) -> Row:
    def known(name: str, share: float = 1.0) -> float:
        value = row.get(name, UNKNOWN)
        return float("nan") if value == UNKNOWN else value / share

    durations = ("wall", "data_wait", "own", "waiting", "gc", "gc_longest", "thread_cpu")
    seconds = row["wall_us"] / 1e6
    samples = row["samples"] or workload.batch_size or float("nan")
    return {
        "rank": rank,
        "attempt": attempt,
        "step": row["step"],
        "end_unix_ns": row["end_unix_ns"],
        **{f"{name}_ms": known(f"{name}_us", 1e3) for name in durations},
        **{name: row[name] for name in ("gc_runs", "fetches", "samples")},
        **{
            name: float("nan") if row[name] < 0 else float(row[name])
            for name in ("in_flight", "result_queue", "pinned_queue")
        },
        **{name: known(name) for name in NEWER},
        "captured": bool(row["flags"] & 3),
        "written": bool(row["flags"] & 2),
        "first": bool(row["flags"] & 4),
        "samples_per_s": samples / seconds,
        "mfu": (workload.flops_per_step or float("nan")) / seconds / (workload.peak_flops_per_s or float("nan")),
    }


def expected_events(owners: list[tuple[int, int, int]]) -> tuple[list[Row], list[Row], list[Row]]:
    gc: list[Row] = []
    system: list[Row] = []
    captures: list[Row] = []
    for rank, attempt, count in owners:
        for _, pause, sample, capture in [events_of(rank, 1)] * count:
            own = {"rank": rank, "attempt": attempt}
            kept = {name: pause[name] for name in ("step", "end_unix_ns", "generation", "collected")}
            gc.append({**kept, "pause_ms": pause["pause_us"] / 1e3, **own})
            counted = {name: sample.get(name, float("nan")) for name in SAMPLE_ROW.names or ()}
            system.append({**counted, **own})
            captures.append({**{name: capture.get(name, 0) for name in Capture.__struct_fields__}, **own})
    return gc, system, captures


@pytest.fixture
def read(tmp_path: Path) -> tuple[MonitorRecords, pd.DataFrame]:
    """Two starts of rank 0, an older file of rank 1, rank 2 with a workload, rank 3 that did no step."""
    rng = np.random.default_rng(5)
    rows = [[step_row(rng, number) for number in range(count)] for count in (7, 4, 6, 9)]
    reported = Workload(batch_size=8, flops_per_step=3e12, peak_flops_per_s=1e15)
    write(tmp_path, 0, rows[0], events_of(0, 2))
    write(tmp_path, 0, rows[1], events_of(0, 1), start_ns=2 * 10**15)
    write(tmp_path, 1, rows[2], [], workload=TOLD_NOTHING, without=NEWER)
    write(tmp_path, 2, rows[3], events_of(2, 3), workload=reported)
    write(tmp_path, 3, [], events_of(3, 0))
    older = [{name: value for name, value in row.items() if name not in NEWER} for row in rows[2]]
    starts = [
        (0, 0, rows[0], NO_WORKLOAD),
        (0, 1, rows[1], NO_WORKLOAD),
        (1, 0, older, TOLD_NOTHING),
        (2, 0, rows[3], reported),
    ]
    steps = [expected_step(rank, attempt, row, work) for rank, attempt, own, work in starts for row in own]
    return read_monitor(tmp_path), pd.DataFrame(steps)


def test_steps_of_all_ranks_are_those_of_a_row_by_row_construction(read: tuple[MonitorRecords, pd.DataFrame]) -> None:
    records, expected = read
    pd.testing.assert_frame_equal(records.steps, expected, check_exact=True, check_dtype=False)
    assert [records.steps[name].dtype for name in ("rank", "attempt", "step", "end_unix_ns")] == ["int64"] * 4
    assert [(each.rank, each.attempt, each.steps) for each in records.ranks] == [
        (0, 0, 7), (0, 1, 4), (1, 0, 6), (2, 0, 9), (3, 0, 0),
    ]  # fmt: skip


def test_events_of_all_ranks_are_those_of_a_row_by_row_construction(read: tuple[MonitorRecords, pd.DataFrame]) -> None:
    records, _ = read
    expected = expected_events([(0, 0, 2), (0, 1, 1), (2, 0, 3)])
    for table, rows in zip((records.gc, records.system, records.captures), expected, strict=True):
        pd.testing.assert_frame_equal(table, pd.DataFrame(rows), check_exact=True, check_dtype=False)
    assert records.gc["end_unix_ns"].tolist() == [BIGGEST] * 6
    assert [(each.rank, each.attempt, each.python) for each in records.environments] == [
        (0, 0, "3.11.0"), (0, 1, "3.11.0"), (2, 0, "3.11.2"), (3, 0, "3.11.3"),
    ]  # fmt: skip


def test_tables_without_a_row_have_the_columns_and_kinds_of_those_with_rows(tmp_path: Path) -> None:
    write(tmp_path, 0, [], [])
    empty = read_monitor(tmp_path)
    write(tmp_path, 1, [step_row(np.random.default_rng(1), 0)], events_of(1, 1))
    filled = read_monitor(tmp_path)
    for name in ("steps", "gc", "system", "captures"):
        table = getattr(empty, name)
        assert len(table) == 0
        pd.testing.assert_series_equal(table.dtypes, getattr(filled, name).dtypes)


@pytest.mark.parametrize("field", ["step", "pause_us"])
def test_a_number_that_no_column_can_hold_costs_its_line_only(tmp_path: Path, field: str) -> None:
    _, good, *_ = events_of(0, 1)
    write(tmp_path, 0, [], [good, {**good, field: 1 << 70}, {**good, field: 10**400}])
    records = read_monitor(tmp_path)
    assert len(records.gc) == 1
    assert any("2 lines cannot be read" in note for note in records.notes)


def test_a_batch_size_that_no_column_can_hold_leaves_the_file_out(tmp_path: Path) -> None:
    write(tmp_path, 0, [], [], workload=Workload(batch_size=10**400))
    write(tmp_path, 1, [], [])
    records = read_monitor(tmp_path)
    assert [each.rank for each in records.ranks] == [1]
    assert any("rank00000" in note and "head" in note for note in records.notes)
