"""Questions to samples of devices and machines alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.evidence.citations import without_citations
from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss, unsupported
from tests.tools.analyzers.test_samples import GOOD, HOT, profile_of, rows
from tests.tools.sources.utilisation import outputs, reports

POWER = "timestamp, power.draw [W]\n" + "".join(
    f"2025/04/24 15:58:{second:02}.000, {watts} W\n" for second, watts in ((10, 20.0), (20, 120.0), (30, 40.0))
)

ONCE_READ = (
    "NIC statistics:\n     rx_packets: 2000\n     rx_errors: 5\n     rx_dropped: 10\n     rx_missed_errors: 145\n"
)


@pytest.mark.parametrize(
    ("text", "question", "said"),
    [
        (rows(GOOD, HOT), "is a GPU throttling?", "No step was measured, so what it costs is not known."),
        (rows(GOOD, HOT), "is a GPU throttling?", "Device 1 lowers its clock for heat in 100 %"),
        (outputs.TABLE, "What is the GPU utilization in percent?", "on device 1, in 97.0 %"),
        (outputs.TABLE, "peak memory?", "Device 0 holds 69.6 GiB"),
        (outputs.TABLE, "how much GPU memory is used?", "Device 0 holds 69.6 GiB"),
        (outputs.TABLE, "how hot are the GPUs?", "- Device 1, temperature: 31 C [E"),
        (rows(GOOD, HOT), "which gpu is the hottest?", "Device 1 has the highest temperature of 2 devices"),
        (rows(GOOD, HOT), "which device is the coolest", "Device 0 has the lowest temperature of 2 devices"),
        (rows(GOOD, HOT), "temperature of gpu 11", "The samples hold no device 11; they hold 0 and 1."),
        (outputs.TABLE, "how much memory is used on gpu 0", "Device 0, memory in use: 69.6 GiB"),
        (POWER, "what power does it draw?", "Device 0, power: 60 W"),
        (rows(GOOD, HOT), "is the power limit set?", "What to record: `nvidia-smi"),
        (outputs.RDMA, "is the network losing packets?", "The network may have a part in it"),
        (outputs.VMSTAT, "how busy is the CPU?", "By the samples, on average: 65.0 %"),
        (outputs.VMSTAT, "is the machine swapping?", "Swapped in and out by the samples: 0.002 MiB/s"),
        (outputs.IOSTAT, "is the disk busy?", "Disk `nvme0n1` has requests for 99.5 %"),
        (ONCE_READ, "are there errors on the interface?", "In all, errors of a network interface: 5 events"),
        (ONCE_READ, "does the network drop packets?", "In all, packets that an interface dropped: 155 events"),
        (ONCE_READ, "does the network drop packets?", "they count since the machine was started"),
        (outputs.RDMA, "are there RDMA errors?", "Between the readings, RDMA packets out of sequence: 110 events"),
        (rows(GOOD, HOT), "is a GPU too hot?", "The highest temperature of the 2 devices in the samples is"),
        (reports.FREE, "is the machine swapping?", "Of the machine's swap 75.0 %"),
        (reports.FREE, "how much memory is used?", "2.00 % [E1] of the machine's memory is available"),
        (reports.FREE, "how much memory is used?", "that of its devices was not recorded"),
        (outputs.IOSTAT, "how much memory is used?", "How much device memory is used was not recorded"),
        (rows(GOOD, GOOD), "is a GPU throttling?", "Not assessable from these sources: a slow device."),
    ],
)
def test_samples_answer_with_their_figures(tmp_path: Path, text: str, question: str, said: str) -> None:
    discussion = discuss(profile_of(tmp_path, text))
    found = reply(discussion, question)
    assert unsupported(found.text, discussion) == []
    assert said in found.text


def test_without_a_known_cost_nothing_is_called_healthy(tmp_path: Path) -> None:
    discussion = discuss(profile_of(tmp_path, rows(GOOD, GOOD)))
    assert discussion.diagnosis.verdict == "inconclusive"
    assert "healthy" not in reply(discussion, "is everything fine?").text.lower().replace("not healthy", "")


def test_devices_and_hosts_of_samples_are_in_the_record(tmp_path: Path) -> None:
    diagnosis = discuss(profile_of(tmp_path, outputs.QUERY + outputs.SAR)).diagnosis
    assert diagnosis.run.devices == ["NVIDIA A100-SXM4-80GB"]
    assert diagnosis.run.hosts == ["node7"]  # and so masked where names are


def test_power_alone_is_shown_first_and_then_what_it_does_not_show(tmp_path: Path) -> None:
    """(20 + 120 + 40) / 3 = 60 W over 20 s."""
    answer = discuss(profile_of(tmp_path, POWER)).diagnosis.answer
    plain = [without_citations(each) for each in answer]
    assert plain[0] == "Device 0 draws 60 W on average, 20 W to 120 W, over 20.0 s of readings."
    assert "does not show when kernels ran" in plain[1]
    assert plain[-1].startswith("Inconclusive")


HOST = (
    "PyTorch version: 2.4.0+cu124\nIs debug build: False\nCUDA used to build PyTorch: 12.4\n"
    "GPU models and configuration: GPU 0: NVIDIA A100 80GB PCIe\nGPU 1: NVIDIA A100 80GB PCIe\n"
)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("which PyTorch and GPU is this?", "`torch` `2.4.0+cu124`"),
        ("how many GPUs?", "`gpus` `2`"),
        ("which GPU is it?", "`NVIDIA A100 80GB PCIe`"),
    ],
)
def test_versions_and_devices_of_a_recorded_host_answer_for_it(tmp_path: Path, question: str, said: str) -> None:
    discussion = discuss(profile_of(tmp_path, HOST))
    assert said in reply(discussion, question).text
