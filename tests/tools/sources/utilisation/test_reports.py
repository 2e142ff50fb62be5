"""What tools report of one moment is read, said with its limits, and mixed up with nothing that follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.utilisation import outputs, reports
from tests.tools.sources.utilisation.test_damage import taken
from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.sources.load import load_run
from tools.sources.utilisation.reader import samples_in
from tools.views.profile import Profile


def values(text: str) -> dict[tuple[str, int, str], float]:
    """The last value by counter, device and part."""
    return {
        (counter, device, part): value
        for each in samples_in((text.encode(),))
        for counter, device, part, value in zip(each.counters, each.places, each.parts, each.values, strict=True)
    }


def profile_of(folder: Path, text: str) -> Profile:
    (folder / "report.txt").write_text(text)
    return Profile(load_run([folder / "report.txt"]))


def said(folder: Path, text: str, name: str) -> str:
    """The sentences of a check with figures in their places."""
    found = answer(folder, text, name)
    filled = []
    for each in found.support:
        sentence = each.template
        for place, fact in enumerate(each.facts):
            sentence = sentence.replace(f"{{{place}}}", f"{fact.value:.4g} {fact.unit}")
        for place, one in enumerate(each.names):
            sentence = sentence.replace(f"{{n{place}}}", one)
        filled.append(sentence)
    return " ".join(filled)


def answer(folder: Path, text: str, name: str) -> Check:
    found = check_of(profile_of(folder, text), name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "counter", "device", "part", "value"),
    [
        (reports.DCGM_MONITOR, "device_engine_active_pct", 0, "", 99.0),
        (reports.DCGM_MONITOR, "device_dram_active_pct", 1, "", 10.9),
        (reports.DCGM_OLD, "device_busy_pct", 1, "", 35.0),
        (reports.GPUSTAT, "device_power_w", 0, "", 312.0),
        (reports.GPUSTAT, "device_memory_used_bytes", 1, "", 1203.0 * (1 << 20)),
        (reports.TOPOLOGY, "topology_path", -1, "NV12 GPU0-GPU1", 1.0),
        (reports.P2P_FAST, "tested_bandwidth_bytes_per_s", -1, "unidirectional, P2P enabled: 0 to 1", 275.32e9),
        (reports.P2P_FAST, "tested_latency_us", -1, "P2P disabled: 0 to 1", 18.4),
        (
            *(reports.PERFTEST_MB, "tested_bandwidth_bytes_per_s", -1),
            *("RDMA_Write BW on mlx5_0: 1048576 bytes", 11789.55 * (1 << 20)),
        ),
        (reports.LATENCY, "tested_latency_us", -1, "RDMA_Write Latency on mlx5_1: 2 bytes", 1.08),
        (reports.IBSTATUS, "link_rate_gbit_per_s", -1, "mlx5_3/1", 100.0),
        (reports.PERFQUERY, "interface_dropped", -1, "lid 12/1", 57.0),
        (reports.FREE, "memory_available_pct", -1, "", 2.0),
        (reports.FREE, "swap_used_pct", -1, "", 75.0),
        (reports.DF, "disk_used_pct", -1, "/dev/shm", 96.0),
        (reports.TOP, "process_cpu_pct", -1, "31245 python", 101.3),
        (reports.FIO, "tested_requests_per_s", -1, "randread read", 1500.0),
        (reports.FIO, "tested_storage_wait_ms", -1, "randread read", 20.98),
        (reports.LISTING_BUSY, "pcie_width", 0, "", 8.0),
        (reports.LISTING_BUSY, "device_ecc_errors", 0, "dram uncorrectable", 3.0),
    ],
)
def test_values_of_reports(text: str, counter: str, device: int, part: str, value: float) -> None:
    assert values(text)[counter, device, part] == pytest.approx(value)


@pytest.mark.parametrize("name", sorted(reports.EVERY))
def test_what_follows_a_report_is_read(name: str) -> None:
    for after in (outputs.QUERY, reports.TOPOLOGY, reports.DCGM_OLD):
        assert set(taken(after.encode())) <= set(taken((reports.EVERY[name] + after).encode()))


def test_bits_of_perftest_are_bits() -> None:
    found = values(reports.PERFTEST.format(unit="Gb/sec"))
    assert found["tested_bandwidth_bytes_per_s", -1, "RDMA_Write BW on mlx5_0: 65536 bytes"] == 11755.01e9 / 8


def test_amounts_of_free_without_units_are_shares_only() -> None:
    plain = "        total        used        free      shared  buff/cache   available\nMem: 1000 600 100 10 300 350\n"
    assert values(plain) == {("memory_available_pct", -1, ""): 35.0}


def test_the_engines_of_dcgm_are_the_utilization_where_there_is_no_other(tmp_path: Path) -> None:
    text = said(tmp_path, reports.DCGM_MONITOR, "computation.device_use")
    assert "Kernels ran in 26 % of the time on device 1, in 98.75 % on device 0." in text


def test_instances_of_a_split_device_stand_apart(tmp_path: Path) -> None:
    text = said(tmp_path, reports.INSTANCES, "computation.device_instances")
    assert "Instance MIG 1 of device 0: engines active 93 %." in text
    assert "not of the whole device" in text


def test_ports_with_other_rates_and_without_link_are_named(tmp_path: Path) -> None:
    text = said(tmp_path, reports.IBSTAT, "communication.link_reports")
    assert text.startswith("Port mlx5_0/1 runs at 100 Gbit/s, port mlx5_1/1 at 200 Gbit/s")
    assert text.endswith("Port mlx5_2/1 is not active.")


def test_paths_between_devices_are_counted(tmp_path: Path) -> None:
    text = said(tmp_path, reports.TOPOLOGY, "communication.link_reports")
    assert "4 pairs of GPUs are joined by PCIe and the link between processors (SYS)." in text
    assert "2 pairs of GPUs are joined by NVLink (NV12)." in text


@pytest.mark.parametrize(
    ("enabled", "ends"),
    [("275.32", ""), (" 11.40", "Direct access brings no gain"), ("  4.10", "Direct access is slower than copies")],
)
def test_direct_access_without_gain_is_said(tmp_path: Path, enabled: str, ends: str) -> None:
    text = said(tmp_path, reports.P2P.format(enabled=enabled), "communication.link_reports")
    assert ends in text
    assert ("Direct access" in text) is bool(ends)
    assert "what a step loses to them is not in it" in text


@pytest.mark.parametrize(("busy", "said_of_generation"), [(97, True), (0, False)])
def test_a_lowered_generation_counts_under_load_alone(tmp_path: Path, busy: int, said_of_generation: bool) -> None:
    text = said(tmp_path, reports.LISTING.format(generation=1, busy=busy), "computation.device_links")
    assert ("Under load the PCIe link of device 0 is of generation 1" in text) is said_of_generation
    assert "has 8 lanes of 16 lanes" in text
    assert "uncorrected memory errors (3 events)" in text


def test_memory_and_file_systems_that_are_full(tmp_path: Path) -> None:
    text = said(tmp_path, reports.FREE + reports.DF, "memory.host_reports")
    assert "2 % of the machine's memory is available, 75 % of its swap is in use." in text
    assert "The file system / is full to 100 %." in text
    assert "/data" not in text


def test_one_report_of_the_processors_is_no_cause(tmp_path: Path) -> None:
    found = answer(tmp_path, reports.TOP, "cpu.machine_samples")
    assert found.status == "cannot_answer"
    assert "one report" in found.reason
    assert any(each.names == ("31245 python",) for each in found.support)
    one = outputs.IOSTAT.partition("\n\navg-cpu")[2].partition("\n\navg-cpu")[2]
    disks = answer(tmp_path, f"avg-cpu{one}", "io.machine_samples")
    assert not disks.findings
    assert "mean since the machine was started" in disks.support[-1].template


def test_a_test_of_storage_is_said_to_be_one(tmp_path: Path) -> None:
    text = said(tmp_path, reports.FIO, "io.storage_test")
    assert "reaches 190 MiB/s, that is 1500 /s (requests); a request takes 20.98 ms." in text


def test_reasons_for_lowering_clocks_are_read_without_the_listing_around_them() -> None:
    found = values(
        "    Clocks Event Reasons\n        Idle                  : Not Active\n        SW Power Cap          : Active\n"
        "            HW Thermal Slowdown : Not Active\n"
    )
    assert found == {
        ("throttle_idle", 0, ""): 0.0,
        ("throttle_power", 0, ""): 1.0,
        ("throttle_thermal", 0, ""): 0.0,
    }


def test_a_device_that_the_driver_calls_idle_is_under_no_load(tmp_path: Path) -> None:
    text = "    Clocks Event Reasons\n        Idle : Active\n        HW Slowdown : Not Active\n"
    assert answer(tmp_path, text, "computation.clocks").status == "cannot_answer"


def test_reads_of_peers_are_a_test_of_their_own() -> None:
    both = (
        reports.P2P_FAST + "Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)\n   D\\D 0 1\n 0 9.0 8.0\n"
    )
    found = values(both)
    assert found["tested_bandwidth_bytes_per_s", -1, "unidirectional, P2P enabled: 0 to 1"] == 275.32e9
    assert found["tested_bandwidth_bytes_per_s", -1, "unidirectional, P2P enabled (reads): 0 to 1"] == 8e9


def test_the_head_of_top_with_threads_and_decimal_commas() -> None:
    found = values(
        "Threads: 581 total,  18 running, 563 sleeping\n%Cpu(s): 50,6 us,  2,6 sy,  0,0 ni, 46,8 id,  0,0 wa\n"
    )
    assert found["runnable_processes", -1, ""] == 18.0
    assert found["cpu_busy_pct", -1, ""] == pytest.approx(53.2)
