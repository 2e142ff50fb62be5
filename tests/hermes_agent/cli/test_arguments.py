"""Restrictions to steps and ranks mean what they say, or are refused."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from hermes_agent.cli.arguments import rank_numbers, step_range, writable
from hermes_agent.cli.commands import ask
from tests.hermes_agent.cli.execution import execute
from tools.errors import UsageError


@pytest.mark.parametrize(("text", "steps"), [("5:9", (5, 9)), ("5", (5, 5)), ("0:0", (0, 0))])
def test_steps_are_a_range_with_both_ends(text: str, steps: tuple[int, int]) -> None:
    assert step_range(text) == steps


@pytest.mark.parametrize("text", ["9:5", "x", "5:", ":5", "", "1:2:3"])
def test_no_range_of_steps_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        step_range(text)


@pytest.mark.parametrize(("text", "ranks"), [("3,0", (0, 3)), ("0-3", (0, 1, 2, 3)), ("1,1-2", (1, 2))])
def test_ranks_are_listed_or_spanned(text: str, ranks: tuple[int, ...]) -> None:
    assert rank_numbers(text) == ranks


@pytest.mark.parametrize("text", ["x", "", "5-3", "0-", "0-99999999999", "0,,1"])
def test_no_list_of_ranks_is_refused_rather_than_taken_for_all(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        rank_numbers(text)


def test_a_place_that_cannot_take_a_file_is_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        writable(tmp_path)
    with pytest.raises(UsageError, match="there is no folder"):
        writable(tmp_path / "none" / "x.json")
    assert writable(tmp_path / "x.json") == tmp_path / "x.json"


@pytest.mark.usefixtures("commands_cache")
def test_a_log_is_read_by_a_pattern_of_the_option_or_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ticks take 500 and 510 ms in turn; a bad pattern is one sentence before anything is read."""
    log = tmp_path / "ticks"
    log.write_text("\n".join(f"tick {at}: {0.5 + at % 2 / 100} sec" for at in range(30)))
    pattern = r"tick (?P<step>\d+): (?P<time_s>[\d.]+)"
    assert execute(ask, str(log), "how long is a step?", "--log-pattern", pattern) == 0
    assert "505" in capsys.readouterr().out
    monkeypatch.setenv("HERMES_DX_LOG_PATTERN", pattern)
    assert execute(ask, str(log), "how long is a step?") == 0
    assert "505" in capsys.readouterr().out
    with pytest.raises(UsageError, match="has no group for a time"):
        execute(ask, "missing", "why?", "--log-pattern", "x")
