"""Tables of profilers in a job's output are read as excerpts, and their largest rows are the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import read
from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.sources.load import load_run
from tools.views.profile import Profile

KEY_ROWS = "".join(
    "  " + "   ".join(cells.split("|")) + "\n"
    for cells in (
        "[pl][profile]run_training_epoch|0.00%|0.000us|0.00%|0.000us|0.000us|9.000s|300.00%|9.000s|4.500s|2",
        "ProfilerStep*|-5.00%|-500000.000us|20.00%|2.000s|200.000ms|0.000us|0.00%|0.000us|0.000us|10",
        "aten::copy_|40.00%|4.000s|50.00%|5.000s|2.000ms|1.200s|40.00%|1.200s|480.000us|2500",
        "Memcpy HtoD (Pageable -> Device)|0.00%|0.000us|0.00%|0.000us|0.000us|1.050s|35.00%|1.050s|1.050ms|1000",
        "cudaMemcpyAsync|10.00%|1.000s|10.00%|1.000s|400.000us|0.000us|0.00%|0.000us|0.000us|2500",
    )
)
NVPROF = """\
==41== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  3.00000s   2000000  1.5000us  1.0000us  9.0000us  [CUDA memcpy DtoD]
                   25.00%  1.00000s       500  2.0000ms  1.0000ms  3.0000ms  volta_sgemm_128x64_nn
      API calls:   60.00%  6.00000s   2000500  2.9990us  1.0000us  90.000ms  cudaMemcpyAsync
                   30.00%  3.00000s       100  30.000ms  1.0000us  90.000ms  cudaStreamSynchronize
"""
NSYS_NEW = """\
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  ----
     80.0    4,000,000,000      2,000   2000000   2000000   1000000   3000000       1000.0  void mm<float, int>(float*)
     20.0    1,000,000,000      1,000   1000000   1000000   1000000   1000000          0.0  softmax
"""
NSYS_OLD = """\
CUDA API Statistics:

 Time(%)  Total Time (ns)  Num Calls    Average     Minimum    Maximum           Name
 -------  ---------------  ---------  ------------  -------  -----------  ---------------------
    70.0       7000000000        100    70000000.0     1000   90000000    cudaStreamSynchronize
    30.0       3000000000        300    10000000.0     1000   90000000    cudaLaunchKernel
"""
CPROFILE = """\
         5003 function calls (5000 primitive calls) in 8.000 seconds

   Ordered by: internal time

   ncalls  tottime  percall  cumtime  percall filename:lineno(function)
     1000    6.000    0.006    6.000    0.006 {method 'read' of '_io.BufferedReader' objects}
    400/2    1.000    0.003    7.500    0.019 train.py:10(walk)
"""
LINES = """\
Timer unit: 1e-06 s

Total time: 2 s
File: train.py
Function: step at line 10

Line #      Hits         Time  Per Hit   % Time  Line Contents
==============================================================
    10                                           @profile
    11       100    1500000.0  15000.0     75.0      batch = next(loader)
    12       100     500000.0   5000.0     25.0      loss = model(batch)
"""


def rows(tmp_path: Path, text: str) -> list[list[object]]:
    actions = read(tmp_path, text).actions
    return actions[["table", "action", "calls", "total_ms", "share_pct"]].to_numpy().tolist()


def answer(tmp_path: Path, text: str) -> Check:
    (tmp_path / "job.out").write_text(text)
    found = check_of(Profile(load_run([tmp_path])), "step_time.profile_tables")
    assert found is not None
    return found


def test_rows_of_key_averages_are_read_without_their_head(tmp_path: Path) -> None:
    """Ranges that the device's part repeats (300 %) and times below zero are no times of their own."""
    assert rows(tmp_path, KEY_ROWS) == [
        ["torch.profiler", "aten::copy_", 2500.0, 4000.0, 40.0],
        ["torch.profiler, device", "aten::copy_", 2500.0, 1200.0, 40.0],
        ["torch.profiler, device", "Memcpy HtoD (Pageable -> Device)", 1000.0, 1050.0, 35.0],
        ["torch.profiler", "cudaMemcpyAsync", 2500.0, 1000.0, 10.0],
    ]


