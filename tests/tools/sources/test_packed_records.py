from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd

from tests.tools.sources.test_monitor_tables import events_of, step_row, write
from tools.sources.beginning import beginning
from tools.sources.monitor import read_monitor
from tools.sources.run_folder import companion_files
from tools.sources.step_log import read_step_logs

LINES = b'{"step": 0, "wall_ms": 50}\n{"step": 1, "wall_ms": 51}\n{"step": 2, "wall_ms": 52}\n'
MIB = 1 << 20


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
    plain, logs = read_monitor(tmp_path), read_step_logs(tmp_path)
    files = len(companion_files([tmp_path]))
    pack(tmp_path, "*.steps")
    pack(tmp_path, "*.jsonl")
    packed, packed_logs = read_monitor(tmp_path), read_step_logs(tmp_path)
    for name in ("steps", "gc", "system", "captures"):
        pd.testing.assert_frame_equal(getattr(plain, name), getattr(packed, name))
    assert logs.table is not None
    assert packed_logs.table is not None
    pd.testing.assert_frame_equal(logs.table, packed_logs.table)
    assert (len(plain.steps), len(logs.table), plain.environments) == (12, 6, packed.environments)
    assert len(companion_files([tmp_path])) == files == 6


def test_a_file_that_is_there_twice_counts_once_and_the_plain_one_is_read(tmp_path: Path) -> None:
    write(tmp_path, 0, [step_row(np.random.default_rng(3), number) for number in range(6)], events_of(0, 3))
    (tmp_path / "steps_rank0.jsonl").write_bytes(LINES)
    pack(tmp_path, "*.steps", keep=True)
    pack(tmp_path, "*.jsonl", keep=True)
    (tmp_path / "steps_rank0.jsonl.gz").write_bytes(b"older")
    logs = read_step_logs(tmp_path)
    assert (len(read_monitor(tmp_path).steps), logs.notes, len(companion_files([tmp_path]))) == (6, (), 3)


def test_of_a_compressed_log_that_was_cut_off_the_whole_lines_before_it_count(tmp_path: Path) -> None:
    many = b"".join(b'{"step": %d, "wall_ms": %d}\n' % (step, 50 + step % 7) for step in range(40_000))
    whole = gzip.compress(many)
    (tmp_path / "steps_rank0.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    logs = read_step_logs(tmp_path)
    assert logs.table is not None
    assert 1_000 < len(logs.table) < 40_000
    assert logs.table["step"].tolist() == list(range(len(logs.table)))
    assert "gzip stream ends before its end mark" in logs.notes[0]


def test_no_more_of_a_small_file_is_expanded_than_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "steps_rank0.jsonl.gz"
    file.write_bytes(gzip.compress(bytes(200 * MIB)))
    read = beginning(file, 3 * MIB)
    assert (len(read.data), read.more) == (3 * MIB, True)
