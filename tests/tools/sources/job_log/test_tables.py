"""Tables of profilers and timers in a job's output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron, read
from tools.errors import InputError
from tools.sources.job_log.recognise import holds_records
from tools.sources.load import load_run

LIGHTNING = """\
FIT Profiler Report

---------------------------------------------------------------------------------------------------------
|  Action                                   |  Mean duration (s)  |  Num calls  |  Total time (s)  |  Percentage %  |
---------------------------------------------------------------------------------------------------------
|  Total                                    |  -                  |  1234       |  100.5           |  100 %         |
---------------------------------------------------------------------------------------------------------
|  run_training_epoch                       |  98.5               |  1          |  98.5            |  98.0          |
|  [_TrainingEpochLoop].train_dataloader_next  |  0.75            |  100        |  75.0            |  74.6          |
---------------------------------------------------------------------------------------------------------
"""
AVERAGES = """\
-------------------  ------------  ------------  ------------  ------------  ------------  ------------
               Name    Self CPU %      Self CPU     Self CUDA    CUDA total    CUDA time avg    # of Calls
-------------------  ------------  ------------  ------------  ------------  ------------  ------------
           aten::mm         1.0%       2.500ms     120.500ms     120.500ms       1.205ms           100
        aten::copy_         2.0%     900.000us       1.500s        1.500s      15.000ms           100
