"""What would settle a run without steps, by what was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.utilisation import outputs
from tools.analyzers.steps.output_warnings import single_line
from tools.analyzers.steps.step_time import unprofiled
from tools.judgement.without_steps import (
    ALL_RANKS,
    DATA_TIMES,
    HOST_STACK,
    LINKS,
    MEMORY,
    STEP_LINES,
    why_without_steps,
)
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

HCCL = "[ERROR] EI0002: The wait execution of the Notify register times out. Reason: the peer is late.\n"
BANDWIDTH = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
    "# all_reduce_perf  out-of-place  in-place\n"
    "     1048576        262144 float  sum  -1  100.0  10.49  15.73  0  100.0  10.49  15.73  0\n"
)
SMI = (
    "| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |\n"
    "|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |\n"
    "| N/A   34C    P0   %dW / 400W |  71234MiB / 81920MiB |    %d%%      Default |\n"
)
NETWORK = "node1:10:20 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\n"
EXHAUSTED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 62.00 MiB.\n"


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        (HCCL, ALL_RANKS),
        (SMI % (60, 100), ALL_RANKS),
        (SMI % (28, 0), HOST_STACK),
        (SMI % (280, 100), STEP_LINES),
        (outputs.IOSTAT, DATA_TIMES),
        (EXHAUSTED, MEMORY),
        (BANDWIDTH, LINKS),
        (NETWORK, STEP_LINES),
    ],
)
def test_what_settles_it_belongs_to_what_the_output_holds(tmp_path: Path, text: str, needs: str) -> None:
    (tmp_path / "job.log").write_text(text)
    why, needed = why_without_steps(Profile(load_run([tmp_path / "job.log"])))
    assert needed == needs
    assert why == why.strip().rstrip(".")


def test_the_long_first_line_of_means_is_said_to_be_left_out(tmp_path: Path) -> None:
    lines = [
        f"2026-11-23 10:{at:02d}:00,000 - mmengine - INFO - Epoch(train) [1][{at * 50:4d}/5000]  lr: 1e-2  "
        f"time: {6.4 if at == 1 else 0.2}  data_time: 0.01  loss: 2.5\n"
        for at in range(1, 9)
    ]
    (tmp_path / "job.log").write_text("".join(lines))
    said = [each.template for each in unprofiled(Profile(load_run([tmp_path / "job.log"])))]
    start = "Steps 1 to 50: {0} per step, {2} of it wait for data, left out as start-up; "
    assert f"{start}over all lines the mean is {{1}}." in said


def test_of_an_excerpt_no_line_is_left_out_as_start_up(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(megatron((43, 5000.0), (44, 5600.0), (45, 5800.0)))
    profile = Profile(load_run([tmp_path / "job.log"]))
    assert not [sentence for sentence in unprofiled(profile) if "start-up" in sentence.template]
    assert profile.mean_step_ms == pytest.approx((5000 + 5600 + 5800) / 3)


def test_all_lines_that_are_left_out_as_start_up_are_named(tmp_path: Path) -> None:
    """A tenth of 14 lines are two."""
    (tmp_path / "job.log").write_text(megatron((1, 7000.0), (2, 250.0), *((step, 20.0) for step in range(3, 15))))
    profile = Profile(load_run([tmp_path / "job.log"]))
    said = [each.template for each in unprofiled(profile)]
    assert "Step 1: {0}, left out as start-up with the line of step 2; over all lines the mean is {1}." in said
    assert profile.series is not None
    assert "the first 2 of 14 step lines are left out as start-up" in profile.series.notes


def test_a_first_step_far_shorter_than_the_others_is_no_start_up(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(megatron((1, 600.0), (2, 9000.0), (3, 9100.0), (4, 9050.0)))
    (said,) = [each for each in unprofiled(Profile(load_run([tmp_path / "job.log"]))) if "Step 1" in each.template]
    assert "far shorter than those after it" in said.template
    assert "start-up" not in said.template
    assert [fact.value for fact in said.facts] == pytest.approx([600.0, (600 + 9000 + 9100 + 9050) / 4])


def test_even_means_over_many_steps_lose_no_line_to_the_start(tmp_path: Path) -> None:
    lines = [f"epoch: 0, iter: {50 * at}/9999, batch_cost: {0.5 + at / 1e3} s\n" for at in range(1, 21)]
    (tmp_path / "job.log").write_text("".join(lines))
    profile = Profile(load_run([tmp_path / "job.log"]))
    assert profile.mean_step_ms == pytest.approx(500.0 + sum(range(1, 21)) / 20)


@pytest.mark.parametrize("costs", [(6.0, 0.6), (0.6, 6.0)])
def test_of_two_very_different_lines_no_mean_is_stated(tmp_path: Path, costs: tuple[float, float]) -> None:
    lines = [f"epoch: 0, iter: {60 * at}/9999, batch_cost: {cost} s\n" for at, cost in enumerate(costs, start=1)]
    (tmp_path / "job.log").write_text("".join(lines))
    profile = Profile(load_run([tmp_path / "job.log"]))
    assert profile.series is None
    assert profile.run.job_log is not None
    (said,) = single_line(profile, profile.run.job_log)
    assert [fact.value for fact in said.facts] == [1e3 * cost for cost in costs]


def test_an_excerpt_of_a_later_epoch_holds_no_start_up(tmp_path: Path) -> None:
    lines = [f"Epoch: [11][{at}/48]  Time {0.4 + at / 1e2:.3f} (0.5)  Data 0.01 (0.01)\n" for at in range(1, 13)]
    (tmp_path / "job.log").write_text("".join(lines))
    profile = Profile(load_run([tmp_path / "job.log"]))
    assert profile.mean_step_ms == pytest.approx(400.0 + 10.0 * sum(range(1, 13)) / 12)


def test_of_epochs_without_a_known_length_no_lines_are_missing(tmp_path: Path) -> None:
    lines = [f"epoch: {at // 3}, iter: {500 * (at % 3 + 1)}, batch_cost: 0.5 s\n" for at in range(30)]
    (tmp_path / "job.log").write_text("".join(lines))
    series = Profile(load_run([tmp_path / "job.log"])).series
    assert series is not None
    assert "missing" not in series.averaged
    assert any("no line states how many" in note for note in series.notes)


def test_of_few_lines_the_first_one_is_said_to_be_left_out_also_where_it_is_not_long(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(megatron((1, 5000.0), (2, 5600.0), (3, 5800.0)))
    profile = Profile(load_run([tmp_path / "job.log"]))
    said = [sentence for sentence in unprofiled(profile) if "left out as start-up" in sentence.template]
    assert len(said) == 1
    assert [fact.value for fact in said[0].facts] == pytest.approx([5000.0, (5000 + 5600 + 5800) / 3])


def test_two_lines_that_are_no_series_are_stated(tmp_path: Path) -> None:
    text = (
        "Epoch: [0][0/5005]\tTime 20.000 (20.000)\tData 19.000 (19.000)\tLoss 6.9 (6.9)\n"
        "Epoch: [0][100/5005]\tTime 0.500 (0.693)\tData 0.001 (0.400)\tLoss 6.9 (6.9)\n"
    )
    (tmp_path / "job.log").write_text(text)
    profile = Profile(load_run([tmp_path / "job.log"]))
    log = profile.run.job_log
    assert log is not None
    said = single_line(profile, log)
    assert [fact.value for fact in said[0].facts] == pytest.approx([20_000.0, (101 * 693 - 20_000) / 100])


def test_a_single_line_states_its_wait_for_data_next_to_its_step(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("epoch: 0, iter: 40, reader_cost: 5.2 s, batch_cost: 6.5 s\n")
    profile = Profile(load_run([tmp_path / "job.log"]))
    assert profile.run.job_log is not None
    step, waited = single_line(profile, profile.run.job_log)
    assert [fact.value for fact in (*step.facts, *waited.facts)] == [6500.0, 5200.0]


def test_the_longest_line_says_how_much_of_it_waits_for_data(tmp_path: Path) -> None:
    """Each epoch's first batch of 20 takes 5 s, 4 s of it the wait for workers that start again."""
    lines, walls, waits = [], list[float](), list[float]()
    for epoch in range(6):
        walls, waits = [], []
        for at in range(20):
            walls.append(5.0 if at == 0 else 0.9 + 0.01 * (at % 3))
            waits.append(4.0 if at == 0 else 0.0)
            lines.append(
                f"Epoch: [{epoch}][{at:4d}/20]\tTime {walls[-1]:6.3f} ({sum(walls) / len(walls):6.3f})\tData "
                f"{waits[-1]:6.3f} ({sum(waits) / len(waits):6.3f})\tLoss 6.9{at % 7} (6.93)\n"
            )
    (tmp_path / "job.log").write_text("".join(lines))
    profile = Profile(load_run([tmp_path / "job.log"]))
    assert measure(profile, "logged_longest_wait_ms", rank=0).value == pytest.approx(4000.0)
