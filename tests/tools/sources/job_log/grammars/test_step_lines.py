"""Each grammar of step lines, by a line as the program prints it and the figures that stand in it."""

from __future__ import annotations

import pytest

from tools.sources.job_log.bar_lines import bar_point
from tools.sources.job_log.grammars.step_lines import step_line
from tools.sources.job_log.prefixes import parse_line


@pytest.mark.parametrize(
    ("text", "step", "wall_ms"),
    [
        (
            " iteration       20/    1000 | consumed samples: 80 | elapsed time per iteration (ms): 6707.5 | ",
            20,
            6707.5,
        ),
        (" [2026-08-22 15:22:22.123456] iteration 10/ 1000 | elapsed time per iteration (ms): 1147.6 |", 10, 1147.6),
        (
            "INFO [2026-06-22 19:25:37] >>  iteration 1/ 2000 | elapsed time per iteration (ms): 7827.39 | x: 1 |",
            1,
            7827.39,
        ),
        ("Training epoch 0, iteration 1/249 | global_step: 1 | train_step_timing in s: 2.505 | n: 16", 1, 2505.0),
        ("100%|##| 100/100 [10:48<00:00, loss=0.01, global_step=99.00, train_step_timing in s=3.130]", 99, 3130.0),
        ("- INFO - { Epoch:[  1/  2], step:[    2/   19], loss: 10.633, per_step_time: 1752ms, lr: 1e-05}", 2, 1752.0),
        ("{ step:[    1/   10], loss:  11.813965, per_step_time:  13570ms, lr: 1.000000e-05 }", 1, 13570.0),
        (
            "[2024-04-21 02:45:24][INFO][training:1251] -  iteration=       2/  317892 | "
            "elapsed_time_per_iteration_ms=16030.6 | global_batch_size=  256 | loss_scale=65536.0 |",
            2,
            16030.6,
        ),
        ("step 2/25, loss: 15.751992, per_step_time: 577ms, overflow cond: False, loss_scale: 1.0", 2, 577.0),
        ("(TaskRunner pid=9) step:4 - actor/entropy:0.3 - timing_s/gen:20.1 - timing_s/step:36.7 - x:1", 4, 36700.0),
        ("step:0 - val-aux/aime/reward/mean@30:np.float64(0.0098) - val-core/x:1", None, None),
        ("iter 340: loss 5.4983, time 33785.52ms, mfu 0.96%", 340, 33785.52),
        ("step 00004/21400 (0.02%) | loss: 9.1 | dt: 989.44ms | tok/sec: 529,882 | mfu: 74.13", 4, 989.44),
        ("12:01:02 INFO train: step=7 loss=0.73 step_time=298.9ms", 7, 298.9),
        ("iter:  130/3000   4% | loss: 1.2 | iter time: 1.038s | iter tflops: 909.8 | step time: 0.996s", 130, 1038.0),
        ("[rank1] it 10 loss 4.808 62.6 ms/it", 10, 62.6),
        ("Epoch [1/1] Step [20] loss: 1.1895 (0.042 s/it)", 20, 42.0),
        ("step 30 | loss 2.1 | 4.0 it/s", 30, 250.0),
        ('{"step": 3, "loss": 7.6, "step_time_ms": 102.96, "docs": 0}', 3, 102.96),
        ("{'loss': '1.234', 'global_step': '12', 'time_per_step_s': '0.5'}", 12, 500.0),
        ("| iter    2 | fps     1067 | rollout 0.008s | total 0,060s |", 2, 60.0),
        ("[d2.utils.events]: eta: 0:10  iter: 19  total_loss: 1.2  time: 0.2134  data_time: 0.0123", 19, 213.4),
        ("mmdet - INFO - Epoch [1][50/1000] lr: 1e-2, eta: 1 day, time: 0.512, data_time: 0.021", 50, 512.0),
        ("Epoch: [0][  10/5005]\tTime  0.512 (  1.200)\tData  0.010 (  0.300)\tLoss 6.9 (6.9)", 10, 512.0),
        ("[Train 3/10] step 4 time 30 ms", 4, 30.0),
        ("2024 [Train 1/5] loss 3", 1, None),
        ("Epoch: [0] [ 10/100] time: 1.5 s, step 12", 12, 1500.0),
        ("Train: [3][10/100], time: 0.4 step_time: 400 ms step 5", 5, 400.0),
        ("Epoch: [0] [ 10/100] time: 350 ms", 10, 350.0),
        ("Epoch: [0] [ 10/100] time: 1.5 s, loss: 2.5", 10, 1500.0),
        ("Validation Epoch: [0] [ 10/100] time: 1.5 s", None, None),
        ("Saving checkpoint at step 500 took 32.1 s", None, None),
        ("Step 100: checkpoint loaded in 12.5 s", None, None),
        ("step 1,5: no", None, None),
        ("{'eval_loss': 1.0, 'step': 10, 'step_time_ms': 5.0}", None, None),
        ("validation loss at iteration 100 | time 3.2 s", None, None),
        ("Total optimization steps = 8", None, None),
        ("{'train_runtime': 896.0, 'train_samples_per_second': 1.1, 'step': 8, 'step_time_ms': 3}", None, None),
        ("the whole file was read in 0.2 s", None, None),
    ],
)
def test_the_figures_of_a_line_are_those_that_stand_in_it(text: str, step: int | None, wall_ms: float | None) -> None:
    found = step_line(parse_line(1, text.encode()).text)
    if step is None:
        assert found is None or found.wall_ms is None
        return
    assert found is not None
    assert (found.step, found.wall_ms) == (step, wall_ms if wall_ms is None else pytest.approx(wall_ms))