-------------------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 3.4ms
"""


def test_actions_of_lightning_have_their_times_in_ms(tmp_path: Path) -> None:
    actions = read(tmp_path, LIGHTNING + "done\n").actions.set_index("action")
    assert actions["total_ms"].to_dict() == {
        "run_training_epoch": 98_500.0,
        "[_TrainingEpochLoop].train_dataloader_next": 75_000.0,
    }
    assert actions["line"].tolist() == [8, 9]
    assert actions["calls"].tolist() == [1.0, 100.0]


@pytest.mark.parametrize("quote", ["", "> "])
def test_a_table_of_lightning_without_its_title_or_quoted_is_the_same(tmp_path: Path, quote: str) -> None:
    rows = LIGHTNING.splitlines(keepends=True)[3:]
    text = "".join(quote + row for row in rows)
    assert holds_records((text.encode(),))
    actions = read(tmp_path, text).actions
    assert actions["total_ms"].tolist() == [98_500.0, 75_000.0]
    assert actions["calls"].tolist() == [1.0, 100.0]


def test_the_unit_of_key_averages_is_in_the_cell(tmp_path: Path) -> None:
    actions = read(tmp_path, AVERAGES).actions
    actions = actions[actions["table"] == "torch.profiler, device"]
    assert actions[["action", "total_ms", "calls", "line"]].to_numpy().tolist() == [
        ["aten::mm", 120.5, 100.0, 4],
        ["aten::copy_", 1500.0, 100.0, 5],
    ]


def test_timers_over_ranks_give_least_and_most(tmp_path: Path) -> None:
    text = (
        megatron((10, 100.0))
        + "(min, max) time across ranks (ms):\n    forward-backward ...............: (60.50, 90.25)\n"
        + "    all-grads-sync .................: (1.00, 30.00)\n"
        + megatron((20, 100.0))
        + "times across ranks (ms):\n  optimizer:\n     rank  0: 3.50\n     rank  1: 2.50\n"
        + megatron((30, 100.0))
    )
    timers = read(tmp_path, text).timers
    assert timers[["step", "name", "min_ms", "max_ms", "line"]].to_numpy().tolist() == [
        [10, "forward-backward", 60.5, 90.25, 3],
        [10, "all-grads-sync", 1.0, 30.0, 4],
        [20, "optimizer", 2.5, 3.5, 7],
    ]


def test_csv_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    text = "epoch,step,loss,step_time_s\n" + "".join(f"0,{step},1.0,0.{step}5\n" for step in range(1, 6))
    steps = read(tmp_path, text, "metrics.csv").steps
    assert steps["wall_ms"].tolist() == pytest.approx([150, 250, 350, 450, 550])
    assert steps["line"].tolist() == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("head", "row"),
    [
        ("train/global_step,perf/step_time (ms)", "{step},{ms}"),
        ("Iteration;Loss;Iteration-Time [s]", "{step};1,5;{s_comma}"),
        ('"_step"\t"steps_per_second"', "{step}\t{rate}"),
        ("Wall time,Step,Value", "{clock},{step},2.5"),
        ("update,timing_s/step", "{step},{s}"),
        ("batch_idx,ms_per_iter,eta", "{step},{ms},1:00"),
    ],
)
def test_columns_are_known_by_the_words_in_their_names(tmp_path: Path, head: str, row: str) -> None:
    """Steps of 100, 101, 102 ms and on; a clock of TensorBoard shows the differences."""
    clock, rows = 1.7e9, []
    for step in range(1, 31):
        ms = 99 + step
        clock += ms / 1e3
        rows.append(
            row.format(
                step=step, ms=ms, s=ms / 1e3, s_comma=f"{ms / 1e3:.3f}".replace(".", ","), rate=1e3 / ms, clock=clock
            )
        )
    (tmp_path / "metrics.csv").write_text("\n".join([head, *rows]) + "\n")
    log = load_run([tmp_path]).job_log
    assert log is not None
    expected = {step: 99 + step for step in log.steps["step"]}
    assert log.steps["wall_ms"].tolist() == pytest.approx(list(expected.values()), abs=0.01)
    assert len(expected) >= 29


def test_a_table_without_a_time_is_no_series(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,step,train_loss\n" + "".join(f"0,{at},1.5\n" for at in range(30)))
    with pytest.raises(InputError):
        load_run([tmp_path])


@pytest.mark.parametrize("clock", [1.7e9, 1.7e12])
def test_json_lines_with_a_clock_give_differences(tmp_path: Path, clock: float) -> None:
    """``_timestamp`` in seconds or milliseconds since 1970, as loggers write it."""
    unit = 1.0 if clock < 1e11 else 1e3
    lines = "".join(f'{{"_step": {at}, "_timestamp": {clock + 2.5 * at * unit}, "loss": 1}}\n' for at in range(1, 30))
    log = read(tmp_path, lines, "metrics.jsonl")
    assert log.step_time == "stamps"
    assert log.steps["wall_ms"].tolist() == pytest.approx([2500.0] * len(log.steps), abs=1.0)


def test_the_comms_logger_of_deepspeed_is_digested_by_operation_and_size(tmp_path: Path) -> None:
    line = "[INFO] [Rank 0] rank=0 | comm op: {} | time (ms): {} | msg size: {} | algbw (Gbps): 9\n"
    calls = (("all_reduce", 2.5, "25.0 MB"), ("all_gather", 1.0, "1.0 MB"), ("all_reduce", 3.5, "25.0 MB"))
    actions = read(tmp_path, "".join(line.format(*call) for call in calls)).actions
    assert actions[["action", "calls", "total_ms", "mean_ms", "line"]].to_numpy().tolist() == [
        ["all_reduce 25.0 MB", 2.0, 6.0, 3.0, 1],
        ["all_gather 1.0 MB", 1.0, 1.0, 1.0, 2],
    ]


SUMMARY = """\
Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)
broadcast
                    0B                  2                   0.19         0.10         0.00         0.00
                    98.25 MB            1                   8317.12      8317.12      0.20         0.19
all_reduce | [Caller Func: get_grad_norm_direct]
                    8.0 B               40                  100.00       0.58         0.00         0.00
"""


def test_the_summary_of_the_comms_logger_is_read_and_the_last_of_several_holds(tmp_path: Path) -> None:
    again = SUMMARY.replace("100.00", "250.00")
    line = "[Rank 0] rank=0 | comm op: all_reduce | time (ms): 9 | msg size: 8.0 B | algbw (Gbps): 9\n"
    actions = read(tmp_path, SUMMARY + "step 1\n" + line + again + "done\n").actions
    assert actions[["action", "calls", "total_ms", "line"]].to_numpy().tolist() == [
        ["broadcast 0 B", 2.0, 0.19, 11],
        ["broadcast 98.25 MB", 1.0, 8317.12, 12],
        ["all_reduce 8.0 B", 40.0, 250.0, 14],
    ]
