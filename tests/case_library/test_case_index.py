"""The index as a cache: built once, read from private copies, rebuilt when it is not whole or not current."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from case_library.library import BUNDLED_CASES, CaseError, case_files, read_case_bytes
from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice
from case_library.retrieval.recall import CACHED, CaseIndex, CaseQuery, index_key, take_snapshot
from tests.case_library.toy_weights import toy_weights

SYNC = CaseQuery(text="loss.item() synchronizes in every step")
CHOSEN = (
    "torchtune-loss-item-sync",
    "olmo-metrics-host-sync",
    "dali-first-epoch-cold-storage",
    "marin-coordinated-gc",
    "automodel-sync-ckpt-27s",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five cases in a folder of their own."""
    place = tmp_path / "cases"
    place.mkdir()
    for name in CHOSEN:
        shutil.copy(BUNDLED_CASES / f"{name}.yaml", place)
    return place


def indexes(cache: Path) -> list[Path]:
    return sorted((cache / "case-index").iterdir())


def best(folder: Path, cache: Path | None) -> tuple[str, tuple[str, ...]]:
    with CaseIndex.open(folder, cache) as index:
        return index.search(SYNC).hits[0].id, (*index.notes, *index.cache_notes)


def test_the_second_opening_uses_what_the_first_built(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert best(folder, cache) == ("torchtune-loss-item-sync", ())
    [built] = indexes(cache)
    before = {path: path.stat().st_mtime_ns for path in built.rglob("*") if path.is_file()}
    assert best(folder, cache) == ("torchtune-loss-item-sync", ())
    assert {path: path.stat().st_mtime_ns for path in built.rglob("*") if path.is_file()} == before
    assert len(before) >= 4


def test_without_a_cache_folder_nothing_is_left_behind(folder: Path, tmp_path: Path) -> None:
    index = CaseIndex.open(folder)
    private = index._snapshot.folder
    assert index.search(SYNC).hits[0].id == "torchtune-loss-item-sync"
    assert private.is_dir()
    index.close()
    index.close()
    assert not private.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["cases"]


def test_a_cache_answers_exactly_as_a_fresh_index(folder: Path, tmp_path: Path) -> None:
    with CaseIndex.open(folder) as fresh:
        expected = fresh.search(SYNC)
    for _ in range(2):
        with CaseIndex.open(folder, tmp_path / "cache") as cached:
            assert cached.search(SYNC) == expected


@pytest.mark.parametrize("victim", ["chroma/chroma.sqlite3", "cards.json", "embedding.json", "manifest.json"])
def test_a_damaged_index_is_rebuilt_and_said_so(folder: Path, tmp_path: Path, victim: str) -> None:
    cache = tmp_path / "cache"
    best(folder, cache)
    [built] = indexes(cache)
    damaged = bytearray((built / victim).read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (built / victim).write_bytes(damaged)
    name, notes = best(folder, cache)
    assert name == "torchtune-loss-item-sync"
    assert notes == (f"The case index in {built} was damaged; it has been rebuilt from the case files.",)
    assert best(folder, cache) == ("torchtune-loss-item-sync", ())


def test_an_index_with_a_lost_file_is_rebuilt(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    best(folder, cache)
    [built] = indexes(cache)
    (built / "chroma" / "chroma.sqlite3").unlink()
    assert len(best(folder, cache)[1]) == 1
    assert best(folder, cache)[1] == ()


def test_another_embedding_gets_an_index_of_its_own(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    other = EmbeddingChoice("minilm", folder=toy_weights(tmp_path / "weights"))
    for choice in (HASHED, other, HASHED):
        take_snapshot(folder, cache, choice).home.close()
    assert len(indexes(cache)) == 2
    contents = {path: read_case_bytes(path) for path in case_files(folder)}
    assert {path.name for path in indexes(cache)} == {index_key(contents, HASHED), index_key(contents, other)}


def test_a_changed_case_is_found_by_its_new_words(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    best(folder, cache)
    path = folder / "marin-coordinated-gc.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("symptom: ", "symptom: Quokka zebrafish. "), "utf-8")
    with CaseIndex.open(folder, cache) as index:
        assert [hit.id for hit in index.search(CaseQuery(text="quokka zebrafish")).hits] == ["marin-coordinated-gc"]
    assert len(indexes(cache)) == 2


def test_old_indexes_are_removed_but_for_the_newest(folder: Path, tmp_path: Path) -> None:
    for turn in range(CACHED + 3):
        (folder / "marin-coordinated-gc.yaml").open("a", encoding="utf-8").write(f"# {turn}\n")
        take_snapshot(folder, tmp_path / "cache").home.close()
    assert len(indexes(tmp_path / "cache")) == CACHED


def test_a_cache_folder_that_cannot_be_made_is_noted_and_recall_still_works(folder: Path, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("no folder", encoding="utf-8")
    name, notes = best(folder, occupied)
    assert name == "torchtune-loss-item-sync"
    assert len(notes) == 1
    assert notes[0].startswith(f"The case index cannot be cached in {occupied / 'case-index'} (")


def test_an_invalid_case_stops_the_opening_even_when_an_older_index_is_cached(folder: Path, tmp_path: Path) -> None:
    best(folder, tmp_path / "cache")
    (folder / "broken.yaml").write_text("id: broken\n", encoding="utf-8")
    with pytest.raises(CaseError, match=r"broken\.yaml: field 'title': Field required"):
        CaseIndex.open(folder, tmp_path / "cache")


OPEN_AND_ASK = """
import sys
from pathlib import Path
from case_library.retrieval.recall import CaseIndex, CaseQuery
for _ in sys.stdin:
    with CaseIndex.open(Path(sys.argv[1]), Path(sys.argv[2])) as index:
        hits = index.search(CaseQuery(text="loss.item() synchronizes in every step")).hits
        print(hits[0].id, (*index.notes, *index.cache_notes), flush=True)
"""


def test_processes_that_open_at_once_all_get_an_answer_from_no_index_and_from_a_damaged_one(
    folder: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    command = [sys.executable, "-c", OPEN_AND_ASK, str(folder), str(cache)]
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    started = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=place) for _ in range(2)]
    for damaged in (False, True):
        if damaged:
            (indexes(cache)[0] / "cards.json").write_text("[]", encoding="utf-8")
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        answers = [process.stdout.readline() for process in started if process.stdout is not None]
        assert [answer.startswith("torchtune-loss-item-sync (") for answer in answers] == [True] * 2
        assert len(indexes(cache)) == 1
        assert best(folder, cache) == ("torchtune-loss-item-sync", ())
    for process in started:
        process.communicate(timeout=120)
    assert [process.returncode for process in started] == [0, 0]


ASK_AGAIN_AND_AGAIN = """
import sys
from pathlib import Path
from case_library.retrieval.recall import CaseIndex, CaseQuery
sys.stdin.readline()
answers = set()
for _ in range(4):
    with CaseIndex.open(Path(sys.argv[1]), Path(sys.argv[2])) as index:
        for _ in range(5):
            answers.add(index.search(CaseQuery(text="loss.item() synchronizes in every step")).hits[0].id)
            answers.add(index.search(CaseQuery(text="gc.collect pauses ranks at different steps")).hits[0].id)
print(sorted(answers))
"""
REBUILD = """
import shutil, sys
from pathlib import Path
from case_library.retrieval.recall import CaseIndex
sys.stdin.readline()
case = Path(sys.argv[1]) / "dali-first-epoch-cold-storage.yaml"
for turn in range(6):
    changed = case.with_suffix(".new")
    changed.write_text(case.read_text(encoding="utf-8") + f"# {turn}\\n", encoding="utf-8")
    changed.rename(case)
    for built in (Path(sys.argv[2]) / "case-index").glob("[!.]*"):
        shutil.rmtree(built, ignore_errors=True) if turn % 2 else (built / "cards.json").unlink(missing_ok=True)
    CaseIndex.open(Path(sys.argv[1]), Path(sys.argv[2])).close()
print("rebuilt")
"""


def test_two_processes_ask_while_a_third_changes_destroys_and_rebuilds(folder: Path, tmp_path: Path) -> None:
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(folder), str(tmp_path / "cache")],
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            env=place,
        )
        for program in (*[ASK_AGAIN_AND_AGAIN] * 2, REBUILD)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=300) for process in started]
    assert [errors for _, errors in ended] == [""] * 3
    right = "['marin-coordinated-gc', 'torchtune-loss-item-sync']\n"
    assert [output for output, _ in ended] == [right, right, "rebuilt\n"]
    assert best(folder, tmp_path / "cache") == ("torchtune-loss-item-sync", ())


def test_importing_recall_loads_none_of_the_heavy_packages() -> None:
    heavy = "{'chromadb', 'pydantic', 'numpy', 'pandas', 'yaml', 'langgraph', 'openai'}"
    command = f"import sys, case_library.retrieval.recall; print(sorted({heavy} & set(sys.modules)))"
    place = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, env=place, check=True)
    assert run.stdout.strip() == "[]"


def test_a_foreign_env_file_in_the_working_folder_does_not_configure_chroma(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("ANONYMIZED_TELEMETRY=True\nALLOW_RESET=True\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with CaseIndex.open(folder) as index:
        settings = index._store._client.get_settings()
        assert settings.anonymized_telemetry is False
        assert settings.allow_reset is False
