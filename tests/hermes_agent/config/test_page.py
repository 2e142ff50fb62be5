"""docs/configuration.md is written from the settings, and what it says of a setting holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.config.page import PATH, VARIABLES, Setting, page, settings
from hermes_agent.config.settings import Settings
from hermes_agent.config.sources import NOT_SETTINGS
from tools.errors import UsageError

REPOSITORY = Path(__file__).resolve().parents[3]
VALUES = {"text": "http://x/v1", "path": "/x", "true or false": "true", "whole number": "3", "number": "3"}
NEEDS = {"MAX_COST", "PROMPT_PER_MILLION", "COMPLETION_PER_MILLION"}  # only with one another


def test_the_page_is_current_and_names_every_variable() -> None:
    assert (REPOSITORY / PATH).read_text(encoding="utf-8") == page()
    assert set(NOT_SETTINGS) <= VARIABLES.keys()


@pytest.mark.parametrize("setting", list(settings()), ids=lambda each: ".".join(each.path))
def test_each_setting_is_taken_from_its_variable(setting: Setting, tmp_path: Path) -> None:
    variable, value = setting.variable, setting.takes.partition(",")[0].strip("`")
    name = variable.removeprefix("HERMES_DX_BUDGET_")
    kind = next((each for each in VALUES if setting.takes.startswith(each)), "")
    text = "3" if setting.path == ("thresholds",) else VALUES.get(kind, value)
    given = {f"{variable}_CHANGE_NOISE_PCT" if setting.path == ("thresholds",) else variable: text}
    if name in NEEDS:
        given |= {f"HERMES_DX_BUDGET_{each}": "3" for each in NEEDS}
    found = Settings.load(tmp_path, {"HOME": str(tmp_path), **given}).model_dump(mode="json")
    for key in setting.path:
        found = found[key]
    assert str(found).lower() in (text, f"{text}.0", "{'change_noise_pct': 3.0}")


@pytest.mark.parametrize("setting", [each for each in settings() if each.path[0] != "thresholds"], ids=str)
def test_a_project_file_sets_what_the_page_does_not_keep_to_the_users_own(setting: Setting, tmp_path: Path) -> None:
    *above, key = setting.path
    head = f"[{'.'.join(above)}]\n" if above else ""
    (tmp_path / "hermes-dx.toml").write_text(f'{head}{key} = "?"\n')
    if setting.own_file_only:
        (note,) = Settings.load(tmp_path, {"HOME": str(tmp_path)}).notes
        assert "not taken from a project file" in note
    elif setting.takes != "text":
        with pytest.raises(UsageError, match=key):
            Settings.load(tmp_path, {"HOME": str(tmp_path)})
