"""Times of steps by the tokens of one, which a line above them states, and the tokens per second of their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read

HEAD = "Tokens / optimizer step : 32,768\nMax steps               : 1,000\n"


def lines(more: str = "", first: int = 100) -> str:
    return "".join(
        f"step   {step} | loss 1.5 | lr 1.8e-04 | {20 + step % 3}.5k tok/s | mfu 37.5%{more}\n"
        for step in range(first, first + 200, 10)
    )


def test_a_step_takes_its_tokens_over_those_per_second(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + lines())
    assert log.tokens_per_step is not None
    assert log.tokens_per_step.line == 1
    assert log.steps["wall_ms"].iloc[0] == pytest.approx(1e3 * 32_768 / 21_500)
    assert log.step_time == "unstated"
    assert log.throughput is None
    assert log.whole_run["steps"].value == "1000"


@pytest.mark.parametrize(
    "head",
    [
        "",
        "Tokens per step per GPU: 32768\n",
        "tokens per step: 32,768\ntokens per step: 65,536\n",
        "tokens per second: 32768\n",
    ],
)
def test_no_time_follows_from_what_is_not_stated_of_the_whole_step(tmp_path: Path, head: str) -> None:
    log = read(tmp_path, head + lines())
    assert log.steps.empty
    assert log.throughput is not None
    assert log.tokens_per_step is None


def test_a_time_that_the_lines_state_stays(tmp_path: Path) -> None:
    log = read(tmp_path, HEAD + lines(" | step time 250 ms"))
    assert (log.steps["wall_ms"] == 250).all()
    assert log.tokens_per_step is None


def test_a_number_with_commas_is_no_step_of_its_first_digits(tmp_path: Path) -> None:
    log = read(tmp_path, "Steps so far / step 12,345 done 3 tok/s\n" + lines(" | step time 250 ms"))
    assert log.steps["step"].min() == 100
