"""Each tool's output gives the values that stand in it, with their line, device and time."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.tools.sources.utilisation import outputs
from tools.run.recorded.counters import COUNTERS, CounterRecords
from tools.sources.load import load_run
from tools.sources.utilisation.reader import is_counters, read_counters

GIB = 1 << 30


def read(tmp_path: Path, text: str, name: str = "samples") -> CounterRecords:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    records = read_counters(path).records
    assert records is not None
    return records


def values(records: CounterRecords, counter: str, device: int = -1, part: str = "") -> list[float]:
    samples = records.samples
    own = samples[(samples["counter"] == counter) & (samples["device"] == device) & (samples["part"] == part)]
    return [float(value) for value in own["value"]]


@pytest.mark.parametrize("name", outputs.EVERY)
def test_every_output_is_recognised_by_its_content_and_every_value_has_its_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x"
    path.write_text(outputs.EVERY[name], encoding="utf-8")
    assert is_counters(path) or name == "PRESSURE_GREP"  # a single value may stand in any text
    samples = read(tmp_path, outputs.EVERY[name]).samples
    assert set(samples["counter"]) <= set(COUNTERS)
    assert samples["line"].between(1, len(outputs.EVERY[name].splitlines())).all()


def test_query_columns_are_found_by_name_with_their_units(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.QUERY)
    assert values(records, "device_busy_pct", 0) == [97.0, 95.0]
    assert values(records, "device_power_w", 1) == []  # [N/A] is no value
    assert values(records, "device_memory_used_bytes", 1) == [2 * GIB]
    assert values(records, "device_clock_mhz", 1) == [1200.0]
    samples = records.samples
    assert samples["tick"].tolist() == sorted(samples["tick"])
    assert samples.loc[samples["line"] == 4, "tick"].unique().tolist() == [1]
    # 2025-04-24 15:58:57 is 1,745,510,337 s after 1970; nvidia-smi states no zone
    assert samples["time_unix_ns"].iloc[0] == pytest.approx(1_745_510_337.879e9, abs=1e3)
    assert records.sources[0].clock == "local"
    assert records.sources[0].devices == ((0, "NVIDIA A100-SXM4-80GB"), (1, "NVIDIA A100-SXM4-80GB"))


def test_a_mask_of_throttle_reasons_is_taken_apart(tmp_path: Path) -> None:
    """0x24: bit 2 is the power limit, bit 5 the software's thermal slowdown (nvml.h)."""
    records = read(tmp_path, outputs.QUERY)
    flags = ("throttle_power", "throttle_thermal", "throttle_hardware", "throttle_idle", "throttle_power_brake")
    assert [values(records, flag, 1) for flag in flags] == [[1.0], [1.0], [0.0], [0.0], [0.0]]
    assert [values(records, flag, 0) for flag in flags] == [[0.0, 0.0]] * 5


@pytest.mark.parametrize("text", [outputs.LOCALISED, outputs.COMMAS])
def test_decimal_commas_are_read(tmp_path: Path, text: str) -> None:
    assert values(read(tmp_path, text), "device_power_w", 0) == [250.5]


def test_columns_under_names_of_a_script_are_known_and_a_zone_makes_times_certain(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.OWN_NAMES)
    assert values(records, "device_temperature_c", 1) == [60.0, 60.0]
    assert values(records, "device_power_w", 0) == [387.26, 387.36]
    assert records.sources[0].clock == "unix"


def test_devices_without_an_index_are_told_by_what_is_written_at_once(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.WITHOUT_INDEX)
    assert [values(records, "device_busy_pct", device) for device in range(4)] == [[10.0 * at] * 6 for at in range(4)]
    assert records.samples["tick"].max() == 5


def test_one_device_without_an_index_stays_one(tmp_path: Path) -> None:
    lines = "".join(f"2025/04/24 15:58:{at:02d}.100, {at} %\n" for at in range(20))
    records = read(tmp_path, "timestamp, utilization.gpu [%]\n" + lines)
    assert values(records, "device_busy_pct", 0) == [float(at) for at in range(20)]


