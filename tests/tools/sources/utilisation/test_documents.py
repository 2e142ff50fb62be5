"""The XML of nvidia-smi and the JSON of rocm-smi and amd-smi give the values that stand in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.sources.utilisation import outputs
from tools.errors import InputError
from tools.run.model import Run
from tools.run.recorded.counters import COUNTERS
from tools.sources.load import load_run
from tools.sources.utilisation.amd_json import read_amd_json

MIB = 1 << 20
ROCM = {
    "card0": {
        "Temperature (Sensor junction) (C)": "61.0",
        "Average Graphics Package Power (W)": "498.0",
        "sclk clock speed:": "(2100Mhz)",
        "GPU use (%)": "97",
        "GPU Memory Allocated (VRAM%)": "83",
    },
    "card1": {"GPU use (%)": "12", "Average Graphics Package Power (W)": "N/A"},
    "system": {"Driver version": "6.7.0"},
}
AMD = [
    {
        "gpu": 3,
        "usage": {"gfx_activity": {"value": 88, "unit": "%"}, "umc_activity": "N/A"},
        "power": {"socket_power": {"value": 350, "unit": "W"}},
        "clock": {"gfx_0": {"clk": {"value": 1700, "unit": "MHz"}, "max_clk": {"value": 2100, "unit": "MHz"}}},
        "temperature": {"hotspot": {"value": 70, "unit": "C"}},
        "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 1024, "unit": "MB"}},
    }
]


def run_of(folder: Path, text: str, name: str) -> Run:
    (folder / name).write_text(text)
    return load_run([folder])


def values(run: Run, device: int) -> dict[str, float]:
    assert run.counters is not None
    own = run.counters.samples[run.counters.samples["device"] == device]
    return {str(counter): float(value) for counter, value in zip(own["counter"], own["value"], strict=True)}


def test_xml_gives_what_the_listing_gives_and_no_values_of_parts_of_a_device(tmp_path: Path) -> None:
    run = run_of(tmp_path, outputs.XML, "gpus.xml")
    assert values(run, 0) == {
        "device_performance_state": 0.0,
        "throttle_idle": 0.0,
        "throttle_power": 1.0,
        "device_memory_total_bytes": 81559.0 * MIB,
        "device_memory_used_bytes": 70000.0 * MIB,
        "device_busy_pct": 99.0,
        "device_memory_busy_pct": 41.0,
        "device_temperature_c": 71.0,
        "device_power_w": 699.8,
        "device_power_limit_w": 700.0,
        "device_clock_mhz": 1590.0,
        "device_clock_max_mhz": 1980.0,
    }
    assert values(run, 1) == {"device_busy_pct": 98.0}
    assert run.counters is not None
    (source,) = run.counters.sources
    assert (source.driver, dict(source.devices)[1]) == ("535.104.05", "NVIDIA H100 80GB HBM3")


def test_entities_of_xml_are_never_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "99 %">]>\n' + outputs.XML.replace("<gpu_util>98 %", "<gpu_util>&a;")
    assert values(run_of(tmp_path, bomb, "gpus.xml"), 1) == {}


def test_documents_one_after_the_other_are_readings(tmp_path: Path) -> None:
    run = run_of(tmp_path, outputs.XML * 3, "gpus.xml")
    assert run.counters is not None
    assert sorted(run.counters.samples["tick"].unique()) == [0, 1, 2]


def test_json_of_rocm_smi_is_read_by_card(tmp_path: Path) -> None:
    run = run_of(tmp_path, json.dumps(ROCM), "anything.json")
    assert values(run, 0) == {
        "device_temperature_c": 61.0,
        "device_power_w": 498.0,
        "device_clock_mhz": 2100.0,
        "device_busy_pct": 97.0,
        "device_memory_used_pct": 83.0,
    }
    assert values(run, 1) == {"device_busy_pct": 12.0}


@pytest.mark.parametrize("document", [AMD, {"gpu_data": AMD}])
def test_json_of_amd_smi_is_read_in_its_units(tmp_path: Path, document: object) -> None:
    assert values(run_of(tmp_path, json.dumps(document, indent=4), "m.json"), 3) == {
        "device_busy_pct": 88.0,
        "device_power_w": 350.0,
        "device_temperature_c": 70.0,
        "device_memory_total_bytes": 196592.0 * MIB,
        "device_memory_used_bytes": 1024.0 * MIB,
        "device_clock_mhz": 1700.0,
        "device_clock_max_mhz": 2100.0,
    }


def test_lines_of_json_are_readings_and_a_cut_last_one_is_left_out(tmp_path: Path) -> None:
    line = json.dumps(ROCM) + "\n"
    run = run_of(tmp_path, line * 2 + line[:40], "m.json")
    assert run.counters is not None
    assert sorted(run.counters.samples["tick"].unique()) == [0, 1]


WHOLE = json.dumps(AMD, indent=1).encode()


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, len(WHOLE) - 1), change=st.binary(max_size=6))
def test_changed_or_cut_json_gives_counters_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, at: int, change: bytes
) -> None:
    path = tmp_path_factory.mktemp("j") / "m.json"
    path.write_bytes(WHOLE[:at] + change + (WHOLE[at + len(change) :] if change else b""))
    try:
        read = read_amd_json(path)
    except InputError as error:
        if str(path) not in str(error):
            raise
        return
    assert set(read.counters) <= set(COUNTERS)
