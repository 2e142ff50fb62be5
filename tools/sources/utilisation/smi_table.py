"""The table that ``nvidia-smi`` prints without arguments, as threads show it, and that of ``npu-smi info``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.sources.utilisation.readings import UNKNOWN, Moment, Readings

VERSION = re.compile(r"NVIDIA-SMI +\d\S* +(?:Driver|KMD) Version: *(\S+)")
# |   0  NVIDIA A100-SXM4-80GB  On   | 00000000:07:00.0 Off |                    0 |
FIRST = re.compile(
    r"\| +(\d{1,4}) +(\S.{0,60}?) +(?:On|Off|N/A|Disabled|Enabled|WDDM|TCC) *\| *[0-9A-Fa-f]{1,8}:[\dA-Fa-f]"
)
# | N/A   34C    P0    70W / 400W |  12345MiB / 81920MiB |     97%      Default |
SECOND = re.compile(
    r"\| *(?:N/A|ERR!|\d{1,3}%|\[N/A\]) +(\d{1,3}|N/A|ERR!)C? +(?:P(\d{1,2})|N/A|ERR!) +(\d{1,5}|N/A|\S{2,16})W? */ *"
    r"(\d{1,5}|N/A|ERR!)W? *\| *(\d{1,9})MiB */ *(\d{1,9})MiB *\| *(\d{1,3}|N/A|ERR!)%?"
)
# |    0   N/A  N/A     12345      C   python                          12345MiB |
PROCESS = re.compile(r"\| +(\d{1,4}) +(?:\S+ +\S+ +)?(\d{1,9}) +(?:[CGM](?:\+[CG])?) +(\S.{0,80}?) +(\d{1,9})MiB *\|")
FRAME = re.compile(r"\s*[|+][-=+| ]*[|+]?\s*\Z")
MIB = 1 << 20


@dataclass
class SmiTable:
    """One table after the other; each is one reading of all devices."""

    readings: Readings = field(default_factory=lambda: Readings("nvidia-smi"))
    tick: int = -1
    device: int | None = None
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """The line with the driver's version, or the first line of a device where that was not pasted."""
        match = VERSION.search(text)
        if match is None and not (self.tick < 0 and FIRST.search(text)):
            return False
        self.tick, self.device, self.at = self.tick + 1, None, at
        if match is not None:
            self.readings.driver = match[1]
            return True
        return self.takes(line, text)

    def takes(self, line: int, text: str) -> bool:
        """A line of a frame, of a device or of a process."""
        if self.tick < 0 or ("|" not in text and not FRAME.match(text)):
            return False
        if VERSION.search(text):
            return False
        if match := SECOND.search(text):
            self._second(line, match)
        elif match := FIRST.search(text):
            self.device = int(match[1])
            self.readings.devices.setdefault(self.device, match[2].strip())
        elif match := PROCESS.search(text):
            self._add("device_process_memory_bytes", match[4], line, int(match[1]), MIB, f"{match[2]} {match[3]}")
        return True

    def _second(self, line: int, match: re.Match[str]) -> None:
        if self.device is None:
            return
        device, self.device = self.device, None
        named = ("device_temperature_c", "device_performance_state", "device_power_w", "device_power_limit_w")
        for counter, text in zip(named, match.groups()[:4], strict=True):
            self._add(counter, text, line, device)
        self._add("device_memory_used_bytes", match[5], line, device, MIB)
        self._add("device_memory_total_bytes", match[6], line, device, MIB)
        self._add("device_busy_pct", match[7], line, device)

    def _add(self, counter: str, text: str | None, line: int, device: int, scale: float = 1.0, part: str = "") -> None:
        if text is not None and text.isdecimal():
            self.readings.add(counter, float(text) * scale, line, tick=self.tick, at=self.at, device=device, part=part)


NPU_HEAD = re.compile(r"\| *(?:NPU +Name|Chip +\| *Bus-Id)|npu-smi +\S+ +Version:")
# | 0     910B3               | OK            | 101.8       43                0    / 0             |
NPU_FIRST = re.compile(
    r"\| *(\d{1,4}) +(\S[^|]{0,40}?) *\| *([A-Za-z]{2,10}) *\| *(\d{1,4}(?:\.\d)?|NA|-) +(\d{1,3}|NA|-) "
)
# | 0                         | 0000:C1:00.0  | 0           0    / 0          3318 / 65536         |
NPU_SECOND = re.compile(
    r"\| *(\d{1,4})(?: +(\d{1,4}))* *\| *[0-9A-Fa-f]{4}:[^|]{4,12}\| *(\d{1,3}|NA|-) +\d{1,9} */ *\d{1,9}"
    r"(?: +(\d{1,9}) */ *(\d{1,9}))?"
)


NPU_UNUSED = re.compile(r"\| *No running processes found in NPU (\d{1,4})\b")


@dataclass
class NpuTable:
    """Tables of ``npu-smi info``: two lines of each chip."""

    readings: Readings = field(default_factory=lambda: Readings("npu-smi"))
    tick: int = -1
    npu: re.Match[str] | None = None
    chips: dict[tuple[str, str], int] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    at: Moment = UNKNOWN

    def begins(self, line: int, text: str, at: Moment) -> bool:
        """A line of its head."""
        if not NPU_HEAD.search(text):
            return False
        self.at = at
        return True

    def takes(self, line: int, text: str) -> bool:
        """A line of a chip, or of the frame."""
        if "|" not in text and not FRAME.match(text):
            return False
        if (match := NPU_SECOND.search(text)) and self.npu is not None:
            self._chip(line, match)
        elif match := NPU_FIRST.search(text):
            self.npu = match
        elif match := NPU_UNUSED.search(text):
            for device in (device for (npu, _), device in self.chips.items() if npu == match[1]):
                self.readings.add("device_processes", 0.0, line, tick=self.tick, at=self.at, device=device)
        return True

    def _device(self, npu: str, chip: str, physical: str | None) -> int:
        """The number of a chip: the one of the whole machine where the table has it, that of its NPU where it is the
        first, and the next free one otherwise."""
        known = self.chips.get((npu, chip))
        if known is None:
            own = int(physical or npu)
            taken = set(self.chips.values())
            first = physical is not None or chip == "0"
            known = own if first and own not in taken else max(taken, default=-1) + 1
            self.chips[npu, chip] = known
        return known

    def _chip(self, line: int, match: re.Match[str]) -> None:
        first = self.npu
        assert first is not None
        device = self._device(first[1], match[1], match[2])
        if device in self.seen or self.tick < 0:
            self.tick += 1
            self.seen = set()
        self.seen.add(device)
        self.readings.devices.setdefault(device, first[2].strip())
        texts = {"device_power_w": first[4], "device_temperature_c": first[5], "device_busy_pct": match[3]}
        for counter, text in texts.items():
            if text not in ("NA", "-"):
                self.readings.add(counter, float(text), line, tick=self.tick, at=self.at, device=device)
        for counter, text in zip(
            ("device_memory_used_bytes", "device_memory_total_bytes"), match.groups()[3:], strict=True
        ):
            if text is not None:
                self.readings.add(counter, float(text) * MIB, line, tick=self.tick, at=self.at, device=device)