def test_a_pause_of_one_device_without_an_index_makes_no_devices_of_its_rows(tmp_path: Path) -> None:
    seconds = [*range(13), *range(17, 30)]
    rows = "".join(f"2026/01/03 15:36:{at:02d}.100, GPU, {at} %\n" for at in seconds)
    records = read(tmp_path, "timestamp, name, utilization.gpu [%]\n" + rows)
    assert values(records, "device_busy_pct", 0) == [float(at) for at in seconds]


def test_rows_of_one_time_stamp_without_an_index_are_devices(tmp_path: Path) -> None:
    rows = "".join(f"2026/01/03 15:36:0{at}, {10 * device} %\n" for at in range(3) for device in range(2))
    records = read(tmp_path, "timestamp, utilization.gpu [%]\n" + rows)
    assert [values(records, "device_busy_pct", device) for device in range(2)] == [[0.0] * 3, [10.0] * 3]


@pytest.mark.parametrize(
    ("columns", "cells", "note"),
    [
        ("gpu,index", "{device}, 0", "rows of one time stamp have the same `index`: it numbers no devices, and `gpu`"),
        ("index,uuid", "0, GPU-{device}", "rows of one time stamp have the same `index`: it numbers no devices, and"),
        ("index", "0", "rows of one time stamp have the same `index`: it numbers no devices; they are counted in"),
    ],
)
def test_an_index_that_is_the_same_for_all_rows_of_a_moment_numbers_no_devices(
    tmp_path: Path, columns: str, cells: str, note: str
) -> None:
    rows = "".join(
        f"2025-09-08T17:26:5{at}+08:00,{cells.format(device=device)}, {70 + device}.5, 33\n"
        for at in range(3)
        for device in range(4)
    )
    path = tmp_path / "smi.csv"
    path.write_text(f"timestamp,{columns},power.draw,temperature.gpu\n{rows}")
    found = read_counters(path)
    assert found.records is not None
    assert [values(found.records, "device_power_w", device) for device in range(4)] == [
        [70.5 + device] * 3 for device in range(4)
    ]
    assert found.records.samples["tick"].max() == 2
    assert found.remarks[0].startswith(note)


def test_columns_that_are_not_known_are_named(tmp_path: Path) -> None:
    path = tmp_path / "smi.csv"
    path.write_text("timestamp,gpu_index,temp_F,load,power_W\n2025-09-24T03:48:33Z,0, 98, 77, 387.2\n" * 2)
    assert read_counters(path).remarks == ("columns that are not known, and left out: `temp_F`, `load`",)


def test_columns_without_names_are_left_out_with_what_to_record(tmp_path: Path) -> None:
    path = tmp_path / "smi.csv"
    path.write_text(outputs.NO_HEADER)
    assert is_counters(path)
    found = read_counters(path)
    assert found.records is None
    assert "write the header line too" in found.notes[0]


def test_the_plain_table_gives_devices_and_processes(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.TABLE)
    assert values(records, "device_busy_pct", 0) == [97.0]
    assert values(records, "device_power_limit_w", 1) == [400.0]
    assert values(records, "device_memory_used_bytes", 1) == [3 * (1 << 20)]
    assert values(records, "device_process_memory_bytes", 0, "12345 python") == [71230 * (1 << 20)]
    assert records.sources[0].driver == "525.60.13"
    assert not records.samples["time_unix_ns"].isna().any()  # by the date in the line above
    old = read(tmp_path, outputs.OLD_TABLE)
    assert values(old, "device_performance_state", 0) == [2.0]
    assert old.samples["time_unix_ns"].isna().all()


def test_tables_of_the_newest_driver_and_values_that_are_not_supported(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.NEWEST_TABLE)
    assert values(records, "device_temperature_c", 0) == [43.0]
    assert values(records, "device_power_limit_w", 0) == [115.0]
    assert values(records, "device_busy_pct", 0) == values(records, "device_power_w", 0) == []


def test_two_tables_are_two_readings(tmp_path: Path) -> None:
    records = read(tmp_path, 2 * outputs.TABLE)
    assert values(records, "device_busy_pct", 0) == [97.0, 97.0]
    assert sorted(set(records.samples["tick"])) == [0, 1]


