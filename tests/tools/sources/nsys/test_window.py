"""Of an export of more events than are read at once its middle is read, and what is left out is stated."""

from __future__ import annotations

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.tools.sources.nsys.export import CALL, COPY, KERNEL, RANGE, US, training
from tests.tools.sources.nsys.export import TABLES as DECLARED
from tools.run.events import EventKind
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.nsys.device_rows import SYNCS, WORK
from tools.sources.nsys.window import kernel_totals, steady_window
from tools.sources.options import Limits, LoadOptions
from tools.sources.sqlite_file import open_database
from tools.views.profile import Profile

TABLES = (*WORK, SYNCS, CALL, RANGE)
STEPS = 200
PER_STEP = 2 * (3 + 4 + 1 + 2)  # of two ranks: kernels, calls, a copy and ranges
WHOLE = STEPS * PER_STEP


def read(path: Path, most: int) -> Run:
    return load_run([path], LoadOptions(workers=1, limits=Limits(events=most)))


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return training(steps=STEPS).write(tmp_path_factory.mktemp("large") / "large.sqlite")


def test_an_export_of_no_more_events_than_are_read_at_once_has_no_window(export: Path) -> None:
    with open_database(export) as database:
        assert steady_window(database, TABLES, WHOLE) is None


def test_the_window_is_the_middle_with_about_as_many_events(export: Path) -> None:
    with open_database(export) as database:
        window = steady_window(database, TABLES, WHOLE // 4)
        assert window is not None
        rows = sum(
            int(str(database.aggregates(name, "COUNT(*)", where=window.where)[0]))
            for name in (KERNEL, CALL, COPY, RANGE)
        )
    assert window.events == WHOLE
    assert rows == pytest.approx(WHOLE / 4, rel=0.1)
    assert (window.start_ns + window.end_ns) / 2 == pytest.approx(STEPS * 1000 * US / 2, rel=0.02)


def test_steps_of_the_window_are_whole_and_as_long_as_without_one(export: Path) -> None:
    part, whole = read(export, WHOLE // 4), read(export, WHOLE)
    numbers = [step.number for step in part.ranks[0].steps]
    assert 40 <= len(numbers) <= 60
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    shares = [
        Profile(run).ranks[0].breakdown[["compute_ns", "exposed_communication_ns", "exposed_memcpy_ns", "wall_ns"]]
        for run in (part, whole)
    ]
    inner, of_all = (frame.iloc[1:-1].mean() for frame in shares)
    assert inner.to_numpy() == pytest.approx(of_all.to_numpy())


def test_kernel_time_of_the_window_is_that_of_sql_over_the_same_time(export: Path) -> None:
    part = read(export, WHOLE // 4)
    with open_database(export) as database:
        window = steady_window(database, TABLES, WHOLE // 4)
        assert window is not None
        for rank in part.ranks:
            (expected,) = database.aggregates(
                KERNEL, 'SUM("end" - "start")', where=f"{window.where} AND deviceId = {rank.rank}"
            )
            kernels = rank.events.of_kind(EventKind.KERNEL)
            assert int((kernels["end_ns"] - kernels["start_ns"]).sum()) == expected


def test_the_source_states_the_window_and_the_kernel_time_of_the_whole_recording(export: Path) -> None:
    (source,) = read(export, WHOLE // 4).sources
    assert source.status == "partial"
    assert f"holds {WHOLE:,} events, and {WHOLE // 4:,} are read at once" in source.note
    # A step of a rank has kernels of 600, 200 and 100 us.
    found = re.findall(r"([\d,]+) kernels run ([\d.]+) s on device (\d)", source.note)
    assert found == [(f"{3 * STEPS:,}", f"{STEPS * 900e-6:.6f}", str(device)) for device in (0, 1)]


def test_totals_count_kernels_of_each_device_once(export: Path) -> None:
    with open_database(export) as database:
        totals = kernel_totals(database)
    assert [(each.device, each.count, each.time_ns) for each in totals] == [
        (device, 3 * STEPS, STEPS * 900 * US) for device in (0, 1)
    ]


def test_ranges_that_begin_or_end_outside_of_the_window_are_left_out(export: Path) -> None:
    with open_database(export) as database:
        window = steady_window(database, TABLES, WHOLE // 4)
    assert window is not None
    part = read(export, WHOLE // 4)
    marks = part.ranks[0].events.of_kind(EventKind.ANNOTATION)
    lengths = (marks["end_ns"] - marks["start_ns"]).to_numpy()
    assert np.array_equal(lengths, np.full(len(lengths), 1000 * US))
    assert len(marks) == 50 - 2


def changed(export: Path, path: Path, *commands: str) -> Path:
    """A copy of the export with its tables changed."""
    shutil.copy(export, path)
    with closing(sqlite3.connect(path)) as connection:
        for command in commands:
            connection.execute(command)
        connection.commit()
    return path


def without_row_numbers(table: str) -> list[str]:
    """Commands that put a table's rows into one WITHOUT ROWID."""
    made = f"CREATE TABLE made (number INTEGER PRIMARY KEY, {DECLARED[table]}) WITHOUT ROWID"
    return [
        made,
        f'INSERT INTO made SELECT rowid, * FROM "{table}"',
        f'DROP TABLE "{table}"',
        f'ALTER TABLE made RENAME TO "{table}"',
    ]


def test_missing_row_numbers_are_no_events(tmp_path: Path, export: Path) -> None:
    """With numbers 100,000 apart there are as many rows as before: all are read where they fit, else counted."""
    spread = [f'UPDATE "{table}" SET rowid = -100000 * rowid' for table in (KERNEL, CALL, COPY, RANGE)]
    path = changed(export, tmp_path / "spread.sqlite", *spread)
    (source,) = read(path, WHOLE).sources
    assert (source.status, source.events) == ("complete", read(export, WHOLE).sources[0].events)
    assert f"holds {WHOLE:,} events, and {WHOLE // 4:,} are read" in read(path, WHOLE // 4).sources[0].note


def test_the_window_is_the_same_where_row_numbers_are_no_places(tmp_path: Path, export: Path) -> None:
    """Numbers that leave a gap of a million in the middle of the recording, and tables without numbers."""
    gap = [f'UPDATE "{table}" SET rowid = rowid + 1000000 WHERE "start" > 150000000' for table in (KERNEL, CALL, RANGE)]
    bare = [each for table in (KERNEL, CALL) for each in without_row_numbers(table)]
    found = []
    for path in (export, changed(export, tmp_path / "gap.sqlite", *gap), changed(export, tmp_path / "b.sqlite", *bare)):
        with open_database(path) as database:
            window = steady_window(database, TABLES, WHOLE // 4)
        assert window is not None
        assert window.events == WHOLE
        found.append((window.start_ns, window.end_ns))
    assert found[1:] == [pytest.approx(found[0], rel=0.01)] * 2


def test_a_table_without_row_numbers_is_read_as_one_with_them(tmp_path: Path, export: Path) -> None:
    path = changed(export, tmp_path / "bare.sqlite", *without_row_numbers(KERNEL))
    runs = [read(each, WHOLE) for each in (export, path)]
    assert [run.sources[0].status for run in runs] == ["complete"] * 2
    frames = [run.ranks[0].events.of_kind(EventKind.KERNEL)["start_ns"].tolist() for run in runs]
    assert frames[0] == frames[1]
