"""What the answer says of a job's own output."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.report.text import render_text
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import NCCL, WATCHDOG
from tests.tools.sources.utilisation import outputs


def test_a_hang_is_the_first_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(WATCHDOG)
    found = diagnose(Request((tmp_path,)), lambda event: None)
    assert found.verdict == "inconclusive"
    assert found.headline == "Rank 7 waited 600 s [E1] for `ALLTOALL` (sequence number `4486`), which timed out."
    assert found.evidence[0].source.path.endswith("job.out")
    assert found.evidence[0].source.selector == "collective timeout, line 1"


def test_sockets_are_said_and_the_steps_stay_measured(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(NCCL + megatron(*((step, 100.0 + step % 3) for step in range(1, 41))))
    found = diagnose(Request((tmp_path,)), lambda event: None)
    assert "NCCL connects ranks over TCP sockets: 1 connection" in " ".join(found.answer)
    assert found.step_time_ms is not None
    assert found.step_time_ms.unprofiled is not None
    assert found.step_time_ms.unprofiled.source == "job log"


EXCERPT = """\
node1:8812:8901 [0] NCCL INFO NET/IB : No device found.
node1:8812:8901 [0] NCCL INFO Using network Socket
"""
OVER = "node1:8812:8901 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0\n"


def test_an_excerpt_without_the_end_of_the_initialisation_shows_its_sockets(tmp_path: Path) -> None:
    steps = megatron(*((step, 100.0 + step % 3) for step in range(1, 41)))
    (tmp_path / "job.out").write_text(EXCERPT + OVER + steps)
    assert "NCCL connects ranks over TCP sockets: 1 connection" in " ".join(_answer(tmp_path))
    (tmp_path / "job.out").write_text(EXCERPT + steps)
    said = " ".join(_answer(tmp_path))
    assert "NCCL chose TCP sockets as its network" in said
    assert "`NET/IB : No device found`" in said


def test_a_device_that_differs_is_said_next_to_steps(tmp_path: Path) -> None:
    """Device 2 draws 120 W, the others 340 W, all fully busy."""
    head = "timestamp, index, utilization.gpu [%], power.draw [W]\n"
    watts = ((0, 340), (1, 340), (2, 120))
    (tmp_path / "gpus.csv").write_text(
        head
        + "".join(f"2026/11/23 10:00:0{at}.500, {name}, 99 %, {each} W\n" for at in range(9) for name, each in watts)
    )
    (tmp_path / "job.out").write_text(megatron(*((step, 100.0 + step % 3) for step in range(1, 41))))
    assert "Device 2 draws 120 W" in " ".join(_answer(tmp_path))


def _answer(folder: Path) -> list[str]:
    return list(diagnose(Request((folder,)), lambda event: None).answer)


def test_the_file_whose_steps_are_used_and_the_one_left_out_are_named_in_the_first_paragraph(tmp_path: Path) -> None:
    for name, count in (("before.log", 30), ("after.log", 20)):
        (tmp_path / name).write_text(megatron(*((step, 100.0 + step % 3) for step in range(1, count + 1))))
    found = diagnose(Request((tmp_path,)), lambda event: None)
    assert "The steps are those of `before.log`; `after.log` holds steps of the same ranks and is left out" in " ".join(
        found.answer
    )
    (tmp_path / "after.log").unlink()
    alone = diagnose(Request((tmp_path,)), lambda event: None)
    assert "left out" not in " ".join(alone.answer)


def test_a_wait_for_data_that_the_lines_state_is_part_of_the_lead(tmp_path: Path) -> None:
    """5 of 500 ms are no cause, and no longer "not recorded"."""
    lines = [
        f"[11/01 11:{at // 6:02d}:{10 * (at % 6):02d} d2.utils.events]: eta: 8:05:12  iter: {20 * at + 19}"
        f"  total_loss: 1.0  time: 0.{500 + at % 3}  data_time: 0.0050  lr: 0.01  max_mem: 3961M"
        for at in range(20)
    ]
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n")
    found = diagnose(Request((tmp_path,)), lambda event: None)
    (lead,) = found.leads
    assert "waiting for data by the lines; other parts of it are not read from them" in lead.claim
    assert not any("slow_data" in each.cause for each in lead.candidates)


def test_the_mfu_that_the_lines_state_is_said_as_the_program_s_own(tmp_path: Path) -> None:
    """Forty steps of 100 ms at 30 % and of 300 ms at 10 % by turns: 4 s at 30 % and 12 s at 10 % are 15 %."""
    turns = ((100.0, 30.0), (300.0, 10.0))
    lines = [(step, *turns[step % 2]) for step in range(80)]
    (tmp_path / "job.out").write_text(
        "".join(f"iter {step}: loss 4.1, time {ms:.2f}ms, mfu {mfu:.2f}%\n" for step, ms, mfu in lines)
    )
    found = diagnose(Request((tmp_path,)), lambda event: None)
    said = next(each for each in found.answer if "MFU" in each)
    assert "The lines state an MFU of 15.0 %" in said
    assert "by the program's own figure of the device's peak" in said
    (tmp_path / "job.out").write_text(
        "".join(f"iter {step}: loss 4.1, time {ms:.2f}ms, mfu {10 * mfu:.2f}%\n" for step, ms, mfu in lines)
    )
    assert "150 % [E" in " ".join(_answer(tmp_path))
    assert "more than a device can reach" in " ".join(_answer(tmp_path))


def test_an_mfu_that_the_program_does_not_know_is_not_said(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(
        "".join(f"iter {step}: loss 4.1, time {100 + step % 3}.00ms, mfu -100.00%\n" for step in range(40))
    )
    assert "MFU" not in " ".join(_answer(tmp_path))


def lines_of(*times_s: float, gap: int = 1) -> str:
    """Lines of one step each, or of ``gap`` steps, from the middle of a job, with a wait for data of 4 ms each."""
    return "".join(
        f"epoch: 0, iter: {700 + gap * at}/9999, reader_cost: 0.004 s, batch_cost: {each} s\n"
        for at, each in enumerate(times_s)
    )


def diagnosis_of(folder: Path, text: str) -> Diagnosis:
    (folder / "job.log").write_text(text)
    return diagnose(Request((folder,)), lambda event: None)


def test_even_steps_are_called_even_and_not_slow(tmp_path: Path) -> None:
    found = diagnosis_of(tmp_path, lines_of(*[0.5, 0.51] * 6))
    assert "steps are even (" in found.answer[0]
    assert "is not in the job's output" in found.answer[0]


def test_lines_that_only_get_slower_are_not_called_even(tmp_path: Path) -> None:
    found = diagnosis_of(tmp_path, lines_of(*[0.5 + 0.002 * at for at in range(7)]))
    assert "are even" not in " ".join(found.answer)


def test_a_table_of_idle_devices_from_before_the_first_step_is_not_in_the_first_answer(tmp_path: Path) -> None:
    """One of busy devices may well be of this training: people paste it above the lines."""
    steps = megatron(*((step, 500.0) for step in range(1, 8)))
    idle = outputs.TABLE.replace(" 97% ", "  0% ")
    assert "Kernels ran in" not in " ".join(diagnosis_of(tmp_path, idle + steps).answer)
    assert "Kernels ran in" in " ".join(diagnosis_of(tmp_path, outputs.TABLE + steps).answer)
    assert "Kernels ran in" in " ".join(diagnosis_of(tmp_path, steps + outputs.TABLE).answer)


def test_a_file_that_holds_steps_and_a_table_of_devices_is_one_file(tmp_path: Path) -> None:
    steps = megatron(*((step, 500.0) for step in range(1, 8)))
    found = diagnosis_of(tmp_path, steps + outputs.TABLE)
    assert len(found.run.sources) == 2
    assert render_text(found).startswith("job.log · ")


def test_of_few_steps_the_longest_is_named_and_no_p95(tmp_path: Path) -> None:
    found = diagnosis_of(tmp_path, lines_of(*[0.2] * 7, 3.0))
    said = " ".join(found.answer)
    assert "step 707 takes 3000 ms" in said
    assert "p95" not in said + found.leads[0].claim


def test_of_lines_of_many_steps_the_longest_block_is_named(tmp_path: Path) -> None:
    """The p95 of four means would lie between the two longest: no line states it."""
    found = diagnosis_of(tmp_path, lines_of(0.2, 0.2, 2.0, 0.21, gap=100))
    assert "steps 801 to 900 take on average 2000 ms" in found.leads[0].claim
    assert "p95" not in found.leads[0].claim


def test_an_evaluation_that_the_output_names_at_the_longest_steps_is_stated(tmp_path: Path) -> None:
    text = lines_of(0.2, 0.2, 2.0, 0.21, gap=100) + "[ITER 850] Evaluating train: L1 0.03\n[ITER 5000] Saving points\n"
    assert "The output names an evaluation at step 850" in diagnosis_of(tmp_path, text).leads[0].claim


def test_a_bar_that_counts_to_the_number_of_epochs_counts_epochs(tmp_path: Path) -> None:
    bars = "".join(
        f"all:  10%|# | {at}/40 [{at * 50 // 60:02d}:{at * 50 % 60:02d}<10:00, 50.0s/it]\n" for at in range(30)
    )
    found = diagnosis_of(tmp_path, f"Namespace(lr=0.1, epochs=40)\n{bars}")
    assert any("a step here is an epoch" in each for each in found.answer)
    (tmp_path / "job.log").unlink()
    assert not any("is an epoch" in each for each in diagnosis_of(tmp_path, f"Namespace(epochs=41)\n{bars}").answer)


@pytest.mark.parametrize("name", ["Epoch 3", "train steps", "Iterations", "batches"])
def test_a_bar_within_an_epoch_or_of_steps_by_its_name_counts_no_epochs(tmp_path: Path, name: str) -> None:
    bars = "".join(f"{name}:  10%|# | {at}/40 [{at // 2:02d}:{at % 2 * 30:02d}<10:00, 30.0s/it]\n" for at in range(41))
    assert not any("is an epoch" in each for each in diagnosis_of(tmp_path, f"Namespace(epochs=40)\n{bars}").answer)


def test_a_bar_that_counts_to_the_number_of_epochs_several_times_counts_no_epochs(tmp_path: Path) -> None:
    bars = "".join(
        f" 10%|# | {at}/10 [{at * each // 60:02d}:{at * each % 60:02d}<00:10,  {each}.00s/it]\n"
        for each in (9, 5, 7)
        for at in range(1, 11)
    )
    assert not any("is an epoch" in each for each in diagnosis_of(tmp_path, f"num_epochs: 10\n{bars}").answer)


BUSY = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 550.10       Driver Version: 550.10       CUDA Version: 12.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Some GPU            Off  | 00000000:1A:00.0 Off |                  N/A |
| 63%   61C    P2   166W / 350W |  23000MiB / 24268MiB |     97%      Default |
+-------------------------------+----------------------+----------------------+
"""


def test_samples_of_devices_next_to_printed_steps_are_told(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(megatron(*((step, 100.0 + step % 3) for step in range(1, 41))))
    (tmp_path / "nvidia-smi.txt").write_text(BUSY)
    said = " ".join(_answer(tmp_path))
    assert "Kernels ran in 97.0 %" in said
    assert "Device 0 holds 22.5 GiB" in said
