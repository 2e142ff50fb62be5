"""Step lines of fairseq, tf_cnn_benchmarks, llm.c, modded-nanogpt, DeepSpeed-Chat and ms-swift, and coarse stamps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.sources.job_log.grammars.step_lines import step_line
from tools.sources.job_log.recognise import is_job_log


def test_the_wall_clock_of_fairseq_gives_the_steps_between_two_lines(tmp_path: Path) -> None:
    lines = [
        f"| epoch 001:  {at:5d} / 9000 loss=9.1, wps=1{at}, ups=0, wpb=81000.5, bsz=400.0, num_updates={at - 2}, "
        f"lr=1e-05, oom=0.000, wall={700 + at // 2}, train_wall={at // 3}\n"
        for at in range(200, 1200, 200)
    ]
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "stamps"
    assert log.steps["step"].tolist() == [398, 598, 798, 998]
    assert log.steps["wall_ms"].tolist() == pytest.approx([500.0] * 4)
    assert is_job_log(tmp_path / "job.out")


def test_updates_per_second_of_later_versions_are_of_the_steps_since_the_line_before() -> None:
    found = step_line(
        "2021-01-01 | INFO | train_inner | epoch 002:    100 / 900 loss=3.1, wps=8000, ups=2.5, wpb=3200, bsz=128, "
        "num_updates=1000, lr=0.0001, gnorm=1, train_wall=39, gb_free=9, wall=450"
    )
    assert found is not None
    assert (found.step, found.of, found.samples) == (1000, "mean", 128.0)
    assert found.wall_ms == pytest.approx(400.0)


def test_words_per_second_and_per_batch_of_early_fairseq_give_the_steps_of_each_part(tmp_path: Path) -> None:
    """4000 words a batch: 100 batches at 8000 words/s take 500 ms each, 200 at 6400 take 625: 750 the second half."""
    lines = "".join(
        f"| epoch 001:   {at} / 900 loss=9.1 (9.5), wps={wps}, wpb=4000, bsz=120, lr=0.25, clip=100%, gnorm=1.0\n"
        for at, wps in ((100, 8000), (200, 6400))
    )
    log = read(tmp_path, lines)
    assert log.step_time == "unwound"
    assert log.steps["wall_ms"].tolist() == pytest.approx([500.0, 750.0])
    valid = "| epoch 001 | valid on 'valid' subset | loss=8.1, wps=9000, wpb=4000, bsz=100\n"
    assert step_line(valid) is None
    slow = step_line("| epoch 001:   100 / 900 loss=9.1, wps=9, wpb=4000, bsz=120")
    assert slow is not None
    assert slow.wall_ms is None


def test_images_per_second_of_tf_cnn_benchmarks_are_a_throughput(tmp_path: Path) -> None:
    lines = [f"{step}\timages/sec: {300 + step / 10:.1f} +/- 0.3 (jitter = 2.1)\t7.8\n" for step in range(10, 60, 10)]
    log = read(tmp_path, "".join(lines))
    assert log.throughput is not None
    assert log.throughput.unit == "images/s"
    assert log.throughput.table["per_s"].tolist() == pytest.approx([301.0, 302.0, 303.0, 304.0, 305.0])
    assert log.steps.empty


def test_llm_c_states_the_time_of_each_step_without_naming_it() -> None:
    found = step_line(
        "step   12/90 | loss 3.2 (+nanz)| norm 1.4 (+nanz)| lr 3.00e-04 | 51.25 ms | 40.1% bf16 MFU | 9000 tok/s"
    )
    assert found is not None
    assert (found.step, found.tokens_per_s) == (12, 9000.0)
    assert found.wall_ms == pytest.approx(51.25)


def test_the_clock_of_modded_nanogpt_runs_without_validation(tmp_path: Path) -> None:
    lines = [
        f"step:{at}/900 train_time:{80_000 + 60 * at}ms step_avg:{(80_000 + 60 * at) / at:.2f}ms\n"
        for at in range(800, 806)
    ]
    lines.insert(3, "step:803/900 val_loss:3.5 train_time:128180ms step_avg:159.63ms\n")
    log = read(tmp_path, "".join(lines))
    assert log.steps["step"].tolist() == [801, 802, 803, 804, 805]
    assert log.steps["wall_ms"].tolist() == pytest.approx([60.0] * 5)


def test_deepspeed_chat_states_an_iteration_and_its_parts(tmp_path: Path) -> None:
    lines = [
        f"|E2E latency={e2e:.2f}s |Gather latency=0.10s (2.00%) |Generate time=3.00s (60.00%) "
        f"|Training time={train:.2f}s (30.00%) |Others=0.40 (8.00%)|CurSamplesPerSec=8.00 |AvgSamplesPerSec=8.00\n"
        for e2e, train in ((5.0, 1.5), (5.5, 2.0), (6.0, 2.5))
    ]
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "step"
    assert log.steps["wall_ms"].tolist() == pytest.approx([5000.0, 5500.0, 6000.0])
    by_name = log.timers.groupby("name")["max_ms"].mean().to_dict()
    assert by_name == pytest.approx({"gather": 100.0, "generate": 3000.0, "training": 2000.0, "others": 400.0})


def test_the_speed_of_ms_swift_is_a_mean_since_the_start(tmp_path: Path) -> None:
    speeds = ((1, 30.0), (2, 17.5), (3, 16.0))
    lines = [
        f'{{"loss": 0.1, "step_time": 1.5, "global_step/max_steps": "{step}/90", "train_speed(s/it)": {speed}}}\n'
        for step, speed in speeds
    ]
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "unwound"
    assert log.steps["wall_ms"].tolist() == pytest.approx([30_000.0, 5_000.0, 13_000.0])


def test_stamps_of_whole_seconds_are_used_so_far_apart_that_they_are_exact(tmp_path: Path) -> None:
    lines = [
        f"[2024-07-01 11:{at // 20:02d}:{at * 3 % 60:02d}] [INFO] [Global Step {at * 100}] loss: 0.5\n"
        for at in range(1, 14)
    ]
    log = read(tmp_path, "".join(lines))
    assert log.step_time == "stamps"
    assert log.steps["span"].tolist() == [400, 400, 400]
    assert log.steps["wall_ms"].tolist() == pytest.approx([30.0] * 3)


def test_the_finished_bars_of_two_epochs_give_the_steps_of_each(tmp_path: Path) -> None:
    text = "".join(
        f"      Epoch    GPU_mem   box_loss       Size\n      {epoch}/90      17.{epoch}G       1.{epoch}      640: "
        f"100%|##########| 50/50 [{elapsed}<00:00,  1.6it/s]\n"
        "                 Class     Images      mAP50: 100%|####| 7/7 [00:01<00:00,  3.9it/s]\n"
        for epoch, elapsed in ((1, "00:50"), (2, "03:20"))
    )
    log = read(tmp_path, text)
    assert log.step_time == "bar"
    assert log.steps["wall_ms"].tolist() == pytest.approx([1000.0, 4000.0])
    assert log.steps["span"].tolist() == [50, 50]


def test_a_bar_after_what_a_trainer_logs_counts_steps_also_without_a_name(tmp_path: Path) -> None:
    text = "{'loss': 0.1, 'grad_norm': 0.2, 'epoch': 0.01}\n  0%|   | 1/900 [02:30<37:00:00, 150.00s/it]\n"
    log = read(tmp_path, text)
    assert log.steps["wall_ms"].tolist() == [150_000.0]
    assert is_job_log(tmp_path / "job.out")


def test_the_bar_goes_before_timers_that_add_up_to_less_than_a_step(tmp_path: Path) -> None:
    text = (
        "[2025-01-02 03:04:05,678] [INFO] [logging.py:107:log_dist] [Rank 0] time (ms) | fwd: 4000.00 | bwd: 5000.00 | "
        "step: 1000.00\n"
        "  0%|          | 3/1562 [01:30<12:33:29, 30.10s/it]\n"
    )
    log = read(tmp_path, text)
    assert log.step_time == "bar"
    assert log.steps["wall_ms"].tolist() == pytest.approx([30_000.0])


def test_an_older_table_of_lightning_has_two_columns(tmp_path: Path) -> None:
    text = (
        "Profiler Report\n\nAction                  |  Mean duration (s)    |  Total time (s)\n" + "-" * 60 + "\n"
        "get_train_batch         |  0.25          |  2.5\nmodel_forward           |  0.05          |  0.5\n"
    )
    log = read(tmp_path, text)
    assert log.actions["total_ms"].tolist() == pytest.approx([2500.0, 500.0])
    assert is_job_log(tmp_path / "job.out")


@pytest.mark.parametrize(
    "head", ["[2022-04-08 18:{:02d}:05,372][{}][INFO] - ", "2022-04-08 18:{:02d}:05 | INFO | {} | "]
)
def test_json_of_fairseq_is_read_like_its_text(tmp_path: Path, head: str) -> None:
    """Two digits of updates per second are coarse: words of an update over words per second are exact."""
    inner = (
        '{{"epoch": 1, "update": 0.4, "loss": "9.2", "wps": "50000", "ups": "0.43", "wpb": "{}", "bsz": "336.2", '
        '"num_updates": "{}", "lr": "3e-06", "train_wall": "404", "wall": "{}"}}\n'
    )
    lines = [
        head.format(at, "train_inner") + inner.format(115_000 + 1000 * (at % 2), 20 * at, 47 * at) for at in range(1, 9)
    ]
    others = [
        head.format(9, "valid") + '{"epoch": 1, "valid_loss": "6.3", "valid_num_updates": "479"}\n',
        head.format(9, "train") + '{"epoch": 1, "train_ups": "0.48", "train_num_updates": "479"}\n',
    ]
    log = read(tmp_path, "".join([*lines, *others]))
    assert log.steps["step"].tolist() == list(range(20, 180, 20))
    assert log.steps["wall_ms"].tolist() == pytest.approx([2320.0, 2300.0] * 4)
    assert (log.step_time, log.grammars) == ("mean", ("fairseq",))


def test_the_throughput_of_the_first_deepspeed_is_read_by_its_micro_batches(tmp_path: Path) -> None:
    lines = "".join(
        f"[2021-03-01 10:00:{second:02d},000] [INFO] [timer.py:154:stop] 0/{5 * second}, SamplesPerSec=6.{second:02d}\n"
        for second in range(1, 31)
    )
    log = read(tmp_path, lines)
    assert log.steps["step"].tolist()[:2] == [10, 15]
    assert log.steps["wall_ms"].tolist() == pytest.approx([200.0] * 29)
    bare = read(tmp_path, "".join(f"worker-0: 0/{at}, SamplesPerSec=6.3\n" for at in (25, 50, 75, 100)))
    assert bare.throughput is not None
    assert bare.throughput.unit == "samples/s"
    assert bare.throughput.table["per_s"].tolist() == [6.3] * 4
