"""``hermes-dx doctor``."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from hermes_agent.cli.commands import doctor
from hermes_agent.cli.commands.doctor import Line, configuration, formats, installation, with_tested
from tests.hermes_agent.cli.execution import execute
from tests.hermes_agent.llm.fake_endpoint import said, serving
from tools.errors import ExitCode
from tools.sources.registry import RECORDS, TRACES

pytestmark = pytest.mark.usefixtures("commands_cache")


def named(lines: list[Line], section: str) -> dict[str, Line]:
    return {line.name: line for line in lines if line.section == section}


def test_the_packages_and_extras_are_those_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    requires = ["numpy>=2", "no-such-package>=1; python_version > '3'", "dask[distributed]<3; extra == 'scale'"]
    requires += ["no-such-bolt; extra == 'slack'", "mypy; extra == 'dev'"]
    installed, own = metadata.distribution, type("Found", (), {"requires": requires})
    monkeypatch.setattr(metadata, "distribution", lambda name: own if name == "hermes-dx" else installed(name))
    lines = list(installation())
    packages, extras = named(lines, "packages"), named(lines, "extras")
    assert {name: line.status for name, line in packages.items()} == {"numpy": "ok", "no-such-package": "missing"}
    assert extras["slack"].status == "missing"
    assert extras["slack"].remedy == "pip install 'hermes-dx[slack]'"
    assert "dev" not in extras
    assert execute(doctor) == ExitCode.INPUT


def test_a_sound_installation_passes_and_says_what_is_read(
    commands_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(doctor, "--json") == ExitCode.OK
    rows = [Line(**row) for row in json.loads(capsys.readouterr().out)["rows"]]
    assert {each.name for each in TRACES} | {each.name for each in RECORDS} <= set(named(rows, "reads"))
    assert list(named(rows, "cache")) == [str(commands_cache)]
    assert named(rows, "model")["none"].status == "ok"
    assert execute(doctor) == ExitCode.OK
    assert "  ok numpy" in capsys.readouterr().out
    assert list(formats())


def test_settings_that_are_wrong_or_not_taken_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "hermes-dx.toml"
    project.write_text('cache_dir = "elsewhere"\n')
    (not_taken,) = [line for line in configuration(tmp_path, online=False) if line.name == "not taken"]
    assert "cache_dir is not taken from a project file" in not_taken.value
    assert execute(doctor) == ExitCode.OK
    project.write_text("colour = 1\n")
    (wrong,) = configuration(tmp_path, online=False)
    assert (wrong.status, "colour is not a setting" in wrong.value) == ("wrong", True)
    assert execute(doctor) == ExitCode.INPUT


def test_the_model_is_asked_with_online_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HERMES_DX_LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("HERMES_DX_LLM_MODEL", "tiny")
    monkeypatch.setenv("HERMES_DX_LLM_MAX_RETRIES", "0")
    *_, offline = configuration(tmp_path, online=False)
    assert (offline.name, offline.status) == ("tiny", "not_checked")
    *_, refused = configuration(tmp_path, online=True)
    assert refused.status == "wrong"
    assert "127.0.0.1:9" in refused.remedy
    with serving(said("OK")) as endpoint:
        monkeypatch.setenv("HERMES_DX_LLM_BASE_URL", endpoint.url)
        *_, answered = configuration(tmp_path, online=True)
    assert (answered.status, len(endpoint.bodies)) == ("ok", 1)
    assert answered.value.endswith("it answers")


@pytest.mark.parametrize(
    ("installed", "shown"),
    [
        ("2.1.9", "2.1.9 (tested: >=2.2,<3, older than tested)"),
        ("2.2", "2.2 (tested: >=2.2,<3)"),
        ("2.2.0", "2.2.0 (tested: >=2.2,<3)"),
        ("2.10.1", "2.10.1 (tested: >=2.2,<3)"),
        ("3.0.0", "3.0.0 (tested: >=2.2,<3, newer than tested)"),
    ],
)
def test_a_version_outside_the_tested_range_says_on_which_side(installed: str, shown: str) -> None:
    assert with_tested(installed, "<3,>=2.2") == shown


def test_one_tested_version_has_both_sides() -> None:
    assert with_tested("8.2.8", "==8.2.8") == "8.2.8 (tested: ==8.2.8)"
    assert with_tested("8.2.7", "==8.2.8").endswith("older than tested)")
    assert with_tested("8.2.10", "==8.2.8").endswith("newer than tested)")
    assert with_tested("1.0", "") == "1.0"