def test_details_are_read_by_section(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.DETAILS)
    expected = {
        **{"device_busy_pct": 99.0, "device_memory_busy_pct": 41.0, "device_temperature_c": 71.0},
        **{"device_memory_temperature_c": 88.0, "device_power_w": 699.8, "device_power_limit_w": 700.0},
        **{"device_clock_mhz": 1590.0, "device_clock_max_mhz": 1980.0, "throttle_power": 1.0},
        "device_memory_used_bytes": 70000.0 * (1 << 20),
    }
    assert {counter: values(records, counter, 0) for counter in expected} == {
        counter: [value] for counter, value in expected.items()
    }
    assert values(records, "throttle_thermal", 0) == [0.0, 0.0]  # by hardware and by software


def test_rows_of_dmon_are_readings_and_repeated_headers_none(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.DMON)
    assert values(records, "device_clock_mhz", 0) == [1350.0, 1740.0]
    assert values(records, "throttle_power_pct", 1) == [12.0, 0.0]
    assert values(records, "device_memory_temperature_c", 0) == []
    assert sorted(set(records.samples["tick"])) == [0, 1]
    timed = read(tmp_path, outputs.DMON_TIMED)
    assert timed.samples["time_unix_ns"].diff().max() == pytest.approx(1e9)
    processes = read(tmp_path, outputs.PMON)
    assert values(processes, "device_process_busy_pct", 0, "23456 python") == [10.0]


def test_a_quoted_table_is_read_like_the_table_itself(tmp_path: Path) -> None:
    quoted = "".join(f"> {line}" for line in outputs.DMON.replace("#", "\\#").splitlines(keepends=True))
    plain, read_quoted = read(tmp_path, outputs.DMON), read(tmp_path, quoted)
    assert len(plain.samples) > 0
    assert read_quoted.samples["value"].tolist() == plain.samples["value"].tolist()


@pytest.mark.parametrize(
    ("text", "busy", "power"), [(outputs.ROCM, [99.0], [120.0]), (outputs.ROCM_NEW, [100.0], [690.0])]
)
def test_the_concise_tables_of_rocm_smi(tmp_path: Path, text: str, busy: list[float], power: list[float]) -> None:
    records = read(tmp_path, text)
    assert values(records, "device_busy_pct", 0) == busy
    assert values(records, "device_power_w", 0) == power


def test_a_cell_of_rocm_smi_without_a_value_is_not_that_of_another_column(tmp_path: Path) -> None:
    head = "GPU  Temp   AvgPwr  SCLK    MCLK    Fan    Perf  PwrCap  VRAM%  GPU%\n"
    rows = "1    25.0c  N/A     N/A     167Mhz  14.9%  auto  170.0W  N/A    7%\n"
    records = read(tmp_path, head + rows)
    assert values(records, "device_memory_used_pct", 1) == []
    assert values(records, "device_busy_pct", 1) == [7.0]
    assert values(records, "device_power_w", 1) == []
    assert values(records, "device_power_limit_w", 1) == [170.0]
    assert values(records, "device_clock_mhz", 1) == []
    assert values(records, "device_memory_clock_mhz", 1) == [167.0]


def test_an_older_concise_table_has_no_utilization(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.ROCM_OLD)
    assert values(records, "device_clock_mhz", 0) == [1411.0]
    assert values(records, "device_busy_pct", 0) == []


def test_chips_of_npu_smi_are_devices(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.NPU)
    assert values(records, "device_busy_pct", 0) == [95.0]
    assert values(records, "device_memory_used_bytes", 1) == [3314 * (1 << 20)]
    assert set(records.samples["device"]) == {0, 1}


def test_an_npu_keeps_its_number_and_what_the_tool_says_of_its_processes(tmp_path: Path) -> None:
    text = outputs.NPU.replace("| 1     910B3 ", "| 5     910B3 ").replace(
        "| NPU     Chip  ", "| No running processes found in NPU 5 |\n|NPU  Chip"
    )
    records = read(tmp_path, text)
    assert set(records.samples["device"]) == {0, 5}
    assert values(records, "device_processes", 5) == [0.0]
    assert values(records, "device_processes", 0) == []


