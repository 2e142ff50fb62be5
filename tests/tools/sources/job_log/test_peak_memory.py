"""The peak of device memory that a program prints of itself, and samples from before its first step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.utilisation import outputs
from tools.analyzers.registry import check_of
from tools.findings import Sentence
from tools.metrics.registry import measure
from tools.sources.job_log.peak_memory import PeakMemories
from tools.sources.load import load_run
from tools.views.profile import Profile

STEPS = megatron(*((step, 500.0) for step in range(1, 8)))


def profile_of(tmp_path: Path, text: str) -> Profile:
    (tmp_path / "job.log").write_text(text)
    return Profile(load_run([tmp_path / "job.log"]))


def said(profile: Profile, name: str) -> list[Sentence]:
    check = check_of(profile, name)
    return [] if check is None else list(check.support)


def peaks(*lines: str) -> dict[str, float]:
    """The peaks that the lines state, in MiB."""
    found = PeakMemories(0)
    for number, text in enumerate(lines, start=1):
        found.take(number, text)
    return {kind: float(each.value) / 2**20 for kind, each in found.found.items()}


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("peak memory allocated: 11812 MiB reserved: 14952 MiB", {"allocated": 11812, "reserved": 14952}),
        ("GPU 0 - Peak memory allocated: 5 GB, Peak memory reserved: 6 GB", {"allocated": 5120, "reserved": 6144}),
        ("Max Memory Allocated: 1048576 bytes", {"allocated": 1}),
        ("Max allocated memory (MB): 2,048", {"allocated": 2048}),
        ("peak_vram_allocated_mib:100.5 peak_vram_reserved_mib:120", {"allocated": 100.5, "reserved": 120}),
        ("Peak GPU memory       : 5 GB", {"device": 5120}),
        ("Peak memory usage: 12345.67MiB", {"unnamed": 12345.67}),
        (
            "[Rank 3] (after 20 iterations) memory (MB) | allocated: 20.5 | max allocated: 40.25 | reserved: 50.0 "
            "| max reserved: 60.5",
            {"allocated": 40.25, "reserved": 60.5},
        ),
        ("MA 3.8 GB         Max_MA 5.5 GB         CA 7.4 GB         Max_CA 7 GB", {"allocated": 5632}),
        ("step: 10  loss: 8.1  memory: 47.5GiB(59.4%)  tps: 5,700  mfu: 41%", {"reserved": 48640}),
        ("Epoch [1][50/750] lr: 0.01, time: 0.593, data_time: 0.03, memory: 6836, loss: 0.4", {"allocated": 6836}),
        ("Epoch(train) [1][50/750] time: 0.5  data_time: 0.01  memory: 700  loss: 0.4", {"allocated": 700}),
        ("iter: 19  total_loss: 2.1  time: 0.2  data_time: 0.01  lr: 0.02  max_mem: 3034M", {"allocated": 3034}),
        ("Epoch: [0]  [10/99]  eta: 0:01  time: 0.5  data: 0.1  max mem: 5432", {"allocated": 5432}),
        (
            "Train: [0/300][10/99] time 0.4 (0.5) loss 6.9 (6.9) grad_norm 1.2 (1.3) mem 8345MB",
            {"allocated": 8345},
        ),
        (
            "train_inner: ups=0.2, cuda_gb_allocated=12.5, cuda_gb_reserved=14, wall=9",
            {"allocated": 12800, "reserved": 14336},
        ),
        ("iter: 10/99, gpu mem: 5432Mb, mem: 20.1Gb, iter_time: 0.3s", {"allocated": 5432}),
    ],
)
def test_forms_that_programs_print_are_read(text: str, mib: dict[str, float]) -> None:
    assert peaks(text) == pytest.approx(mib)


@pytest.mark.parametrize(
    "text",
    [
        "peak memory allocated: 101348864",  # of no unit
        "max_memory: 20GB",  # a limit
        "memory: 5432",
        "max mem: 5432",  # next to no time: whose line it is, is not known
        "Estimated peak memory: 5 GB",
        "CPU peak memory: 5 GB",
        "peak memory bandwidth: 2.0 GB",
        "peak memory usage: 2 GB/s",
        "# peak memory allocated: 5 GB",
        'print0(f"peak memory allocated: {torch.cuda.max_memory_allocated() // 1024 // 1024} MiB "',
    ],
)
def test_limits_estimates_memory_of_hosts_and_program_text_are_none(text: str) -> None:
    assert peaks(text) == {}


def test_of_several_lines_the_largest_counts(tmp_path: Path) -> None:
    """12,288 MiB are 12 GiB; the ranks' outputs hold 8 and 12."""
    assert peaks("peak memory allocated: 8 MiB", "peak memory allocated: 9 MiB", "peak memory allocated: 7 MiB") == {
        "allocated": 9
    }
    for rank, mib in ((0, 8192), (1, 12288)):
        (tmp_path / f"rank{rank}.log").write_text(STEPS + f"peak memory allocated: {mib} MiB\n")
    profile = Profile(load_run([tmp_path]))
    assert measure(profile, "stated_peak_gib", kind="allocated").value == 12.0