@pytest.mark.parametrize(
    ("text", "table", "name", "calls", "total_ms"),
    [
        (NVPROF, "nvprof", "[CUDA memcpy DtoD]", 2_000_000.0, 3000.0),
        ("\n".join(NVPROF.splitlines()[2:]), "nvprof", "[CUDA memcpy DtoD]", 2_000_000.0, 3000.0),
        (NSYS_NEW, "nsys, kernels", "void mm<float, int>(float*)", 2000.0, 4000.0),
        (NSYS_OLD, "nsys, CUDA API", "cudaStreamSynchronize", 100.0, 7000.0),
        (CPROFILE, "cProfile", "{method 'read' of '_io.BufferedReader' objects}", 1000.0, 6000.0),
        (LINES, "line_profiler", "line 11: batch = next(loader)", 100.0, 1500.0),
        ("iter latency:   250.50 ms\n", "DeepSpeed flops profiler", "iter", 1.0, 250.5),
    ],
)
def test_the_first_row_of_each_kind_of_table(
    tmp_path: Path, text: str, table: str, name: str, calls: float, total_ms: float
) -> None:
    assert rows(tmp_path, text)[0][:4] == [table, name, calls, pytest.approx(total_ms)]


def test_shares_are_those_of_the_table_or_of_its_total(tmp_path: Path) -> None:
    assert [row[4] for row in rows(tmp_path, NVPROF)] == [75.0, 25.0, 60.0, 30.0]
    assert [row[4] for row in rows(tmp_path, CPROFILE)] == [75.0, 12.5]
    assert [row[0] for row in rows(tmp_path, NVPROF)] == ["nvprof"] * 2 + ["nvprof, API calls"] * 2


def test_the_largest_rows_are_cited_with_share_calls_and_mean(tmp_path: Path) -> None:
    first = answer(tmp_path, NSYS_NEW).support[0]
    assert first.names == ("void mm<float, int>(float*)", "softmax")
    assert [fact.value for fact in first.facts] == pytest.approx([4000.0, 80.0, 2000, 2.0, 1000.0, 20.0, 1000, 1.0])


def test_many_short_copies_and_waiting_calls_are_explained(tmp_path: Path) -> None:
    said = [each.template for each in answer(tmp_path, NVPROF).support]
    assert any("many small copies" in text for text in said)
    assert any("waits for the device: its time is no cost by itself" in text for text in said)
    assert not any("many small" in text for text in (each.template for each in answer(tmp_path, NSYS_NEW).support))


def test_uploads_from_pageable_memory_are_named_with_their_share(tmp_path: Path) -> None:
    (upload,) = (each for each in answer(tmp_path, KEY_ROWS).support if "to the device take" in each.template)
    assert upload.facts[0].value == 35.0
    assert "pageable" in upload.template


def test_what_an_epoch_of_lightning_takes_outside_of_its_batches(tmp_path: Path) -> None:
    table = (
        "FIT Profiler Report\n"
        "|  Action             |  Mean duration (s)  |  Num calls  |  Total time (s)  |  Percentage %  |\n"
        "|  run_training_epoch |  40.0               |  2          |  80.0            |  90.0          |\n"
        "|  run_training_batch |  0.05               |  1000       |  50.0            |  56.3          |\n"
    )
    (rest,) = (each for each in answer(tmp_path, table).support if "lies outside of" in each.template)
    assert rest.facts[0].value == pytest.approx(30_000.0)


FLAT = """\
Profiler Report

Action                  |  Mean duration (s)    |  Total time (s)
-----------------------------------------------------------------
get_train_batch         |  0.01                 |  10.0
model_forward           |  0.03                 |  30.0
model_backward          |  0.02                 |  20.0
optimizer_step          |  0.015                |  15.0
"""
NESTED = FLAT + "run_training_batch      |  0.07                 |  70.0\n"


def test_rows_of_lightning_add_up_unless_one_is_known_to_hold_others(tmp_path: Path) -> None:
    """10 + 30 + 20 + 15 s."""
    added = answer(tmp_path, FLAT).support[-1]
    assert added.template.startswith("Its rows add up to")
    assert [fact.value for fact in added.facts] == [75_000.0]
    assert answer(tmp_path, NESTED).support[-1].template.startswith("Some of its rows contain others")
