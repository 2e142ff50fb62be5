"""JSON of ``rocm-smi --json`` and ``amd-smi metric --json``: one document a reading, or a line for each.

rocm-smi writes ``{"card0": {"GPU use (%)": "99"}}`` with the names of its listing; amd-smi a list of devices (newer
ones under ``gpu_data``) with ``{"value": 99, "unit": "%"}`` for each figure and "N/A" where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.documents import parse_json
from tools.errors import InputError
from tools.sources.plain_files import whole_file
from tools.sources.utilisation.readings import Readings, number
from tools.sources.utilisation.rocm_smi import VALUES

MOST_BYTES = 64 << 20
MOST_DEVICES = 1024
CARD = re.compile(r"card(\d{1,4})\Z")
AMD_COUNTERS = {
    ("usage", "gfx_activity"): "device_busy_pct",
    ("usage", "umc_activity"): "device_memory_busy_pct",
    ("power", "socket_power"): "device_power_w",
    ("temperature", "hotspot"): "device_temperature_c",
    ("temperature", "mem"): "device_memory_temperature_c",
    ("mem_usage", "total_vram"): "device_memory_total_bytes",
    ("mem_usage", "used_vram"): "device_memory_used_bytes",
    ("clock", "gfx_0", "clk"): "device_clock_mhz",
    ("clock", "gfx_0", "max_clk"): "device_clock_max_mhz",
    ("clock", "mem_0", "clk"): "device_memory_clock_mhz",
    ("clock", "mem_0", "max_clk"): "device_memory_clock_max_mhz",
}
CLOCKS = {"sclk clock speed:": "device_clock_mhz", "mclk clock speed:": "device_memory_clock_mhz"}
MARKS = (b'"card', b'"gfx_activity"', b'"socket_power"')


def read_amd_json(path: Path) -> Readings:
    """The figures of all devices; ``InputError`` where the file is no such JSON or holds none."""
    data = whole_file(path, MOST_BYTES, "JSON of rocm-smi or amd-smi")
    readings = Readings("rocm-smi or amd-smi")
    for tick, (line, document) in enumerate(_documents(path, data)):
        for device, values in _devices(document):
            for counter, value in values.items():
                readings.add(counter, value, line, tick=tick, device=device)
    if not len(readings):
        raise InputError(f"{path}: holds no figures of rocm-smi or amd-smi; write them with `amd-smi metric --json`")
    return readings


def _documents(path: Path, data: bytes) -> Iterator[tuple[int, Any]]:
    """The values with their lines: one for the whole file, else one for each line."""
    try:
        yield 1, parse_json(data)
        return
    except (ValueError, RecursionError) as error:
        lines = [(at, line) for at, line in enumerate(data.splitlines(), start=1) if line.strip()]
        found = [(at, value) for at, line in lines if (value := _value(line)) is not None]
        if len(found) < len(lines) - 1 or not found:  # the last may be cut
            raise InputError(f"{path}: is no whole JSON of rocm-smi or amd-smi; write each reading again") from error
    yield from found


def _value(line: bytes) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return parse_json(line)
    except (ValueError, RecursionError):
        return None


def _devices(document: object) -> Iterator[tuple[int, dict[str, float]]]:
    if isinstance(document, dict) and isinstance(document.get("gpu_data"), list):
        document = document["gpu_data"]
    if isinstance(document, list):
        for each in document[:MOST_DEVICES]:
            if isinstance(each, dict) and isinstance(each.get("gpu"), int) and 0 <= each["gpu"] < MOST_DEVICES:
                yield each["gpu"], _of_amd_smi(each)
    elif isinstance(document, dict):
        for name, each in list(document.items())[:MOST_DEVICES]:
            if (card := CARD.match(name)) and isinstance(each, dict):
                yield int(card[1]), _of_rocm_smi(each)


def _of_amd_smi(device: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for place, counter in AMD_COUNTERS.items():
        value: Any = device
        for key in place:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, dict):
            value = f"{value.get('value')} {value.get('unit', '')}"
        if isinstance(value, (str, int, float)) and (read := number(str(value))) is not None:
            found[counter] = read[0]
    return found


def _of_rocm_smi(device: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for name, value in device.items():
        counter = VALUES.get(name.lower()) or CLOCKS.get(name.lower())
        read = number(str(value).strip("()")) if counter else None
        if counter and read is not None:
            found[counter] = read[0]
    return found
