"""``hermes-dx compare``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_agent.cli import compare
from hermes_agent.demo.data import demo_fixed_run, demo_run
from tests.hermes_agent.cli.commands import execute
from tools.errors import ExitCode, NotComparableError

pytestmark = pytest.mark.usefixtures("commands_cache")


def test_the_bundled_run_is_faster_after_the_fix(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(compare, str(demo_run()), str(demo_fixed_run()), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    steps = {each["run"]: each["value"] for each in record["evidence"] if each["metric"] == "step_time_ms"}
    assert steps["run"] < 0.7 * steps["baseline"]
    assert record["changes"]
    for sentence in (record["headline"], *record["changes"]):
        assert "{" not in sentence


def test_the_text_names_the_changes_without_ids(capsys: pytest.CaptureFixture[str]) -> None:
    execute(compare, str(demo_run()), str(demo_fixed_run()))
    out = capsys.readouterr().out
    assert "[E" not in out
    assert len(out.splitlines()) > 1


def test_small_differences_are_counted_and_stay_in_the_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "NOISE_PCT", 20.0)
    execute(compare, str(demo_run()), str(demo_fixed_run()))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("- 1 smaller difference below 18.")
    assert not any("_upsample_bicubic2d_aa" in line for line in lines)
    execute(compare, str(demo_run()), str(demo_fixed_run()), "--json")
    assert "_upsample_bicubic2d_aa" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "allowed", "code"),
    [
        (demo_run, demo_fixed_run, "0", ExitCode.OK),
        (demo_fixed_run, demo_run, "5", ExitCode.REGRESSION),
        (demo_fixed_run, demo_run, "500%", ExitCode.OK),
    ],
)
def test_a_step_longer_than_allowed_has_its_own_exit_code(
    before: Callable[[], Path],
    after: Callable[[], Path],
    allowed: str,
    code: ExitCode,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert execute(compare, str(before()), str(after()), "--fail-on-regression", allowed) == code
    printed = capsys.readouterr()
    assert printed.out
    assert ("regression: the average step is" in printed.err) == (code is ExitCode.REGRESSION)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "much"])
def test_a_limit_that_is_no_percentage_is_a_usage_error(text: str) -> None:
    with pytest.raises(SystemExit):
        execute(compare, "a", "b", f"--fail-on-regression={text}")


def test_runs_that_cannot_be_compared_are_refused_with_the_reason(traces: Path) -> None:
    control, test = (str(traces / "hta" / f"trace_diff_{name}.json.gz") for name in ("control", "test"))
    with pytest.raises(NotComparableError, match="another world size") as caught:
        execute(compare, control, test)
    assert caught.value.exit_code == ExitCode.INPUT
