from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_agent.monitor.format import RECORD, STEPS_MAGIC, Description, Workload
from tests.hermes_agent.monitor.monitored import record
from tools.errors import InputError
from tools.sources.monitor.reader import read_monitor


def write_steps(folder: Path, rank: int = 0, steps: int = 3, ring: str = "", tail: bytes = b"") -> Path:
    about = Description(rank, 2, None, "host", 7, 1_000_000_000, 16, Workload())
    (folder / "monitor").mkdir(exist_ok=True)
    path = folder / "monitor" / f"{about.stem}.steps"
    rows = b"".join(RECORD.pack(*record(step, 10.0 + step)) for step in range(steps))
    path.write_bytes(about.pack(STEPS_MAGIC) + rows + tail)
    path.with_suffix(".events.jsonl").touch()
    return path


def test_half_a_record_at_the_end_is_left_out_and_noted(tmp_path: Path) -> None:
    write_steps(tmp_path, tail=b"\1" * 10)
    records = read_monitor(tmp_path)
    assert list(records.steps["wall_ms"]) == [10.0, 11.0, 12.0]
    assert any("last 10 bytes" in note for note in records.notes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"HDXSTEP1", b"GIF89a..", id="another kind of file"),
        pytest.param(b'"rank": 0', b'"rank":-1', id="a negative rank"),
        pytest.param(b'"rank": 0', b'"rank":"x', id="broken JSON"),
        pytest.param(b"monitor/1", b"monitor/2", id="another schema"),
        pytest.param(b'"wall_us", "I"', b'"wall_us", "O"', id="a field of objects"),
        pytest.param(b'"wall_us"', b'"flags" ', id="a field named twice"),
    ],
)
def test_a_damaged_step_file_is_left_out_and_the_others_are_read(tmp_path: Path, old: bytes, new: bytes) -> None:
    path = write_steps(tmp_path, rank=0)
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(InputError, match="rank00000"):
        read_monitor(tmp_path)
    write_steps(tmp_path, rank=1)
    records = read_monitor(tmp_path)
    assert set(records.steps["rank"]) == {1}
    assert any("rank00000" in note for note in records.notes)


def test_a_step_file_sends_nobody_to_files_elsewhere(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    elsewhere = tmp_path / "secret.ring"
    elsewhere.write_bytes(b"not for you")
    write_steps(run, ring=str(elsewhere))
    records = read_monitor(run)
    assert len(records.steps) == 3
    assert records.ranks[0].ended_in_order


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    other, run = tmp_path / "other", tmp_path / "run"
    other.mkdir()
    (run / "monitor").mkdir(parents=True)
    (run / "monitor" / "rank00000-1-1.steps").symlink_to(write_steps(other))
    with pytest.raises(InputError, match="lies outside"):
        read_monitor(run)


def test_event_lines_that_cannot_be_read_are_counted_and_the_others_kept(tmp_path: Path) -> None:
    path = write_steps(tmp_path).with_suffix(".events.jsonl")
    lines = [
        json.dumps({"event": "gc", "step": 4, "end_unix_ns": 9, "generation": 2, "pause_us": 2500, "collected": 1}),
        "{broken",
        json.dumps({"event": "of a later version"}),
        json.dumps({"event": "system", "unix_ns": 5, "step": 1, "load_1min": 2.5, "something": "new"}),
    ]
    path.write_text("\n".join(lines) + '\n{"event": "gc", "st', encoding="utf-8")
    records = read_monitor(tmp_path)
    assert records.gc[["rank", "step", "pause_ms"]].values.tolist() == [[0, 4, 2.5]]
    assert records.system["load_1min"].tolist() == [2.5]
    assert any("2 lines cannot be read" in note for note in records.notes)


def test_missing_sequence_numbers_are_counted_as_lost(tmp_path: Path) -> None:
    path = write_steps(tmp_path, steps=0)
    rows = b"".join(RECORD.pack(*record(step, 10.0)) for step in (0, 1, 5, 6))
    path.write_bytes(path.read_bytes() + rows)
    records = read_monitor(tmp_path)
    assert list(records.steps["step"]) == [0, 1, 5, 6]
    assert records.ranks[0].lost_steps == 3


def test_the_order_of_records_in_the_file_does_not_matter(tmp_path: Path) -> None:
    path = write_steps(tmp_path, steps=0)
    rows = b"".join(RECORD.pack(*record(step, 10.0)) for step in (2, 0, 1, 2))
    path.write_bytes(path.read_bytes() + rows)
    assert list(read_monitor(tmp_path).steps["step"]) == [0, 1, 2]