def test_the_stated_peak_is_shown_with_its_line(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, STEPS + "peak memory allocated: 11264 MiB reserved: 14336 MiB\n")
    (sentence,) = said(profile, "memory.output_peak")
    assert [fact.value for fact in sentence.facts] == [11.0, 14.0]
    assert "before" not in sentence.template
    assert "bytes" not in sentence.template
    assert measure(profile, "stated_peak_gib", kind="reserved").selector.endswith(f"line {STEPS.count(chr(10)) + 1}")


def test_a_peak_from_before_the_first_step_is_not_that_of_the_training(tmp_path: Path) -> None:
    (sentence,) = said(profile_of(tmp_path, "Max memory allocated: 2 GB\n" + STEPS), "memory.output_peak")
    assert "before the first printed step" in sentence.template


def test_a_peak_after_the_first_steps_is_of_them_though_their_lines_come_later(tmp_path: Path) -> None:
    text = "(after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: 2048.0\n" + STEPS
    (sentence,) = said(profile_of(tmp_path, text), "memory.output_peak")
    assert "before" not in sentence.template
    assert sentence.facts[0].value == 2.0


def test_a_unit_of_two_sizes_gives_a_range(tmp_path: Path) -> None:
    """111,477 MB are 111.477e9 bytes = 103.82 GiB, or 111,477 / 1,024 = 108.86 GiB."""
    text = STEPS + "System/Peak GPU Memory (MB)=111,477\n"
    (sentence,) = said(profile_of(tmp_path, text), "memory.output_peak")
    assert [fact.value for fact in sentence.facts] == pytest.approx([111.477e9 / 2**30, 111477 / 1024])
    assert "a peak of {0} to {1} used device memory" in sentence.template
    assert "10^6 or 2^20 bytes" in sentence.template


def test_whether_unnamed_memory_is_of_the_device_stays_open(tmp_path: Path) -> None:
    (sentence,) = said(profile_of(tmp_path, STEPS + "Peak memory usage: 2048 MiB\n"), "memory.output_peak")
    assert "whether this is device memory is not said" in sentence.template


@pytest.mark.parametrize(
    ("text", "when"),
    [
        (outputs.TABLE + STEPS, "before the first printed step."),
        (outputs.TABLE + outputs.TABLE + STEPS, "before the first printed step."),
        (outputs.TABLE + STEPS + outputs.TABLE, "at most."),
        (STEPS + outputs.TABLE, "at the moment of the one reading."),
        (outputs.TABLE, "at the moment of the one reading."),
    ],
)
def test_memory_is_at_most_only_of_several_readings_during_the_steps(tmp_path: Path, text: str, when: str) -> None:
    (sentence,) = said(profile_of(tmp_path, text), "memory.device_samples")
    assert sentence.template.endswith(when)
    assert sentence.facts[0].value == pytest.approx(71234 / 1024)


def test_idle_devices_before_the_first_step_say_nothing_of_the_training(tmp_path: Path) -> None:
    idle = outputs.TABLE.replace(" 97% ", "  0% ")
    assert idle != outputs.TABLE
    profile = profile_of(tmp_path, idle + STEPS)
    for name in ("computation.device_use", "memory.device_samples"):
        check = check_of(profile, name)
        assert check is not None
        assert check.status == "cannot_answer"
        assert "before the first printed step, and no kernel ran then" in check.reason
    later = check_of(profile_of(tmp_path, STEPS + idle), "computation.device_use")
    assert later is not None
    assert later.status != "cannot_answer"


def test_utilization_from_before_the_first_step_is_marked_so(tmp_path: Path) -> None:
    first = said(profile_of(tmp_path, outputs.TABLE + STEPS), "computation.device_use")[0]
    assert "before the first printed step on device" in first.template
    later = said(profile_of(tmp_path, STEPS + outputs.TABLE), "computation.device_use")[0]
    assert "before" not in later.template
