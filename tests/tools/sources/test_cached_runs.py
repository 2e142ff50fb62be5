"""What was read once is found again by its content, and never trusted when in doubt."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pandas as pd
import pytest

from tests.tools.sources.kineto_text import kernel, launch, span, write_trace
from tools.errors import InputError
from tools.sources.digest import digest
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions


def trace(path: Path, name: str = "op") -> Path:
    return write_trace(path, [span(name, 10, 50), launch(12, 2, 1), kernel("k", 20, 9, 1)])


def options(tmp_path: Path, **limits: int) -> LoadOptions:
    return LoadOptions(workers=1, cache_dir=tmp_path / "cache", limits=Limits(**limits))


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache").glob("*.run"))


def test_a_run_from_the_cache_is_the_run_that_was_read(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json.gz")

    cold, warm = load_run([path], options(tmp_path)), load_run([path], options(tmp_path))

    pd.testing.assert_frame_equal(cold.ranks[0].events.frame, warm.ranks[0].events.frame)
    assert cold.sources == warm.sources
    assert cold.ranks[0].steps == warm.ranks[0].steps
    assert cold.notes == warm.notes


def test_the_second_time_the_file_is_not_parsed(tmp_path: Path) -> None:
    path = trace(tmp_path / "t.json")
    load_run([path], options(tmp_path))
    (entry,) = entries(tmp_path)
    written = entry.stat()

    load_run([path], options(tmp_path))

    assert (entry.stat().st_ino, entry.stat().st_size) == (written.st_ino, written.st_size)


def test_a_copy_under_another_name_is_found_by_its_content(tmp_path: Path) -> None:
    load_run([trace(tmp_path / "t.json")], options(tmp_path))

    run = load_run([trace(tmp_path / "copy.json")], options(tmp_path))

    assert len(entries(tmp_path)) == 1
    assert run.sources[0].path == tmp_path / "copy.json"


def test_changed_content_is_read_again(tmp_path: Path) -> None:
    load_run([trace(tmp_path / "t.json", "before")], options(tmp_path))

    run = load_run([trace(tmp_path / "t.json", "after!")], options(tmp_path))

    assert run.ranks[0].events.frame["name"].astype(str)[0] == "after!"
    assert len(entries(tmp_path)) == 2


@pytest.mark.parametrize("place", ["start", "header", "middle", "end", "cut", "empty"])
def test_a_damaged_entry_is_rebuilt_with_a_note(tmp_path: Path, place: str) -> None:
    path = trace(tmp_path / "t.json")
    whole = load_run([path], options(tmp_path))
    (entry,) = entries(tmp_path)
    data = bytearray(entry.read_bytes())
    at = {"start": 3, "header": 60, "middle": 64 * (len(data) // 64 - 30), "end": 64 * (len(data) // 64 - 1)}
    if place in at:
        data[at[place]] ^= 0xFF
    else:
        del data[0 if place == "empty" else len(data) // 2 :]
    entry.write_bytes(data)

    run = load_run([path], options(tmp_path))

    pd.testing.assert_frame_equal(run.ranks[0].events.frame, whole.ranks[0].events.frame)
    assert any("t.json was damaged" in note and "rebuilt" in note for note in run.notes)
    assert load_run([path], options(tmp_path)).notes == whole.notes


def test_the_oldest_entries_go_when_the_cache_is_full(tmp_path: Path) -> None:
    paths = [trace(tmp_path / f"{number}.json", f"op{number}") for number in range(3)]
    load_run([paths[0]], options(tmp_path))
    size = entries(tmp_path)[0].stat().st_size
    os.utime(entries(tmp_path)[0], ns=(1, 1))

    for path in paths[1:]:
        load_run([path], options(tmp_path, cache_bytes=2 * size + 4096))

    assert len(entries(tmp_path)) == 2
    assert sum(entry.stat().st_size for entry in entries(tmp_path)) <= 2 * size + 4096


def test_a_cache_folder_that_cannot_be_written_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")

    assert len(load_run([trace(tmp_path / "t.json")], options(tmp_path)).ranks[0].events) == 3


def test_the_digest_is_of_the_bytes(tmp_path: Path) -> None:
    a, b, c = trace(tmp_path / "a.json"), trace(tmp_path / "b.json"), trace(tmp_path / "c.json", "other")

    assert digest(a, None) == digest(b, None) != digest(c, None)
    assert len(digest(a, None)) == 40
    with pytest.raises(InputError, match="cannot be read"):
        digest(tmp_path / "none.json", None)


def test_a_digest_is_remembered_only_for_files_left_alone_a_while(tmp_path: Path) -> None:
    path, stamps = trace(tmp_path / "t.json"), tmp_path / "cache" / "stamps"

    digest(path, tmp_path / "cache")
    assert not stamps.exists()
    time.sleep(2.1)
    value = digest(path, tmp_path / "cache")
    (stamp,) = stamps.iterdir()
    stamp.write_text(stamp.read_text().replace(value, "remembered"))

    assert digest(path, tmp_path / "cache") == "remembered"
    path.write_bytes(path.read_bytes().replace(b"op", b"OP"))
    assert digest(path, tmp_path / "cache") not in (value, "remembered")
