from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.tools.sources.monitor.test_tables import events_of, step_row, write
from tools.sources.decompress import beginning
from tools.sources.formats import Anchor, Contribution
from tools.sources.inventory import take_inventory
from tools.sources.monitor.events import read_anomalies, read_events
from tools.sources.monitor.reader import read_monitor
from tools.sources.monitor.steps import StepFileError, read_steps
from tools.sources.options import Limits
from tools.sources.step_log import STEP_LOG

LINES = b'{"step": 0, "wall_ms": 50}\n{"step": 1, "wall_ms": 51}\n{"step": 2, "wall_ms": 52}\n'
MIB = 1 << 20


def record_files(folder: Path) -> tuple[Path, ...]:
    return take_inventory([folder], Limits()).files


def step_logs(folder: Path) -> Contribution:
    return STEP_LOG.read(take_inventory([folder], Limits()).of(STEP_LOG), Anchor())


def pack(folder: Path, pattern: str, keep: bool = False) -> None:
    for file in folder.rglob(pattern):
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        if not keep:
            file.unlink()


def test_compressed_records_and_logs_read_as_plain_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for rank in (0, 1):
        write(tmp_path, rank, [step_row(rng, number) for number in range(6)], events_of(rank, 3))
        (tmp_path / f"steps_rank{rank}.jsonl").write_bytes(LINES)
    plain, logs = read_monitor(tmp_path), step_logs(tmp_path)
    files = len(record_files(tmp_path))
    pack(tmp_path, "*.steps")
    pack(tmp_path, "*.jsonl")
    packed, packed_logs = read_monitor(tmp_path), step_logs(tmp_path)
    for name in ("steps", "gc", "system", "captures"):
        pd.testing.assert_frame_equal(getattr(plain, name), getattr(packed, name))
    assert logs.step_log is not None
    assert packed_logs.step_log is not None
    pd.testing.assert_frame_equal(logs.step_log, packed_logs.step_log)
    assert (len(plain.steps), len(logs.step_log), plain.environments) == (12, 6, packed.environments)
    assert len(record_files(tmp_path)) == files == 6


def test_a_file_that_is_there_twice_counts_once_and_the_plain_one_is_read(tmp_path: Path) -> None:
    write(tmp_path, 0, [step_row(np.random.default_rng(3), number) for number in range(6)], events_of(0, 3))
    (tmp_path / "steps_rank0.jsonl").write_bytes(LINES)
    pack(tmp_path, "*.steps", keep=True)
    pack(tmp_path, "*.jsonl", keep=True)
    (tmp_path / "steps_rank0.jsonl.gz").write_bytes(b"older")
    logs = step_logs(tmp_path)
    assert (len(read_monitor(tmp_path).steps), logs.notes, len(record_files(tmp_path))) == (6, (), 3)


def test_of_a_compressed_log_that_was_cut_off_the_whole_lines_before_it_count(tmp_path: Path) -> None:
    many = b"".join(b'{"step": %d, "wall_ms": %d}\n' % (step, 50 + step % 7) for step in range(40_000))
    whole = gzip.compress(many)
    (tmp_path / "steps_rank0.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    logs = step_logs(tmp_path)
    assert logs.step_log is not None
    assert 1_000 < len(logs.step_log) < 40_000
    assert logs.step_log["step"].tolist() == list(range(len(logs.step_log)))
    assert "gzip stream ends before its end mark" in logs.notes[0]


def test_of_compressed_records_that_were_cut_off_the_steps_before_it_count_and_the_run_did_not_end_in_order(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(3)
    write(tmp_path, 0, [step_row(rng, number) for number in range(2000)], [])
    pack(tmp_path, "*.steps")
    assert read_monitor(tmp_path).ranks[0].ended_in_order
    (file,) = tmp_path.rglob("*.steps.gz")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    records = read_monitor(tmp_path)
    assert 100 < len(records.steps) < 2000
    assert not records.ranks[0].ended_in_order
    assert "gzip stream ends before its end mark" in records.notes[0]


def test_no_more_of_a_small_file_is_expanded_than_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "steps_rank0.jsonl.gz"
    file.write_bytes(gzip.compress(bytes(200 * MIB)))
    read = beginning(file, 3 * MIB)
    assert (len(read.data), read.more) == (3 * MIB, True)


def test_reading_a_file_takes_its_size_in_memory_once(tmp_path: Path) -> None:
    file = tmp_path / "steps_rank0.jsonl.gz"
    file.write_bytes(gzip.compress(os.urandom(MIB) * 32))
    tracemalloc.start()
    read = beginning(file, 24 * MIB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(read.data) == 24 * MIB
    assert peak < 1.5 * 24 * MIB


def test_a_step_file_that_expands_beyond_what_the_monitor_writes_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.sources.decompress.LARGEST_UNPACKED", MIB)
    plain, packed = tmp_path / "rank00000-1-1.steps", tmp_path / "rank00001-1-1.steps.gz"
    content = os.urandom(1000) * 2000
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    assert beginning(plain, 4 * MIB).data == content
    assert (len(beginning(packed, 4 * MIB).data), beginning(packed, 4 * MIB).more) == (MIB, True)
    with pytest.raises(StepFileError, match="expands more than any such file does; it was left out"):
        read_steps(packed)


def test_a_pipe_in_place_of_events_or_anomalies_is_left_out_and_not_waited_for(tmp_path: Path) -> None:
    events, anomalies = tmp_path / "rank00000-1-1.events.jsonl", tmp_path / "anomalies-host.jsonl"
    os.mkfifo(events)
    os.mkfifo(anomalies)
    assert read_events(events).notes == (f"{events}: is no file; it was left out",)
    assert read_anomalies([anomalies])[1] == [f"{anomalies}: is no file; it was left out"]
