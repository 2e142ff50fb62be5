"""Speed and error of the replay, in small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evals.replay import __main__ as tables
from evals.replay.error import RunError, run_error
from evals.replay.speed import measure, training_graph
from hermes_agent.demo.data import demo_run
from tests.synthetic import RankBuilder, profile_of
from tools.run.events import EventKind
from tools.views.profile import Profile


def delayed(*lengths_us: float, unexplained_us: float = 0) -> Profile:
    """One step for each kernel length: six short kernels, one more that starts later than anything explains."""
    rank, now = RankBuilder(), 0.0
    for number, length_us in enumerate(lengths_us):
        begun = now
        for _ in range(6):
            rank.kernel("short", now + 10, 20, call_us=now)
            now += 50
        start = now + 10 + unexplained_us
        rank.kernel("long", start, length_us, call_us=now, call_duration_us=2)
        rank.runtime("cudaDeviceSynchronize", now + 4, start + length_us - now)
        now = start + length_us + 10
        rank.step(number, begun, now)
    return profile_of(rank)


def test_a_step_that_is_fully_explained_has_no_error() -> None:
    found = run_error(delayed(100, 100, 100))
    assert found.explained_pct == pytest.approx((0, 0, 0), abs=1e-9)
    assert found.mean_times_pct == pytest.approx(0, abs=1e-9)


def test_delay_without_a_reason_is_missing_from_the_replay() -> None:
    found = run_error(delayed(400, 400, 400, unexplained_us=200))
    step_us = 6 * 50 + 10 + 200 + 400 + 10
    assert found.explained_pct == pytest.approx([-100 * 200 / step_us] * 3, abs=0.3)


def graph_steps(*delays_us: float) -> Profile:
    """One step for each delay: a CUDA graph of six kernels, the last one later than anything explains."""
    rank, now = RankBuilder(), 0.0
    for number, delay_us in enumerate(delays_us):
        begun, launched = now, 1000 + number
        rank.runtime("cudaGraphLaunch", now, 5, correlation=launched)
        for start in (10.0, 40.0, 70.0, 100.0, 130.0):
            rank.event(EventKind.KERNEL, "node", now + start, 30, rank.stream, launched)
        rank.event(EventKind.KERNEL, "node", now + 160 + delay_us, 200, rank.stream, launched)
        end = now + 360 + delay_us
        rank.runtime("cudaDeviceSynchronize", now + 6, end - now - 6)
        now = end + 40
        rank.step(number, begun, now)
    return profile_of(rank)


def test_a_delay_inside_a_cuda_graph_is_that_of_the_other_steps() -> None:
    found = run_error(graph_steps(500, 510, 490, 500))
    others = [(510 + 490 + 500) / 3, (500 + 490 + 500) / 3, (500 + 510 + 500) / 3, (500 + 510 + 490) / 3]
    off = [other - own for other, own in zip(others, (500, 510, 490, 500), strict=True)]
    wanted = [100 * each / (400 + own) for each, own in zip(off, (500, 510, 490, 500), strict=True)]
    assert found.explained_pct == pytest.approx(wanted, abs=0.05)
    assert found.graphs_pct == pytest.approx(100 * 500 / 900, abs=0.5)


def test_a_delay_of_one_step_alone_is_not_predicted_by_the_others() -> None:
    found = run_error(graph_steps(0, 0, 600, 0))
    assert found.explained_pct[2] == pytest.approx(-60, abs=0.5)
    assert found.explained_pct[0] == pytest.approx(100 * 200 / 400, abs=0.5)


def test_two_steps_are_too_few_to_predict_a_delay() -> None:
    found = run_error(graph_steps(500, 500))
    assert found.explained_pct == pytest.approx([-100 * 500 / 900] * 2, abs=0.5)
    assert found.graphs_pct == 0


def test_mean_times_of_a_chain_give_the_mean_step() -> None:
    found = run_error(delayed(100, 300, 800))
    assert found.mean_times_pct == pytest.approx(0, abs=0.1)


def test_the_share_of_host_time_on_the_path_is_what_the_host_spends_alone() -> None:
    found = run_error(delayed(690, 690, 690))
    # Six launches 50 us apart, and a wait for the kernel of the seventh.
    assert found.host_pct == pytest.approx(100 * 306 / 1010, abs=0.7)


def test_too_few_steps_have_no_mean() -> None:
    assert run_error(delayed(100, 100)).mean_times_pct is None


def test_partial_replays_of_the_generated_graph_equal_full_ones() -> None:
    speed = measure(8_000)
    assert speed.same
    assert 8_000 <= speed.operators < 8_100


def test_the_generated_graph_points_forward_and_every_operator_has_a_reason() -> None:
    made = training_graph(4_000, ranks=4)
    assert (made.edges.source < made.edges.target).all()
    assert np.array_equal(np.unique(made.edges.target), np.arange(1, len(made)))


def test_the_table_has_a_row_for_each_workload_and_counts_the_good_ones() -> None:
    good, bad = RunError(10, 100.0, (1.0, -2.0), 62.0, None), RunError(30, 5.0, (-60.0,), 0.0, -4.0)
    text = tables.error_text({"one": [good], "two": [bad]})
    assert "1 of 2 workloads" in text
    assert "| two | 1 | 1 | 30 | 5 | 0 | 60.00 | 60.00 | 4.00 | 4.00 |" in text
    assert text.index("| two |") < text.index("| one | 1 | 2 | 10 | 100 | 62 | 1.50 | 1.95 | - | - |")


def test_the_command_compares_a_named_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert tables.main(["--operators", "5000", str(demo_run()), str(tmp_path / "none")]) == 0
    out, err = capsys.readouterr()
    assert "both equal the full replay" in out
    assert "| named | 1 |" in out
    assert f"{tmp_path / 'none'}: not replayed" in err
