"""Range exports of Prometheus and the text of exporters give the values that stand in them, in known units."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.fuzz.tracker_files import range_export
from tools.analyzers.registry import check_of
from tools.errors import InputError, UsageError
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.model import Run
from tools.run.recorded.counters import COUNTERS, CounterRecords
from tools.sources.load import load_run
from tools.sources.prometheus.range_export import read_export
from tools.views.profile import Profile

START_S = 1.7e9
LABELS = 'UUID="GPU-1",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="node-7"'
TEXT = f"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",{LABELS}}} 97
DCGM_FI_DEV_GPU_UTIL{{gpu="1",{LABELS}}} 12
DCGM_FI_DEV_FB_USED{{gpu="0",{LABELS}}} 1024
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="0",{LABELS}}} 0.25
DCGM_FI_DEV_POWER_USAGE{{gpu="1",{LABELS}}} 9223372036854775792
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{gpu="0",{LABELS}}} 32
DCGM_FI_DEV_VGPU_LICENSE_STATUS{{gpu="0",{LABELS}}} 0
node_network_receive_drop_total{{device="eth0"}} 5
"""


def run_of(tmp_path: Path, data: bytes, name: str = "any.json") -> Run:
    (tmp_path / name).write_bytes(data)
    return load_run([tmp_path / name])


def export(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> bytes:
    result = [{"metric": metric, "values": values} for metric, values in series]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}).encode()


def values(run: Run, counter: str, device: int = -1, host: str = "") -> list[float]:
    assert run.counters is not None
    samples = run.counters.samples
    own = samples[(samples["counter"] == counter) & (samples["device"] == device) & (samples["host"] == host)]
    return [float(each) for each in own["value"]]


def test_series_are_samples_of_their_host_and_device(tmp_path: Path) -> None:
    run = run_of(tmp_path, range_export())
    assert run.counters is not None
    assert run.counters.hosts == ("node-1", "node-2")
    assert values(run, "device_busy_pct", 1, "node-2") == [97.0] * 12
    assert values(run, "device_temperature_c", 0, "node-1") == [60.0] * 12
    table = run.counters.samples
    assert sorted(table["tick"].unique()) == list(range(12))
    assert table["time_unix_ns"].min() == START_S * 1e9
    # Rows of the answer: utilization of node-1 and node-2 (two devices each), then temperature.
    assert table[(table["counter"] == "device_temperature_c") & (table["host"] == "node-1")][
        "line"
    ].unique().tolist() == [
        5,
        6,
    ]
    assert {each.interval_s for each in run.counters.sources} == {15.0}
    assert run.counters.sources[0].devices == ((0, "NVIDIA H100 80GB HBM3"), (1, "NVIDIA H100 80GB HBM3"))


def test_a_folder_with_an_export_alone_is_answered(tmp_path: Path) -> None:
    (tmp_path / "dashboard.json").write_bytes(range_export())
    profile = Profile(load_run([tmp_path]))
    check = check_of(profile, "computation.device_use")
    assert check is not None
    assert check.status == "clean"
    assert ranking(profile).verdict == "inconclusive"


