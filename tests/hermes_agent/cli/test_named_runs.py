"""Registered names in place of paths on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.cli.arguments import named_places
from hermes_agent.config.settings import Settings
from hermes_agent.locations.places import PASTED, Place, RunUrl
from hermes_agent.registered_runs import RegisteredRuns
from tools.errors import InputError, UsageError


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    settings = Settings(cache_dir=tmp_path / "cache", runs_file=tmp_path / "config" / "runs.json")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    RegisteredRuns.load(settings).add("train-7", [tmp_path / "a", tmp_path / "b"])
    return settings


def test_a_registered_name_stands_for_all_its_paths(chosen: Settings, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert named_places([Path("train-7"), other], chosen) == [tmp_path / "a", tmp_path / "b", other]


def test_a_path_that_exists_comes_before_a_name(
    chosen: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train-7").mkdir()
    monkeypatch.chdir(tmp_path)
    assert named_places([Path("train-7")], chosen) == [Path("train-7")]


def test_urls_pasted_text_and_words_like_no_name_stay_as_they_are(chosen: Settings) -> None:
    places: list[Place] = [RunUrl("s3://bucket/run"), PASTED, Path("nothing/there"), Path("unlike")]
    assert named_places(places, chosen) == places


def test_a_misspelt_name_has_a_suggestion(chosen: Settings) -> None:
    with pytest.raises(UsageError, match="no such file, folder or registered run; did you mean train-7"):
        named_places([Path("train-8")], chosen)


def test_a_name_whose_files_are_gone_says_how_to_register_them_again(chosen: Settings, tmp_path: Path) -> None:
    (tmp_path / "b").rmdir()
    with pytest.raises(InputError, match="no longer there"):
        named_places([Path("train-7")], chosen)
