"""Small XProf recordings, written field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Event: TypeAlias = tuple[str, float, float, Mapping[str, int | str]]  # name, us from the timestamp, us, stats


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def number(key: int, value: int) -> bytes:
    return varint(key << 3) + varint(value)


def part(key: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(key << 3 | 2) + varint(len(data)) + data


@dataclass
class PlaneText:
    """One plane; names get numbers as they are used."""

    name: str
    lines: list[bytes] = field(default_factory=list)
    events: dict[str, int] = field(default_factory=dict)
    stats: dict[str, int] = field(default_factory=dict)
    facts: list[bytes] = field(default_factory=list)

    def fact(self, name: str, value: int | str) -> PlaneText:
        self.facts.append(part(6, self.stat(name, value)))
        return self

    def stat(self, name: str, value: int | str) -> bytes:
        own = number(1, self.stats.setdefault(name, len(self.stats) + 1))
        return own + (number(4, value) if isinstance(value, int) else part(5, value))

    def line(self, identity: int, name: str, timestamp_ns: int, *events: Event) -> PlaneText:
        """Events as name, microseconds from the timestamp, duration in microseconds, stats."""
        told = number(1, identity) + part(2, name) + number(3, timestamp_ns)
        for text, offset_us, duration_us, stats in events:
            own = number(1, self.events.setdefault(text, len(self.events) + 1))
            own += number(2, round(offset_us * 1e6)) + number(3, round(duration_us * 1e6))
            own += b"".join(part(4, self.stat(key, value)) for key, value in stats.items())
            told += part(4, own)
        self.lines.append(part(3, told))
        return self

    def message(self) -> bytes:
        named = ((4, self.events), (5, self.stats))
        maps = b"".join(
            part(key, number(1, at) + part(2, number(1, at) + part(2, text)))
            for key, names in named
            for text, at in names.items()
        )
        return part(1, part(2, self.name) + b"".join(self.lines) + maps + b"".join(self.facts))


START_NS = 1_700_000_000_000_000_000


def environment() -> bytes:
    return PlaneText("Task Environment").fact("profile_start_time", START_NS).message()


def gpu(index: int, *events: Event) -> PlaneText:
    plane = PlaneText(f"/device:GPU:{index}")
    return plane.fact("device_vendor", "Nvidia").fact("core_count", 132).line(7, "Stream #7(Compute)", 0, *events)


def two_devices() -> bytes:
    """Two steps of 1,000 us; device 0 computes 300 us and communicates 100 us in each, device 1 twice as long."""
    shape = {"kernel_details": "regs:40 grid:16,2,1 block:256,1,1 occ_pct:50"}
    planes = []
    for index in range(2):
        events: list[Event] = []
        for step in range(2):
            begin, launch = 1000.0 * step + 100.0, 10 * index + 2 * step + 1
            compute = 300.0 * (1 + index)
            events.append(("gemm_fusion", begin, compute, {"correlation_id": launch, **shape}))
            reduced = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", begin + compute, 100.0)
            events.append((*reduced, {"correlation_id": launch + 1}))
        planes.append(gpu(index, *events))
    calls: list[Event] = [
        ("cuLaunchKernel", 1000.0 * step + 20.0 + 30.0 * index + 5.0 * each, 4.0, {"correlation_id": launch})
        for step in range(2)
        for index in range(2)
        for each, launch in enumerate((10 * index + 2 * step + 1, 10 * index + 2 * step + 2))
    ]
    host = PlaneText("/host:CPU")
    marks: list[Event] = [("train", 1000.0 * step, 1000.0, {"step_num": 5 + step}) for step in range(2)]
    host.line(1, "python", 0, *marks, ("$train.py:12 step", 10.0, 80.0, {}), *calls)
    return b"".join([*(plane.message() for plane in planes), host.message(), environment(), part(4, "node7")])
