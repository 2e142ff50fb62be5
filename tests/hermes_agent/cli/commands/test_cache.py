"""``hermes-dx cache``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hermes_agent.cli.commands import cache
from hermes_agent.cli.commands.cache import cache_parts
from tests.hermes_agent.cli.execution import execute
from tools.errors import UsageError


@pytest.fixture
def folder(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with a diagnosis, a conversation, a foreign file, and links that lead out of it."""
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(own_cache))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious.txt").write_text("precious")
    (own_cache / "sessions").mkdir()
    (own_cache / "sessions" / "sessions.sqlite").write_bytes(b"x" * 1000)
    (own_cache / "mine.txt").write_text("mine")
    (own_cache / "fetched").symlink_to(tmp_path / "outside")
    (own_cache / "diagnoses" / "link").symlink_to(tmp_path / "outside")
    (own_cache / "link.run").symlink_to(tmp_path / "outside" / "precious.txt")
    return own_cache


def test_the_parts_add_up_to_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    parts = {part.name: part for part in cache_parts(folder)}
    linked = {path for path in files if path.is_symlink() and path.is_dir()}  # walked as folders: not counted
    assert sum(part.files for part in parts.values()) == len(files) - len(linked)
    assert sum(part.bytes for part in parts.values()) == sum(path.lstat().st_size for path in set(files) - linked)
    assert {name for name, part in parts.items() if not part.cleared} == {"sessions", "other files"}
    assert execute(cache, "info", "--json") == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)["rows"]} == set(parts)
    assert execute(cache, "info") == 0
    assert "search index of the case library" in capsys.readouterr().out


def test_clearing_leaves_conversations_other_files_and_whatever_links_lead_to(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = folder / "case-index" / ".hermes-dx-part-alive"
    held.mkdir()
    assert execute(cache, "clear") == 0
    said = capsys.readouterr().out
    assert "MB removed" in said
    assert "kept: conversations" in said
    assert {path.name for path in folder.rglob("*") if path.is_file() and not path.is_symlink()} == {
        "sessions.sqlite",
        "mine.txt",
    }
    assert (tmp_path / "outside" / "precious.txt").read_text() == "precious"


def test_a_cache_that_is_not_used_or_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(tmp_path / "none"))
    assert execute(cache, "info") == 0
    assert execute(cache, "clear") == 0
    assert "0.0 MB" in capsys.readouterr().out
    (tmp_path / "none").mkdir()
    (tmp_path / "none").chmod(0o777)
    with pytest.raises(UsageError, match="no cache is in use"):
        execute(cache, "info")
