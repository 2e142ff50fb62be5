"""What a killed process leaves behind is removed by the next one; what a living one holds stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.leftovers import PARTIAL, PARTIAL_FOLDER, HeldFolder, private_folder, remove_leftovers, write_whole

HOLDER = """
import sys, time
from pathlib import Path
from tools.leftovers import HeldFolder, write_whole
cache = Path(sys.argv[1])
held = HeldFolder(cache / "inside")
(held.path / "half").write_text("half")
def endless():
    yield b"begun"
    print("begun", flush=True)
    time.sleep(60)
write_whole(cache / "file", endless())
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "cache" / "inside").mkdir(parents=True)
    return tmp_path / "cache"


@pytest.fixture
def holder(cache: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is in the middle of writing a file and filling a folder."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(cache)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


def partial(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*") if PARTIAL in path.name or PARTIAL_FOLDER in path.name)


def test_what_a_process_writes_stays_while_it_lives_and_goes_after_it_was_killed(
    cache: Path, holder: subprocess.Popen[str]
) -> None:
    remove_leftovers(cache)
    assert len(partial(cache)) == 2
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    remove_leftovers(cache)
    assert partial(cache) == []
    assert not (cache / "file").exists()


def test_a_folder_of_the_system_s_temporary_folder_goes_too(cache: Path) -> None:
    held = HeldFolder()
    dead = held.path.with_name(f"{PARTIAL_FOLDER}dead")
    (dead / "index").mkdir(parents=True)
    other = held.path.with_name("of another program")
    other.mkdir()
    remove_leftovers(cache)
    assert (held.path.exists(), dead.exists(), other.exists()) == (True, False, True)
    held.close()
    held.close()
    assert not held.path.exists()


def test_files_of_others_that_end_alike_stay(cache: Path, tmp_path: Path) -> None:
    killed = cache / f"x.run.0123456789ab{PARTIAL}"
    killed.write_text("half")
    foreign = []
    for folder in (tmp_path / "tmp", cache, cache / "inside"):
        (folder / f"backup{PARTIAL}").mkdir()
        foreign += [folder / f"film.mkv{PARTIAL}", folder / f"backup{PARTIAL}" / "thesis.tex"]
    foreign.append(tmp_path / "tmp" / killed.name)
    for path in foreign:
        path.write_text("precious")
    remove_leftovers(cache)
    assert [path.exists() for path in foreign] == [True] * len(foreign)
    assert not killed.exists()


def test_links_are_neither_followed_nor_written_through(cache: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("kept")
    (cache / f"{PARTIAL_FOLDER}x").symlink_to(victim)
    (cache / f"x{PARTIAL}").symlink_to(victim / "precious")
    (cache / "outside").symlink_to(victim)
    os.mkfifo(cache / f"fifo{PARTIAL}")
    (victim / f"own{PARTIAL}").write_text("kept")
    remove_leftovers(cache)
    (cache / "target").symlink_to(victim / "precious")
    assert write_whole(cache / "target", [b"new"])
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"precious": "kept", f"own{PARTIAL}": "kept"}
    assert (cache / "target").read_bytes() == b"new"


def test_a_file_that_cannot_be_written_leaves_nothing(cache: Path) -> None:
    def full() -> Iterator[bytes]:
        yield b"begun"
        raise OSError(28, "No space left on device")

    assert not write_whole(cache / "file", full())
    assert not write_whole(cache / "file" / "below" / "x", full())
    (cache / "occupied").write_text("a file")
    assert not write_whole(cache / "occupied" / "x", [b"x"])
    assert partial(cache) == []


def test_a_new_cache_is_for_its_user_alone(tmp_path: Path) -> None:
    private_folder(tmp_path / "a" / "b")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700, 0o700]
