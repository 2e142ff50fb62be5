"""Where the folder of private cases is, and what a change in it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice
from hermes_agent.config.settings import Settings
from hermes_agent.llm.redact import Redactor
from hermes_agent.model.request import Request
from hermes_agent.workflow.stored import key
from tests.case_library.own_cases import draft, put
from tools.errors import UsageError


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


def test_a_folder_in_the_user_s_file_lies_next_to_that_file(tmp_path: Path, home: Path) -> None:
    folder = home / ".config" / "hermes-dx"
    (folder / "hermes-dx.toml").write_text('[cases]\nprivate_dir = "our-cases"\n', encoding="utf-8")
    assert settings(tmp_path, home).cases.private_dir == folder / "our-cases"


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


def test_where_a_folder_without_private_cases_is_makes_no_other_diagnosis(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    folders = (None, tmp_path / "empty", tmp_path / "missing")
    assert len({key(Request(paths=(), private_cases=folder)) for folder in folders}) == 1


def choice(cwd: Path, home: Path, **env: str) -> EmbeddingChoice:
    variables = {f"HERMES_DX_CASES_EMBEDDING_{name.upper()}": value for name, value in env.items() if name.islower()}
    others = {name: value for name, value in env.items() if name.isupper()}
    return settings(cwd, home, **variables, **others).embedding(others, Redactor().mask)


def test_the_embedding_needs_no_setting(tmp_path: Path, home: Path) -> None:
    assert choice(tmp_path, home) == HASHED


def test_weights_lie_where_the_setting_says(tmp_path: Path, home: Path) -> None:
    chosen = choice(tmp_path, home, kind="minilm", folder="weights")
    assert (chosen.kind, chosen.folder) == ("minilm", tmp_path / "weights")


def test_an_endpoint_elsewhere_gets_masked_names_and_no_private_case(tmp_path: Path, home: Path) -> None:
    asked = {"kind": "endpoint", "base_url": "https://vectors.example.com/v1/", "model": "small"}
    chosen = choice(tmp_path, home, **asked, HERMES_DX_EMBEDDING_API_KEY="k1", OPENAI_API_KEY="k2")
    assert (chosen.base_url, chosen.model, chosen.key) == ("https://vectors.example.com/v1", "small", "k1")
    assert chosen.mask is not None
    assert "a@b.example" not in chosen.mask("mail a@b.example")
    assert not chosen.embeds_private
    assert choice(tmp_path, home, **asked, HERMES_DX_CASES_SEND_PRIVATE="true").embeds_private
    assert choice(tmp_path, home, **asked, OPENAI_API_KEY="k2").key is None


def test_an_endpoint_on_this_machine_sees_everything(tmp_path: Path, home: Path) -> None:
    chosen = choice(tmp_path, home, kind="endpoint", base_url="http://localhost:8000/v1", model="small")
    assert chosen.mask is None
    assert chosen.embeds_private


@pytest.mark.parametrize("given", [{"kind": "minilm"}, {"kind": "endpoint", "model": "x"}, {"kind": "word2vec"}])
def test_an_incomplete_embedding_is_a_usage_error(given: dict[str, str], tmp_path: Path, home: Path) -> None:
    with pytest.raises(UsageError, match=r"cases\.embedding"):
        choice(tmp_path, home, **given)


def test_a_file_next_to_a_run_does_not_choose_where_words_are_sent(tmp_path: Path, home: Path) -> None:
    file = tmp_path / "hermes-dx.toml"
    file.write_text('[cases.embedding]\nkind = "endpoint"\nbase_url = "http://x.example"\nmodel = "m"\n', "utf-8")
    file.chmod(0o644)
    chosen = settings(tmp_path, home)
    assert chosen.cases.embedding.kind == "hashed"
    assert "cases.embedding is not taken" in chosen.notes[0]


def test_a_stored_diagnosis_belongs_to_its_embedding(tmp_path: Path) -> None:
    plain, other = Request(paths=()), Request(paths=(), embedding=EmbeddingChoice("minilm", folder=tmp_path))
    assert key(plain) != key(other)
