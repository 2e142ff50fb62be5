"""A big export is a recorded one, repeated: everything in it counts as often, and no id twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from evals.benchmarks.big_exports import enlarge_export
from tests.tools.sources.nsys.export import CALL, COPY, KERNEL, US, training
from tools.sources.load import load_run
from tools.sources.options import LoadOptions

LEAST_BYTES = 400_000


def test_a_copy_adds_all_events_once_with_ids_of_its_own(tmp_path: Path) -> None:
    source = training(steps=3).write(tmp_path / "recorded.sqlite")
    made = enlarge_export(source, tmp_path / "big.sqlite", LEAST_BYTES)
    assert made.size_bytes >= LEAST_BYTES
    assert made.copies > 2
    with closing(sqlite3.connect(made.path)) as connection:
        count, links, time_ns = connection.execute(
            'SELECT COUNT(*), COUNT(DISTINCT correlationId), SUM("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL'
        ).fetchone()
        joined = [
            connection.execute(f"SELECT COUNT(*) FROM {table} JOIN {CALL} USING (correlationId)").fetchone()[0]
            for table in (KERNEL, COPY)
        ]
    assert joined == [count, made.copies * 2 * 3]
    assert count == links == made.copies * 2 * 3 * 3
    assert time_ns == made.copies * 2 * 3 * 900 * US


def test_each_copy_is_a_step_of_its_own(tmp_path: Path) -> None:
    source = training(steps=3).write(tmp_path / "recorded.sqlite")
    made = enlarge_export(source, tmp_path / "big.sqlite", LEAST_BYTES)
    run = load_run([made.path], LoadOptions(workers=1))
    marks = [rank.events.frame["name"].astype(str).str.fullmatch(r"step \d+").sum() for rank in run.ranks]
    assert marks == [made.copies * 4] * 2  # three of the recording, one of the copy