def test_engine_activity_stands_for_utilization_only_where_that_is_not_sampled(tmp_path: Path) -> None:
    engine = ({"__name__": "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gpu": "0"}, [(START_S, "0.5"), (START_S + 15, "0.75")])
    busy = ({"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}, [(START_S, "90"), (START_S + 15, "NaN")])
    assert values(run_of(tmp_path, export(engine)), "device_busy_pct", 0) == [50.0, 75.0]
    assert values(run_of(tmp_path, export(engine, busy)), "device_busy_pct", 0) == [90.0]


def test_what_is_not_read_is_said(tmp_path: Path) -> None:
    values_ = [(START_S, "1")]
    named = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}
    data = export(({}, values_), ({"__name__": "up"}, values_), (named, values_), (named, values_))
    note = "; ".join(run_of(tmp_path, data).notes)
    assert "1 series have no name" in note
    assert "1 series are not among those that are read" in note
    assert "1 series are of a device that another series" in note
    with pytest.raises(InputError, match="no name, as those of expressions"):
        run_of(tmp_path, export(({}, values_)))


def test_text_of_an_exporter_is_read_in_its_units(tmp_path: Path) -> None:
    run = run_of(tmp_path, TEXT.encode(), "metrics.txt")
    assert values(run, "device_busy_pct", 1, "node-7") == [12.0]
    assert values(run, "device_memory_used_bytes", 0, "node-7") == [1024.0 * (1 << 20)]
    assert values(run, "device_tensor_active_pct", 0, "node-7") == [25.0]
    assert values(run, "device_power_w", 1, "node-7") == []  # the exporter's mark of no value
    assert values(run, "throttle_thermal", 0, "node-7") == [1.0]  # bit 0x20
    assert values(run, "throttle_power", 0, "node-7") == [0.0]


def test_a_text_of_several_scrapes_is_several_readings(tmp_path: Path) -> None:
    run = run_of(tmp_path, ("2026-11-23T10:00:00Z\n" + TEXT + "2026-11-23T10:00:15Z\n" + TEXT).encode(), "m")
    assert run.counters is not None
    own = run.counters.samples[run.counters.samples["counter"] == "device_busy_pct"]
    assert own["tick"].tolist() == [0, 0, 1, 1]
    assert (own["time_unix_ns"].diff().dropna() / 1e9).tolist() == [0.0, 15.0, 0.0]


# As the exporter's README shows its output: a space between labels, marks of int64 and of float64 for no value; with
# the memory counters of etc/default-counters.csv, which hold no total.
DEFAULT_COUNTERS = """# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0", UUID="GPU-0a1b"} 1410
DCGM_FI_DEV_MEMORY_TEMP{gpu="0", UUID="GPU-0a1b"} 9223372036854775794
DCGM_FI_DEV_XID_ERRORS{gpu="0", UUID="GPU-0a1b",err_code="79",err_msg="GPU has fallen off the bus"} 79
DCGM_FI_DEV_FB_FREE{gpu="0", UUID="GPU-0a1b"} 40000
DCGM_FI_DEV_FB_USED{gpu="0", UUID="GPU-0a1b"} 40500
DCGM_FI_DEV_FB_RESERVED{gpu="0", UUID="GPU-0a1b"} 500
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0", UUID="GPU-0a1b"} 0.5
DCGM_FI_PROF_PCIE_TX_BYTES{gpu="0", UUID="GPU-0a1b"} 25000000000
DCGM_FI_PROF_PCIE_RX_BYTES{gpu="0", UUID="GPU-0a1b"} 140737488355328
"""


def test_the_exporters_default_counters_give_the_memory_of_a_device_and_no_blank_values(tmp_path: Path) -> None:
    run = run_of(tmp_path, DEFAULT_COUNTERS.encode(), "metrics.txt")
    assert values(run, "device_clock_mhz", 0) == [1410.0]
    assert values(run, "device_memory_temperature_c", 0) == []
    assert values(run, "device_error_code", 0) == [79.0]
    assert values(run, "pcie_sent_bytes_per_s", 0) == [25e9]
    assert values(run, "pcie_received_bytes_per_s", 0) == []
    total = measure(Profile(run), "device_counter_gib", counter="device_memory_total_bytes", device="0")
    assert total.value == pytest.approx(81000 / 1024)  # 40,000 + 40,500 + 500 MiB


def test_without_the_reserved_part_the_total_of_a_devices_memory_is_unknown(tmp_path: Path) -> None:
    lines = [line for line in DEFAULT_COUNTERS.splitlines(keepends=True) if "FB_RESERVED" not in line]
    profile = Profile(run_of(tmp_path, "".join(lines).encode(), "metrics.txt"))
    with pytest.raises(UsageError):
        measure(profile, "device_counter_gib", counter="device_memory_total_bytes", device="0")
    check = check_of(profile, "memory.device_samples")
    assert check is not None
    (said,) = check.support
    assert "without what the driver keeps" in said.template
    assert [fact.value for fact in said.facts] == pytest.approx([40500 / 1024, 80500 / 1024])


SMALL = range_export()


def read_of(folder: Path, data: bytes) -> CounterRecords | None:
    path = folder / "p.json"
    path.write_bytes(data)
    try:
        return read_export(path).counters
    except InputError as error:
        return None if str(path) in str(error) else pytest.fail(f"{error} does not name the file")


@settings(max_examples=30, deadline=None)
@given(st.integers(0, len(SMALL) - 1))
def test_a_cut_export_is_one_sentence(tmp_path_factory: pytest.TempPathFactory, at: int) -> None:
    assert read_of(tmp_path_factory.mktemp("p"), SMALL[:at]) is None


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(SMALL) - 1), st.binary(min_size=1, max_size=6))
def test_changed_bytes_never_break_the_reader(tmp_path_factory: pytest.TempPathFactory, at: int, new: bytes) -> None:
    found = read_of(tmp_path_factory.mktemp("p"), SMALL[:at] + new + SMALL[at + len(new) :])
    assert found is None or set(found.samples["counter"]) <= set(COUNTERS)


def test_the_lower_of_two_power_limits_holds(tmp_path: Path) -> None:
    named = {"gpu": "0", "Hostname": "node1"}
    limits = {"DCGM_FI_DEV_POWER_MGMT_LIMIT": "700", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "500"}
    series = [({"__name__": name, **named}, [(1.7e9 + at, value) for at in range(2)]) for name, value in limits.items()]
    profile = Profile(run_of(tmp_path, export(*series)))
    assert measure(profile, "device_counter_w", counter="device_power_limit_w", device="0").value == 500.0
