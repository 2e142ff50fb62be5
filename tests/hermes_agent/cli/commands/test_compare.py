"""``hermes-dx compare``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_agent.cli.commands import compare
from hermes_agent.cli.comparison_markdown import comparison_markdown, refusal_markdown
from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.run_comparison import Gate, compared, judged
from tests.hermes_agent.cli.commands.test_steps import rank
from tests.hermes_agent.cli.execution import execute
from tests.recorded_runs import records_of, step_rows, untraced_profile
from tests.synthetic import profile_of
from tools.errors import ExitCode, NotComparableError
from tools.views.profile import Profile

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
    assert ("hermes-dx: regression: the average step is" in printed.err) == (code is ExitCode.REGRESSION)


@pytest.mark.parametrize("text", ["-1", "nan", "inf", "much"])
def test_a_limit_that_is_no_percentage_is_a_usage_error(text: str) -> None:
    with pytest.raises(SystemExit):
        execute(compare, "a", "b", f"--fail-on-regression={text}")


def test_runs_that_cannot_be_compared_are_refused_with_the_reason(traces: Path) -> None:
    control, test = (str(traces / "hta" / f"trace_diff_{name}.json.gz") for name in ("control", "test"))
    with pytest.raises(NotComparableError, match="another world size") as caught:
        execute(compare, control, test)
    assert caught.value.exit_code == ExitCode.NOT_COMPARABLE


def steps_of(*walls_ms: float) -> Profile:
    return untraced_profile(records_of([step_rows(0, list(walls_ms))]))


def gate_of(before: Sequence[float], after: Sequence[float], allowed_pct: float) -> Gate:
    return judged(compared(steps_of(*before), steps_of(*after)), allowed_pct)


EVEN = [100.0, 101.0, 99.0] * 20


def test_a_longer_step_within_noise_is_no_regression() -> None:
    assert gate_of(EVEN, [each * 1.2 for each in EVEN], 5.0).outcome == "regression"
    spread = [80.0, 80.0, 80.0, 80.0, 80.0, 280.0] * 4
    noisy = gate_of(spread[:12], [each * 1.2 for each in spread[6:18]], 5.0)
    assert noisy.outcome == "within_noise"
    assert "within the noise of the steps (95 % interval -" in noisy.reason
    little = gate_of(EVEN, [each * 1.02 for each in EVEN], 1.0)
    assert little.outcome == "within_noise"
    assert "two recordings of one program differ by as much (3 %)" in little.reason
    assert gate_of(EVEN, [each * 1.2 for each in EVEN], 25.0).outcome == "passed"
    assert gate_of(EVEN, [each * 0.9 for each in EVEN], 0.0).outcome == "passed"


def test_a_longer_step_of_too_few_steps_cannot_be_judged_but_a_shorter_one_passes() -> None:
    one, two = (profile_of(rank(0, [us])) for us in (1000.0, 2000.0))
    assert judged(compared(one, two), 5.0).outcome == "not_assessable"
    assert judged(compared(two, one), 5.0).outcome == "passed"
    assert compare.EXIT_CODES["not_assessable"] == ExitCode.INCONCLUSIVE


def test_the_summary_of_a_job_gets_the_markdown_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    runs = (str(demo_fixed_run()), str(demo_run()))
    assert execute(compare, *runs, "--md", "--fail-on-regression", "5") == ExitCode.REGRESSION
    printed = capsys.readouterr()
    assert summary.read_text() == f"before\n{printed.out}\n"
    found = printed.out.splitlines()
    assert "**Regression:** the average step is 94.6 % longer, 5 % is allowed (95 % interval" in printed.out
    assert "hermes-dx: regression: the average step is 94.6 % longer" in printed.err
    rows = [line.split(" | ") for line in found if line.startswith("| ")][1:]
    assert [row[0] for row in rows][:2] == ["| average unprofiled step", "| data wait (traced steps)"]
    assert rows[0][1:3] == ["48.52 ms", "94.41 ms"]
    execute(compare, *runs, "--json")
    assert summary.read_text() == f"before\n{printed.out}\n"  # neither a gate nor Markdown was asked for
    record = json.loads(capsys.readouterr().out)
    low, high = record["step_change_interval_pct"]
    assert low < record["step_change_pct"] < high
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    assert execute(compare, *runs, "--md") == ExitCode.OK
    assert "cannot be written: Is a directory" in capsys.readouterr().err


def test_a_refusal_in_markdown_holds_no_markup_of_the_run() -> None:
    text = refusal_markdown("another device model (<img src=x> @everyone `x` [a](b); \x1b[2J)")
    line = text.splitlines()[-1]
    assert line == (r"**Not comparable:** another device model (\<img src=x\> \@everyone \`x\` \[a\](b);  \[2J)")


def test_many_changes_are_cut_in_markdown_and_recorded_parts_have_names() -> None:
    before, after = (
        untraced_profile(records_of([step_rows(0, [wall_ms] * 40, gc_ms=pause_ms)]))
        for wall_ms, pause_ms in ((100.0, 0.0), (150.0, 50.0))
    )
    found = compared(before, after)
    text = comparison_markdown(replace(found, changes=found.changes * 30), None)
    assert "| garbage collection | 0.00 ms | 50.00 ms | +50.00 ms |" in text
    assert f"- {30 * len(found.changes) - 20} more: `hermes-dx compare A B --json`" in text
    assert "**" not in text