@pytest.mark.parametrize(
    ("text", "step", "of_epoch"),
    [
        ("Epoch [10/20] Iter [10/12] time 110 ms", 10, 12),
        ("Step 10/12 of epoch 10/20: step time 110 ms", 10, 12),
        ("Train: [10/20][10/1251]  eta 0:10:00 time 0.41 (0.62)", 10, 1251),
        ("Epoch: [3]  [   3/1251]  eta: 0:10:20  time: 0.5088  data: 0.0164", 3, 1251),
        ("epoch: 3/20, iter: 3/983, mem: 3Mb, iter_time: 0.589s, data_time: 0.002s, x: 1", 3, 983),
        ("mmdet - INFO - Epoch [50][50/1000] lr: 1e-2, eta: 1 day, time: 0.512, data_time: 0.021", 50, 1000),
        ("{ Epoch:[  2/  8], step:[    2/   19], loss: 10.633, per_step_time: 1752ms, lr: 1e-05}", 2, 19),
        ("epoch: [2/8], iter: 2/30, reader_cost: 0.1 s, batch_cost: 0.5 s, ips: 16.0", 2, 30),
        ("Epoch 2/8, iteration 2, batch time 110 ms", 2, None),
    ],
)
def test_the_steps_of_an_epoch_are_those_behind_the_step_and_not_the_epochs(
    text: str, step: int, of_epoch: int | None
) -> None:
    found = step_line(text)
    assert found is not None
    assert (found.step, found.of_epoch) == (step, of_epoch)


def test_megatron_fields_come_and_go() -> None:
    line = (
        " iteration 5/ 10 | elapsed time per iteration (ms): 100.0 | throughput per GPU (TFLOP/s/GPU): 412.3 | "
        "learning rate 1E-4 | global batch size: 256 | loss scale: 1.0 | number of skipped iterations:   2 |"
    )
    found = step_line(line)
    assert found is not None
    assert (found.tflops, found.samples, found.loss_scale, found.skipped) == (412.3, 256.0, 1.0, 2.0)


def test_torchtitan_states_rates_and_no_time() -> None:
    raw = b"\x1b[31m[rank0]:[titan] 2024-08-19 11:10:37,109 - root - INFO - step: 10  loss: 12.1  tps: 111,770  mfu: 2%"
    line = parse_line(4, raw)
    found = step_line(line.text)
    assert found is not None
    assert (line.rank, found.step, found.wall_ms, found.tokens_per_s) == (0, 10, None, 111_770.0)


@pytest.mark.parametrize(
    ("text", "done", "elapsed_s", "step_ms"),
    [
        (" 25%|██▌       | 2/8 [03:45<11:17, 112.97s/it]", 2, 225.0, 112_970.0),
        ("Epoch 0:   6%|## | 32040/500150 [6:28:43<94:39:17, 1.37it/s, loss=2.6]", 32040, 23323.0, 1e3 / 1.37),
        ("Epoch 0: 4%|█                   | 4/72 [17.78it/s, v_num=0, train_loss=0.329]", 4, None, 1e3 / 17.78),
        ("100%|██████████| 8/8 [14:55<00:00, 111.95s/it][INFO|trainer.py:1339] 2021-05-25", 8, 895.0, 111_950.0),
        ("  0%|          | 0/8 [00:00<?, ?it/s]", 0, 0.0, None),
        ("Epoch 0/-2 ━━━━━━━━ 100/100 0:00:03 • 0:00:00 26.02it/s v_num: 0.000", 100, 3.0, 1e3 / 26.02),
    ],
)
def test_progress_bars(text: str, done: int, elapsed_s: float | None, step_ms: float | None) -> None:
    point = bar_point(text)
    assert point is not None
    assert (point.done, point.elapsed_s) == (done, elapsed_s)
    assert point.step_ms == (step_ms if step_ms is None else pytest.approx(step_ms))


@pytest.mark.parametrize(
    ("raw", "rank", "text"),
    [
        (b"3: iteration 1", 3, "iteration 1"),
        (b"[default3]:[rank7]: iteration 1", 3, "iteration 1"),
        (b"[1,12]<stdout>:iteration 1", 12, "iteration 1"),
        (b"[pod/llama-worker-3/pytorch] [rank5]: iteration 1", 5, "iteration 1"),
        (b"2025-04-07T15:34:27.308Z [rank2]: iteration 1", 2, "iteration 1"),
        (b"iteration 1", None, "iteration 1"),
    ],
)
def test_prefixes_of_launchers_name_the_rank(raw: bytes, rank: int | None, text: str) -> None:
    line = parse_line(1, raw)
    assert (line.rank, line.text) == (rank, text)
