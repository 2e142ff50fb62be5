"""The MFU that step lines state, by lines as programs print them."""

from __future__ import annotations

import pytest

from tools.sources.job_log.grammars.step_lines import step_line


@pytest.mark.parametrize(
    ("text", "mfu_pct"),
    [
        ("iter 40: loss 4.1230, time 210.10ms, mfu 31.25%", 31.25),
        ("iter 0: loss 9.1230, time 9210.10ms, mfu -100.00%", None),
        ("step 00012/20000 (0.06%) | loss: 7.1 | lrm: 1.00 | dt: 512.00ms | tok/sec: 512,000 | mfu: 0.83 | x: 1", 0.83),
        ("[titan] step: 20  loss:  9.1  memory: 10.1GiB(12.5%)  tps: 8,100  tflops: 210.5  mfu: 21.30%", 21.30),
        ("step: 20  loss:  9.1  memory: 10.1GiB(12.5%)  tps: 8,100  tflops: 210.5  mfu: N/A", None),
        (
            "step    3/40 | loss 5.1 (+nanz)| norm 1.1 (+nanz)| lr 1.00e-04 | 80.11 ms | 38.2% bf16 MFU | 6392 tok/s",
            38.2,
        ),
        (
            "step    3/40 | loss 5.1 (+nanz)| norm 1.1 (+nanz)| lr 1.00e-04 | 80.11 ms | -100.0% bf16 MFU | 6392 tok/s",
            None,
        ),
        ("step 12 | loss 3.2 | step_time 0.25 s | MFU: 41.5", 41.5),
        ("step 12 | loss 3.2 | step_time 0.25 s | mfu=0.415", None),
        ("step 12 | loss 3.2 | step_time 0.25 s | hmfu: 41.5%", None),
        ("step 12 time 101 ms target_mfu 60% mfu 35%", 35.0),
        ("step 12 time 101 ms target mfu: 60%, peak/mfu: 70%, mfu: 35%", 35.0),
        ("step 12 time 101 ms max_mfu 60%", None),
        ("step 12 | loss 3.2 | 80.11 ms | 60.0% target MFU | 38.2% bf16 MFU", 38.2),
        ("step 12 time 101 ms perf/mfu: 35%", 35.0),
        ("step 12 time 101 ms train_mfu: 35%", 35.0),
    ],
)
def test_an_mfu_is_read_in_percent_and_left_out_where_it_is_unknown_or_may_be_a_fraction(
    text: str, mfu_pct: float | None
) -> None:
    found = step_line(text)
    assert found is not None
    assert found.mfu_pct == mfu_pct
