"""Where the folder of private cases is, and what a change in it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_agent.config import Settings
from hermes_agent.workflow.request import Request
from hermes_agent.workflow.stored import key
from tests.case_library.own_cases import draft, put


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".config" / "hermes-dx").mkdir(parents=True)
    return tmp_path / "home"


def settings(cwd: Path, home: Path, **env: str) -> Settings:
    return Settings.load(cwd, {"HOME": str(home), **env})


def test_private_cases_lie_in_the_users_configuration_folder(tmp_path: Path, home: Path) -> None:
    assert settings(tmp_path, home).cases.private_dir == home / ".config" / "hermes-dx" / "cases"
    elsewhere = settings(tmp_path, home, XDG_CONFIG_HOME=str(tmp_path / "xdg"))
    assert elsewhere.cases.private_dir == tmp_path / "xdg" / "hermes-dx" / "cases"


@pytest.mark.parametrize("name", ["HERMES_DX_CASES_DIR", "HERMES_DX_CASES_PRIVATE_DIR"])
def test_a_variable_names_another_folder(name: str, tmp_path: Path, home: Path) -> None:
    assert settings(tmp_path, home, **{name: "~/own"}).cases.private_dir == home / "own"
    assert settings(tmp_path, home, **{name: "own"}).cases.private_dir == tmp_path / "own"


def test_a_folder_in_a_settings_file_lies_beside_the_file(tmp_path: Path, home: Path) -> None:
    project = tmp_path / "work"
    (project / "deep").mkdir(parents=True)
    file = project / "hermes-dx.toml"
    file.write_text('[cases]\nprivate_dir = "our-cases"\n', encoding="utf-8")
    file.chmod(0o644)
    assert settings(project / "deep", home).cases.private_dir == project.resolve() / "our-cases"


def test_only_a_model_on_this_machine_reads_private_cases_unless_allowed(tmp_path: Path, home: Path) -> None:
    local = {"HERMES_DX_LLM_BASE_URL": "http://localhost:8000/v1"}
    assert settings(tmp_path, home, **local).sends_private_cases
    assert not settings(tmp_path, home).sends_private_cases
    assert settings(tmp_path, home, HERMES_DX_CASES_SEND_PRIVATE="true").sends_private_cases


def test_a_stored_diagnosis_is_made_anew_when_private_cases_change(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    request = Request(paths=(), private_cases=folder)
    empty = key(request)
    path = put(folder, {"id": "our-backup", **draft()})
    first = key(request)
    assert key(request) == first
    os.utime(path, ns=(1, 1))
    second = key(request)
    assert len({empty, first, second}) == 3
