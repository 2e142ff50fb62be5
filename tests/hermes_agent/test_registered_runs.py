"""Registered runs: names, never paths; one private file that several processes change."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.cli.main import main
from hermes_agent.config.settings import Settings
from hermes_agent.registered_runs import MOST_PATHS, RegisteredRuns
from tools.errors import InputError, UsageError

ADD_TEN = """
import sys
from pathlib import Path
from hermes_agent.config.settings import Settings
from hermes_agent.registered_runs import RegisteredRuns
runs = RegisteredRuns.load(Settings(cache_dir=None, runs_file=Path(sys.argv[1])))
for number in range(10):
    runs.add(f"{sys.argv[2]}{number}", [Path(sys.argv[3])])
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(tmp_path, {"HOME": str(tmp_path)})


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "traces"
    folder.mkdir()
    return folder


def test_a_run_is_found_by_its_name_until_it_is_removed(settings: Settings, run_folder: Path) -> None:
    RegisteredRuns.load(settings).add("gpt-7b", [run_folder])
    assert RegisteredRuns.load(settings).get("gpt-7b").paths == (run_folder.resolve(),)
    assert RegisteredRuns.load(settings).remove("gpt-7b").paths == (run_folder.resolve(),)
    assert RegisteredRuns.load(settings).runs == {}
    assert run_folder.is_dir()


def test_the_file_is_the_users_alone_and_nothing_half_written_stays(settings: Settings, run_folder: Path) -> None:
    RegisteredRuns.load(settings).add("one", [run_folder])
    assert settings.runs_file is not None
    assert settings.runs_file.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in settings.runs_file.parent.iterdir()) == ["runs.json", "runs.lock"]


@pytest.mark.parametrize("name", ["", "..", ".hidden", "/data/run", "a/b", "a b", "a\n", "<!channel>", "x" * 65, "é"])
def test_what_is_no_name_is_refused(name: str, settings: Settings, run_folder: Path) -> None:
    with pytest.raises(UsageError, match="letters, digits, dots"):
        RegisteredRuns.load(settings).add(name, [run_folder])
    with pytest.raises(UsageError, match="there is no registered run of that name"):
        RegisteredRuns.load(settings).get(name)


def test_an_unknown_name_is_answered_with_the_nearest(settings: Settings, run_folder: Path) -> None:
    runs = RegisteredRuns.load(settings)
    with pytest.raises(UsageError, match="hermes-dx runs add NAME PATH"):
        runs.get("gpt")
    for name in ("gpt-7b", "gpt-70b", "resnet"):
        runs.add(name, [run_folder])
    with pytest.raises(UsageError, match=re.escape("no registered run gpt-7; did you mean gpt-7b, gpt-70b?")):
        runs.get("gpt-7")
    with pytest.raises(UsageError, match=r"there are gpt-70b, gpt-7b, resnet$"):
        runs.get("zzz")


def test_a_path_that_vanished_is_named(settings: Settings, run_folder: Path) -> None:
    runs = RegisteredRuns.load(settings)
    runs.add("gone", [run_folder])
    run_folder.rmdir()
    with pytest.raises(InputError, match=f"gone was registered with {run_folder.resolve()}, which is no longer there"):
        runs.get("gone")


def test_a_path_that_is_no_text_is_refused(settings: Settings, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"run\xff")
    try:
        odd.mkdir()
    except OSError:
        pytest.skip("this file system takes names of text only")
    with pytest.raises(InputError, match="cannot be registered; rename it"):
        RegisteredRuns.load(settings).add("odd", [odd])
    assert RegisteredRuns.load(settings).runs == {}


def test_a_name_is_changed_only_when_asked(settings: Settings, run_folder: Path, tmp_path: Path) -> None:
    runs = RegisteredRuns.load(settings)
    runs.add("one", [run_folder])
    with pytest.raises(UsageError, match="add --replace"):
        runs.add("one", [tmp_path])
    assert runs.add("one", [tmp_path], replace=True).paths == (tmp_path.resolve(),)
    with pytest.raises(InputError, match="no such file or folder"):
        runs.add("two", [tmp_path / "nothing"])
    with pytest.raises(UsageError, match=f"1 to {MOST_PATHS} paths"):
        runs.add("two", [run_folder] * (MOST_PATHS + 1))
    assert list(RegisteredRuns.load(settings).runs) == ["one"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"schema": "hermes-dx/runs/9", "runs": {}}',
        '{"runs": {"../x": ["/a"]}}',
        '{"runs": {"x": ["a"]}}',
    ],
)
def test_a_file_of_something_else_is_named(content: str, settings: Settings) -> None:
    assert settings.runs_file is not None
    settings.runs_file.parent.mkdir(parents=True)
    settings.runs_file.write_text(content)
    with pytest.raises(InputError, match="does not hold registered runs"):
        RegisteredRuns.load(settings)


def test_several_processes_lose_nothing(settings: Settings, run_folder: Path) -> None:
    command = [sys.executable, "-c", ADD_TEN, str(settings.runs_file)]
    started = [subprocess.Popen([*command, letter, str(run_folder)]) for letter in "abc"]
    assert [each.wait(60) for each in started] == [0, 0, 0]
    assert len(RegisteredRuns.load(settings).runs) == 30


def test_the_commands_add_list_and_remove(
    tmp_path: Path, run_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    assert main(["runs", "add", "one", str(run_folder)]) == 0
    assert main(["runs", "add", "url", "s3://bucket/run"]) == 2
    capsys.readouterr()
    assert main(["runs", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "one", "paths": [str(run_folder.resolve())], "found": True}]
    run_folder.rmdir()
    assert main(["runs", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["one", "missing"]
    assert main(["runs", "remove", "on"]) == 2
    assert "did you mean one?" in capsys.readouterr().err
    assert main(["runs", "remove", "one"]) == 0
    assert main(["runs", "list"]) == 0
    assert capsys.readouterr().out == ""
