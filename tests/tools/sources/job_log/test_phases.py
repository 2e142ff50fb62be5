"""Timers of DeepSpeed without step lines, and single lines with the time of a step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron, read
from tools.analyzers.registry import check_of
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

MICRO = "rank=0 time (ms) | fwd_microstep: 90.0 | bwd_microstep: 200.0 | step_microstep: 700.0\n"
WHOLE = "rank=0 time (ms) | fwd: 100.0 | bwd: 200.0 | bwd_inner: 190.0 | bwd_allreduce: 10.0 | step: {}\n"


def profile_of(folder: Path, text: str) -> Profile:
    (folder / "job.out").write_text(text)
    return Profile(load_run([folder]))


def test_forward_backward_and_step_are_a_step_where_no_line_names_one(tmp_path: Path) -> None:
    log = read(tmp_path, "".join(MICRO + WHOLE.format(ms) for ms in (700.0, 900.0)))
    assert log.steps["wall_ms"].tolist() == [1000.0, 1200.0]
    assert set(log.timers["name"]) >= {"forward", "backward", "bwd_inner", "bwd_allreduce", "step"}


def test_one_line_of_timers_states_the_shares_of_its_step(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, MICRO + WHOLE.format(700.0))
    assert profile.series is None
    assert measure(profile, "printed_timer_pct", name="step").value == pytest.approx(70.0)
    check = check_of(profile, "step_time.timers")
    assert check is not None
    assert check.support[0].names[0] == "step"


def test_timers_before_the_phases_are_of_the_same_step(tmp_path: Path) -> None:
    """The optimizer's 500 and 400 ms are of steps of 1000 and 1200 ms: 41 % of both, and not of the first alone."""
    ahead = "rank=0 time (ms) | optimizer_gradients: 5.0 | optimizer_step: {}\n"
    text = "".join(ahead.format(own) + MICRO + WHOLE.format(ms) for own, ms in ((500.0, 700.0), (400.0, 900.0)))
    log = read(tmp_path, text)
    own = log.timers[log.timers["name"] == "optimizer_step"]
    assert own[["step", "max_ms"]].to_numpy().tolist() == [[1, 500.0], [2, 400.0]]
    share = measure(profile_of(tmp_path, text), "printed_timer_pct", name="optimizer_step").value
    assert share == pytest.approx(100 * 450 / 1100)


def test_timers_of_the_micro_steps_before_the_first_step_are_of_it(tmp_path: Path) -> None:
    log = read(tmp_path, (3 * MICRO + WHOLE.format(700.0)) * 4)
    micro = log.timers[log.timers["name"] == "forward_microstep"]
    assert micro["step"].tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]


def test_timers_of_micro_steps_before_the_first_numbered_step_are_of_the_start(tmp_path: Path) -> None:
    text = 3 * MICRO + "".join(megatron((step, 500.0), prefix="rank=0 ") + 2 * MICRO for step in (1, 2, 3))
    log = read(tmp_path, text)
    assert log.grammars == ("Megatron-LM",)
    micro = log.timers[log.timers["name"] == "forward_microstep"]
    assert micro["step"].tolist() == [1, 1, 2, 2, 3, 3]


def test_timers_of_micro_steps_next_to_steps_that_name_no_rank_are_of_no_step(tmp_path: Path) -> None:
    log = read(tmp_path, "".join(megatron((step, 500.0)) + 2 * MICRO for step in (1, 2, 3)))
    assert log.steps["step"].tolist() == [1, 2, 3]
    assert log.timers.empty


def test_timers_of_a_job_that_numbers_its_steps_are_no_steps_of_their_own(tmp_path: Path) -> None:
    log = read(tmp_path, megatron((1, 500.0)) + WHOLE.format(700.0) + megatron((2, 500.0)) + WHOLE.format(700.0))
    assert log.grammars == ("Megatron-LM",)


def test_a_single_step_line_is_stated_and_makes_no_series(tmp_path: Path) -> None:
    head = "(min, max) time across ranks (ms):\n evaluate ....: (10.0, 11.0)\n"
    profile = profile_of(tmp_path, head + megatron((7, 250.0)))
    assert profile.series is None
    check = check_of(profile, "step_time.output")
    assert check is not None
    assert check.support[0].facts[0].value == 250.0