def test_chips_with_a_physical_number_keep_it(tmp_path: Path) -> None:
    text = outputs.NPU.replace("| 0                         | 0000:C2", "| 1     3                   | 0000:C2")
    assert set(read(tmp_path, text).samples["device"]) == {0, 3}


def test_sar_passes_midnight_and_leaves_averages_out(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.SAR)
    assert values(records, "cpu_iowait_pct") == [30.0]
    assert values(records, "cpu_busy_pct") == pytest.approx([1.56])  # 100 - 64.44 - 30 - 4
    assert values(records, "network_sent_bytes_per_s", part="eth0") == [2048.0]
    assert values(records, "tcp_retransmitted_segments_per_s") == [12.5]
    assert (records.sources[0].host, records.sources[0].interval_s) == ("node7", 5.0)
    assert records.samples["time_unix_ns"].is_monotonic_increasing


def test_a_date_whose_order_is_not_certain_gives_no_time(tmp_path: Path) -> None:
    records = read(tmp_path, outputs.PIDSTAT)
    assert values(records, "process_wait_pct", part="4381 python") == [87.23]
    assert all(math.isnan(each) for each in records.samples["time_unix_ns"])


def test_means_since_the_machine_was_started_are_left_out(tmp_path: Path) -> None:
    assert values(read(tmp_path, outputs.VMSTAT), "cpu_busy_pct") == [65.0, 65.0]
    records = read(tmp_path, outputs.IOSTAT)
    assert values(records, "cpu_iowait_pct") == [40.0]
    assert values(records, "disk_busy_pct", part="nvme0n1") == [99.5]
    assert values(records, "disk_wait_ms", part="nvme0n1") == pytest.approx([(900 * 25.5 + 0.5) / 901])
    once = outputs.PIDSTAT.replace("03:48:10 PM   UID", "03:48:11 PM   UID")
    assert values(read(tmp_path, once), "process_wait_pct", part="491 systemd journal") == []


def test_counters_of_the_kernel_and_of_adapters(tmp_path: Path) -> None:
    assert values(read(tmp_path, outputs.NSTAT), "tcp_retransmitted_segments") == [300.0]
    assert values(read(tmp_path, outputs.PRESSURE), "pressure_io_full_pct") == [35.0]
    adapters = read(tmp_path, outputs.RDMA)
    assert values(adapters, "rdma_out_of_sequence", part="mlx5_0/1") == [10.0, 120.0]
    pauses = read(tmp_path, outputs.ETHTOOL)
    assert values(pauses, "pause_frames_received", part="rx_prio3_pause") == [100.0, 5100.0]


def test_pressure_that_does_not_say_of_what_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "psi.txt"
    path.write_text(outputs.PRESSURE_BARE)
    found = read_counters(path)
    assert found.records is None
    assert "do not say of what" in found.notes[0]


def test_a_log_that_holds_a_table_is_read_as_both(tmp_path: Path) -> None:
    steps = "".join(f" iteration {step}/ 100 | elapsed time per iteration (ms): 95.5 |\n" for step in range(1, 40))
    path = tmp_path / "train.log"
    path.write_text(outputs.TABLE + steps)
    run = load_run([path])
    assert run.job_log is not None
    assert run.counters is not None
    assert values(run.counters, "device_busy_pct", 0) == [97.0]


@pytest.mark.parametrize(
    "text",
    [
        "step,loss,power\n1,2.5,3\n2,2.4,3\n",
        "name,temperature\nwater,20\n",
        " * of processes that are blocked\n *   0   the default, two words\n 1 of 2 blocked\n 0 0 0 0 0 0\n",
        "GPU memory is full: 71234MiB / 81920MiB\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "",
    ],
)
def test_other_texts_are_no_samples(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    assert not is_counters(path)


def test_one_table_of_iostat_is_read_and_a_short_bus_address_too(tmp_path: Path) -> None:
    table = "\n".join(line for line in outputs.IOSTAT.splitlines()[5:7])
    assert values(read(tmp_path, table + "\n"), "disk_busy_pct", part="nvme0n1") == [0.1]
    short = outputs.TABLE.replace("00000000:", "0:")
    assert values(read(tmp_path, short), "device_busy_pct") == values(read(tmp_path, outputs.TABLE), "device_busy_pct")
