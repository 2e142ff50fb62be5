"""A job that began again in the same output: how often, what was lost, and what does not count as that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tools.analyzers.registry import check_of
from tools.errors import UsageError
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

BEGIN = datetime(2026, 11, 23, 11, 0, tzinfo=UTC)


def lines(first: int, last: int, begin_s: float, dated: bool = True, loss: str = "2.5") -> str:
    """Steps of 2 s with a time, each line written at the end of its step."""
    text = ""
    for place, step in enumerate(range(first, last + 1)):
        at = BEGIN + timedelta(seconds=begin_s + 2 * place)
        text += f"{at:%Y-%m-%d %H:%M:%S},000 " * dated + f"step {step} loss {loss} step time: 2.0 s\n"
    return text


def profile_of(folder: Path, text: str) -> Profile:
    (folder / "train.log").write_text(text)
    return Profile(load_run([folder / "train.log"]))


def test_restarts_count_steps_printed_again_and_the_time_between_the_lines(tmp_path: Path) -> None:
    # Steps 1 to 300 end at 598 s, 201 to 400 begin at 898 s and end at 1296 s, 351 on begin at 1316 s.
    text = lines(1, 300, 0) + lines(201, 400, 898) + lines(351, 360, 1316)
    profile = profile_of(tmp_path, text)
    assert measure(profile, "restarts").value == 2.0
    assert measure(profile, "repeated_steps").value == 100.0 + 50.0
    assert measure(profile, "restart_down_s").value == pytest.approx(300.0 + 20.0)
    check = check_of(profile, "step_time.restarts")
    assert check is not None
    assert [fact.value for said in check.support for fact in said.facts] == [2.0, 150.0, 320.0]


def test_without_dates_the_time_between_is_not_known(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, lines(1, 300, 0, dated=False) + lines(201, 400, 0, dated=False))
    assert measure(profile, "repeated_steps").value == 100.0
    with pytest.raises(UsageError, match="do not state when they were written"):
        measure(profile, "restart_down_s")


def test_rising_steps_epochs_ranks_another_training_and_an_evaluation_are_no_restarts(tmp_path: Path) -> None:
    twice = "".join(line + line for line in lines(1, 50, 0).splitlines(keepends=True))
    epochs = "".join(
        f"Epoch [{epoch}] step {step} loss 2.5 step time: 2.0 s\n" for epoch in (1, 2, 3) for step in range(50)
    )
    again = lines(1, 100, 0) + lines(1, 100, 300)
    checked = lines(1, 100, 0) + "".join(lines(step, step, 300 + step) for step in range(20, 100, 20))
    for text in (lines(1, 100, 0), twice, epochs, again, checked):
        assert check_of(profile_of(tmp_path, text), "step_time.restarts") is None


@pytest.mark.parametrize(
    "line",
    [
        "I1123 11:02:03.123456 12 api.py:892] worker group FAILED. 2/3 attempts left; will restart worker group",
        "  restart_count=1",
        "slurmstepd: error: *** JOB 4711 ON node7 CANCELLED AT 2026-11-23T11:02:03 DUE TO PREEMPTION ***",
        "Job 4711 has been requeued",
    ],
)
def test_lines_of_launchers_about_restarts_are_counted(tmp_path: Path, line: str) -> None:
    profile = profile_of(tmp_path, lines(1, 40, 0) + line + "\n" + lines(41, 60, 100))
    assert measure(profile, "warning_lines", kind="job_restart").value == 1.0


def test_the_first_start_of_torchrun_is_no_restart(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, "  restart_count=0\n" + lines(1, 40, 0))
    with pytest.raises(UsageError):
        measure(profile, "warning_lines", kind="job_restart")


@pytest.mark.parametrize(("loss", "share"), [("nan", 20.0), ("-inf", 20.0), ("2.5", None), ("banana", None)])
def test_steps_without_a_finite_loss_are_counted_in_a_hundred(tmp_path: Path, loss: str, share: float | None) -> None:
    profile = profile_of(tmp_path, lines(1, 80, 0) + lines(81, 100, 160, loss=loss))
    if share is None:
        with pytest.raises(UsageError):
            measure(profile, "not_finite_pct")
    else:
        assert measure(profile, "not_finite_pct").value == pytest.approx(share)
