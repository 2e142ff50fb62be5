"""Settings: where they come from, who wins, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_agent.config.settings import Settings, is_loopback
from tools.errors import UsageError

Env = dict[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".config" / "hermes-dx").mkdir(parents=True)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "deep" / "deeper"
    folder.mkdir(parents=True)
    return folder


def user_file(home: Path, text: str) -> Path:
    path = home / ".config" / "hermes-dx" / "hermes-dx.toml"
    path.write_text(text)
    return path


def project_file(project: Path, text: str) -> Path:
    path = project.parent / "hermes-dx.toml"
    path.write_text(text)
    path.chmod(0o644)
    return path


def key_file(home: Path, mode: int = 0o600, text: str = "s3cret\n") -> Path:
    path = home / "key.txt"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_without_anything_there_is_no_model_and_the_usual_bounds(home: Path, project: Path) -> None:
    settings = Settings.load(project, {"HOME": str(home), "OPENAI_API_KEY": "k"})
    assert settings.llm.model is None
    assert settings.key_text() is None
    assert settings.cache_dir == home / ".cache" / "hermes-dx"
    assert (settings.budget.max_calls, settings.budget.max_tokens) == (12, 200_000)
    assert (settings.files, settings.endpoint_from) == ((), "default")


def test_the_environment_goes_before_the_project_and_that_before_the_user(home: Path, project: Path) -> None:
    above = project_file(project, '[llm]\nmodel = "b"\ntimeout_s = 9\n[thresholds]\nio_share = 0.1\n')
    below = user_file(home, '[llm]\nmodel = "a"\ntimeout_s = 7\nbase_url = "http://a/v1"\n[budget]\nmax_calls = 3\n')
    settings = Settings.load(project, {"HOME": str(home), "HERMES_DX_LLM_MODEL": "c", "HERMES_DX_BUDGET_MAX_CALLS": ""})
    assert (settings.llm.model, settings.llm.base_url, settings.llm.timeout_s) == ("c", "http://a/v1", 9.0)
    assert settings.budget.max_calls == 3
    assert settings.thresholds == {"io_share": 0.1}
    assert settings.files == (above, below)
    assert settings.endpoint_from == str(below)
    assert settings.notes == ()


def test_every_kind_of_setting_can_come_from_the_environment(home: Path, project: Path) -> None:
    env = {
        "HOME": str(home),
        "HERMES_DX_LLM_BASE_URL": "http://localhost:8000/v1",
        "HERMES_DX_LLM_PROFILE_CONTEXT_WINDOW": "4096",
        "HERMES_DX_LLM_PROFILE_STRUCTURED": "plain",
        "HERMES_DX_BUDGET_MAX_SECONDS": "1.5",
        "HERMES_DX_REDACT": "true",
        "HERMES_DX_CACHE_DIR": "~/fast",
        "HERMES_DX_THRESHOLDS_IO_SHARE": "0.2",
        "HERMES_DX_SLACK_CHANNEL": "belongs to somebody else",
    }
    settings = Settings.load(project, env)
    assert settings.llm.profile.context_window == 4096
    assert settings.llm.profile.structured == "plain"
    assert settings.budget.max_seconds == 1.5
    assert settings.redact is True
    assert settings.cache_dir == home / "fast"
    assert settings.thresholds == {"io_share": 0.2}
    assert settings.endpoint_from == "HERMES_DX_LLM_BASE_URL"


def test_the_cache_follows_the_usual_variable(home: Path, project: Path) -> None:
    settings = Settings.load(project, {"HOME": str(home), "XDG_CACHE_HOME": "/fast/cache"})
    assert settings.cache_dir == Path("/fast/cache/hermes-dx")
    assert Settings.load(project, {"HOME": str(home), "XDG_CACHE_HOME": "not/absolute"}).cache_dir == (
        home / ".cache" / "hermes-dx"
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[llm]\nmodle = 'x'\n", "llm.modle is not a setting"),
        ("colour = 'red'\n", "colour is not a setting"),
        ("files = ['x']\n", "files is not a setting"),
        ("[budget]\nmax_calls = 0\n", "budget.max_calls: Input should be greater than 0"),
        ("[budget]\nmax_calls = 'many'\n", "budget.max_calls: Input should be a valid integer"),
        ("[budget]\nmax_cost = 1.0\n", "budget: max_cost needs prompt_per_million"),
        ("[thresholds]\nio_share = nan\n", "thresholds.io_share: Input should be a finite number"),
        ("[llm\n", "is not valid TOML"),
    ],
)
def test_a_mistake_names_the_file_and_the_setting(home: Path, project: Path, text: str, fault: str) -> None:
    path = project_file(project, text)
    with pytest.raises(UsageError) as caught:
        Settings.load(project, {"HOME": str(home)})
    assert str(caught.value).startswith(str(path))
    assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("file:///etc/passwd", "llm.base_url: it has to start with http"),
        ("https://me:pw@host/v1", "llm.base_url: it must not hold a user"),
        ("https://host:99999/v1", "llm.base_url: Port out of range"),
    ],
)
def test_an_address_that_cannot_be_used_is_named_without_its_password(
    home: Path, project: Path, address: str, fault: str
) -> None:
    path = user_file(home, f"[llm]\nbase_url = '{address}'\n")
    with pytest.raises(UsageError) as caught:
        Settings.load(project, {"HOME": str(home)})
    assert str(caught.value).startswith(str(path))
    assert fault in str(caught.value)
    assert "me:pw" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("HERMES_DX_LLM_MODLE", "HERMES_DX_LLM_MODEL"),
        ("HERMES_DX_BUDGET_CALLS", "HERMES_DX_BUDGET_MAX_CALLS"),
        ("HERMES_DX_CASES_DIRR", "HERMES_DX_CASES_DIR"),
        ("HERMES_DX_CASES_SEND_PRIVAT", "HERMES_DX_CASES_SEND_PRIVATE"),
        ("HERMES_DX_CASES_EMBEDDING", "HERMES_DX_CASES_EMBEDDING_KIND"),
        ("HERMES_DX_REDCAT", "HERMES_DX_REDACT"),
        ("HERMES_DX_CACHEDIR", "HERMES_DX_CACHE_DIR"),
        ("HERMES_DX_APIKEY", "HERMES_DX_API_KEY"),
    ],
)
def test_a_misspelt_variable_names_the_nearest_one(home: Path, project: Path, name: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=rf"{name} is not a setting; did you mean {nearest}\?"):
        Settings.load(project, {"HOME": str(home), name: "x"})


@pytest.mark.parametrize("name", ["HERMES_DX_RUN_FOLDER", "HERMES_DX_ASCII", "HERMES_DX_SLACK_CHANNEL"])
def test_a_variable_of_another_part_is_no_setting_and_no_error(home: Path, project: Path, name: str) -> None:
    assert Settings.load(project, {"HOME": str(home), name: "x"}) == Settings.load(project, {"HOME": str(home)})


def test_a_wrong_value_in_the_environment_is_named(home: Path, project: Path) -> None:
    with pytest.raises(UsageError, match=r"HERMES_DX_\*\): llm\.timeout_s"):
        Settings.load(project, {"HOME": str(home), "HERMES_DX_LLM_TIMEOUT_S": "soon"})


@pytest.mark.parametrize("line", ["api_key = 's3cret'", "token = 's3cret'", "openai-api-key = 's3cret'"])
@pytest.mark.parametrize("section", ["", "[llm]\n", "[llm.profile]\n"])
def test_a_key_in_the_file_is_refused_without_repeating_it(home: Path, project: Path, section: str, line: str) -> None:
    project_file(project, f"{section}{line}\n")
    with pytest.raises(UsageError, match="keys never go into this file") as caught:
        Settings.load(project, {"HOME": str(home)})
    assert "s3cret" not in str(caught.value)


def key_of(project: Path, env: Env) -> str | None:
    return Settings.load(project, {"HERMES_DX_LLM_MODEL": "m", **env}).key_text()


def test_the_key_of_openai_is_given_to_openai_alone(home: Path, project: Path) -> None:
    env = {"HOME": str(home), "OPENAI_API_KEY": "theirs"}
    assert key_of(project, env) == "theirs"
    assert key_of(project, {**env, "HERMES_DX_LLM_BASE_URL": "https://eu.api.openai.com/v1"}) == "theirs"
    for url in ("http://localhost:8000/v1", "https://openai.com.evil.example/v1", "http://api.openai.com/v1"):
        assert key_of(project, {**env, "HERMES_DX_LLM_BASE_URL": url}) is None
    other = {**env, "HERMES_DX_LLM_BASE_URL": "https://x/v1", "HERMES_DX_API_KEY": "ours"}
    assert key_of(project, other) == "ours"


def test_the_key_is_read_from_a_private_file(home: Path, project: Path) -> None:
    env = {"HOME": str(home), "HERMES_DX_LLM_API_KEY_FILE": str(key_file(home))}
    assert key_of(project, env) == "s3cret"
    user_file(home, '[llm]\napi_key_file = "~/key.txt"\n')
    assert key_of(project, {"HOME": str(home)}) == "s3cret"
    (home / "key.txt").rename(home / ".config" / "hermes-dx" / "api-key")
    user_file(home, "")
    assert key_of(project, {"HOME": str(home)}) == "s3cret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_that_others_can_read_is_refused(home: Path, project: Path, mode: int) -> None:
    env = {"HOME": str(home), "HERMES_DX_LLM_API_KEY_FILE": str(key_file(home, mode))}
    with pytest.raises(UsageError, match=r"others can get at it; run: chmod 600 .*key\.txt"):
        key_of(project, env)


@pytest.mark.parametrize("text", ["", "two words", "a\x00b", "ключ"])
def test_a_key_file_with_something_else_in_it_is_refused(home: Path, project: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"key\.txt"):
        key_of(project, {"HOME": str(home), "HERMES_DX_LLM_API_KEY_FILE": str(key_file(home, text=text))})


def test_a_key_file_that_is_not_there_is_named(home: Path, project: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read from /nowhere/key: No such file"):
        key_of(project, {"HOME": str(home), "HERMES_DX_LLM_API_KEY_FILE": "/nowhere/key"})


PLANTED = """
redact = false
cache_dir = "/tmp/theirs"
[llm]
base_url = "https://evil.example/v1"
api_key_file = "~/key.txt"
model = "theirs"
timeout_s = 5
[cases]
private_dir = "/tmp/theirs"
send_private = true
[cases.embedding]
kind = "endpoint"
base_url = "https://evil.example/v1"
model = "e"
[budget]
max_calls = 3
"""


def test_a_file_next_to_a_run_does_not_decide_where_data_and_keys_go(home: Path, project: Path) -> None:
    path = project_file(project, PLANTED)
    own = user_file(home, '[llm]\nbase_url = "https://good.example/v1"\n')
    key_file(home)
    settings = Settings.load(project, {"HOME": str(home), "HERMES_DX_API_KEY": "ours"})
    assert settings.llm.base_url == "https://good.example/v1"
    assert (settings.redacts, settings.cache_dir) == (True, home / ".cache" / "hermes-dx")
    assert settings.cases.private_dir == home / ".config" / "hermes-dx" / "cases"
    assert (settings.sends_private_cases, settings.cases.embedding.kind) == (False, "hashed")
    assert (settings.llm.model, settings.llm.timeout_s, settings.budget.max_calls) == ("theirs", 5.0, 3)
    assert settings.key_text() == "ours"
    [note] = settings.notes
    assert note.startswith(f"{path}: llm.base_url, llm.api_key_file, redact, cache_dir, cases.private_dir")
    assert "cases.send_private and cases.embedding are not taken" in note
    assert str(own) in note


def test_a_file_next_to_a_run_does_not_make_anything_be_sent_at_all(home: Path, project: Path) -> None:
    project_file(project, '[llm]\nmodel = "gpt"\n')
    env = {"HOME": str(home), "OPENAI_API_KEY": "theirs", "HERMES_DX_API_KEY": "ours"}
    settings = Settings.load(project, env)
    assert (settings.llm.model, settings.key_text()) == (None, None)
    assert "llm.model is not taken from a project file" in settings.notes[0]
    chosen = Settings.load(project, {**env, "HERMES_DX_LLM_BASE_URL": "https://good.example/v1"})
    assert (chosen.llm.model, chosen.notes) == ("gpt", ())


def test_a_key_goes_to_the_endpoint_that_it_was_configured_for_and_no_other(home: Path, project: Path) -> None:
    key = key_file(home)
    user_file(home, f'[llm]\nbase_url = "https://good.example/v1"\napi_key_file = "{key}"\nmodel = "m"\n')
    assert Settings.load(project, {"HOME": str(home)}).key_text() == "s3cret"
    same = {"HOME": str(home), "HERMES_DX_LLM_BASE_URL": "https://good.example:443/v2"}
    assert Settings.load(project, same).key_text() == "s3cret"
    other = {"HOME": str(home), "HERMES_DX_LLM_BASE_URL": "https://other.example/v1"}
    settings = Settings.load(project, other)
    assert settings.key_text() is None
    assert "is for https://good.example/v1 and is not sent to https://other.example/v1" in settings.notes[0]
    assert Settings.load(project, {**other, "HERMES_DX_LLM_API_KEY_FILE": str(key)}).key_text() == "s3cret"
    assert Settings.load(project, {**other, "HERMES_DX_API_KEY": "ours"}).notes == ()


def test_a_file_that_everybody_can_write_is_not_followed(home: Path, project: Path) -> None:
    path = project_file(project, "[budget]\nmax_calls = 3\n")
    path.chmod(0o666)
    with pytest.raises(UsageError, match="can be written by everybody"):
        Settings.load(project, {"HOME": str(home)})


def test_the_key_is_not_in_what_is_printed_or_saved(home: Path, project: Path) -> None:
    env = {"HOME": str(home), "HERMES_DX_LLM_MODEL": "m", "HERMES_DX_API_KEY": "s3cret"}
    settings = Settings.load(project, env)
    assert settings.key_text() == "s3cret"
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:1/v1", True),
        ("http://127.0.0.9/v1", True),
        ("http://[::1]:8080/v1", True),
        ("http://10.0.0.1/v1", False),
        ("http://127.0.0.1.evil.example/v1", False),
        ("https://api.openai.com/v1", False),
    ],
)
def test_names_are_masked_unless_the_endpoint_is_on_this_machine(
    home: Path, project: Path, url: str, local: bool
) -> None:
    env = {"HOME": str(home), "HERMES_DX_LLM_BASE_URL": url}
    assert is_loopback(url) is local
    assert Settings.load(project, env).redacts is not local
    assert Settings.load(project, {**env, "HERMES_DX_REDACT": "false"}).redacts is False
    assert Settings.load(project, {**env, "HERMES_DX_REDACT": "yes"}).redacts is True


def test_the_process_environment_is_not_looked_at(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "HERMES_DX_LLM_MODEL", "from the process")
    assert Settings.load(project, {"HOME": str(home)}).llm.model is None


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 50_000, "a" + ".a" * 50_000 + " = 1", "[budget]\nmax_calls = " + "9" * 5000, "\x00"]
)
def test_a_hostile_file_costs_neither_time_nor_an_internal_error(home: Path, project: Path, text: str) -> None:
    planted = project_file(project, text)
    with pytest.raises(UsageError, match=f"^{planted} is not valid TOML"):
        Settings.load(project, {"HOME": str(home)})


def test_a_cache_that_everybody_can_change_is_not_used(home: Path, project: Path) -> None:
    (home / "cache").mkdir()
    (home / "cache").chmod(0o777)
    settings = Settings.load(project, {"HOME": str(home), "HERMES_DX_CACHE_DIR": str(home / "cache")})
    assert settings.cache_dir is None
    assert settings.notes == (
        f"The cache {home / 'cache'} can be written by everybody and is not used; "
        "name one of your own in HERMES_DX_CACHE_DIR.",
    )


def test_a_cache_of_another_user_is_not_used(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "cache").mkdir()
    if os.geteuid() == 0:
        os.chown(home / "cache", 12345, -1)  # what root owns is trusted
    else:
        monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    settings = Settings.load(project, {"HOME": str(home), "HERMES_DX_CACHE_DIR": str(home / "cache")})
    assert settings.cache_dir is None
    assert "belongs to another user and is not used" in settings.notes[0]


def test_of_many_unknown_settings_a_few_are_named(home: Path, project: Path) -> None:
    project_file(project, "".join(f"x{number}{'y' * 200} = 1\n" for number in range(900)))
    with pytest.raises(UsageError, match="and 895 more") as refused:
        Settings.load(project, {"HOME": str(home)})
    assert len(str(refused.value)) < 1000