def test_timers_of_micro_steps_alone_are_stated_as_those_of_micro_steps(tmp_path: Path) -> None:
    """Micro-steps of 60 + 100 + 2 ms and of 80 + 140 + 18 ms: 200 ms on average, 120 of it in backward."""
    line = "time (ms) | forward_microstep: {} | backward_microstep: {} | backward_inner_microstep: 9 | "
    line += "step_microstep: {}\n"
    profile = profile_of(tmp_path, line.format(60.0, 100.0, 2.0) + line.format(80.0, 140.0, 18.0))
    assert profile.series is None
    check = check_of(profile, "step_time.timers")
    assert check is not None
    said = check.support[0]
    assert [each.value for each in said.facts] == pytest.approx([120.0, 70.0, 10.0, 200.0])
    assert said.names == ("backward_microstep", "forward_microstep", "step_microstep")
    assert "How many micro-steps a step has is not stated" in said.template


def test_timers_of_micro_steps_next_to_those_of_steps_are_not_stated_for_themselves(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, MICRO + WHOLE.format(700.0))
    check = check_of(profile, "step_time.timers")
    assert check is not None  # of 1000 ms: 700, 200, 190, 100
    assert check.support[0].names == ("step", "backward", "bwd_inner", "forward")


def test_timers_of_megatron_without_any_step_line_are_stated_by_themselves(tmp_path: Path) -> None:
    """Of two lines, 600 and 800, 700 and 900, 50 and 70 ms; the line of the set-up is none of a step."""
    line = "time (ms) | forward-compute: {} | backward-compute: {} | optimizer: {}\n"
    text = "time (ms) | model-and-optimizer-setup: 1736.32 | train/valid/test-data-iterators-setup: 2674.95\n"
    profile = profile_of(tmp_path, text + line.format(600.0, 700.0, 50.0) + line.format(800.0, 900.0, 70.0))
    check = check_of(profile, "step_time.timers")
    assert check is not None
    assert [each.value for each in check.support[0].facts] == pytest.approx([800.0, 700.0, 60.0])
    assert check.support[0].names == ("backward-compute", "forward-compute", "optimizer")
    assert "No line states the time of a step" in check.support[0].template


def test_timers_of_experts_are_of_the_step_of_the_line_behind_them(tmp_path: Path) -> None:
    """DeepSpeed prints forward in both lines: it counts once."""
    experts = "rank=0 time (ms) | fwd: 100.0 (fwd_moe: 60.0, 1st_a2a: 12.0, 2nd_a2a: 13.0, top_k: 5.0)\n"
    log = read(tmp_path, "".join(MICRO + experts + WHOLE.format(700.0) for _ in range(4)))
    assert log.steps["wall_ms"].tolist() == [1000.0] * 4
    own = log.timers[log.timers["name"].isin(["forward", "1st_a2a"])]
    assert own[["step", "name", "max_ms"]].to_numpy().tolist() == [
        each for at in range(1, 5) for each in ([at, "1st_a2a", 12.0], [at, "forward", 100.0])
    ]


TRAINER_START = """\
[INFO|trainer.py:1018] 2026-03-02 10:00:00,332 >>   Gradient Accumulation steps = {}
[INFO|trainer.py:1019] 2026-03-02 10:00:00,332 >>   Total optimization steps = 1000
"""


@pytest.mark.parametrize(("count", "said"), [(1, "one micro-step"), (4, "4 micro-steps")])
def test_the_micro_steps_of_a_step_are_those_of_the_trainer_s_start_lines(
    tmp_path: Path, count: int, said: str
) -> None:
    profile = profile_of(tmp_path, TRAINER_START.format(count) + 2 * MICRO)
    check = check_of(profile, "step_time.timers")
    assert check is not None
    assert said in check.support[0].template


def test_settings_that_count_steps_are_no_steps_so_that_the_timers_behind_them_are(tmp_path: Path) -> None:
    log = read(tmp_path, TRAINER_START.format(1) + 2 * (MICRO + WHOLE.format(700.0)))
    assert log.steps["wall_ms"].tolist() == [1000.0, 1000.0]
