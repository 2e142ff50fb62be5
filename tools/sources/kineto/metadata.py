"""The metadata of a trace: rank, job, devices, versions, clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.run.model import Device
from tools.sources.kineto.json_scan import parse_lenient
from tools.sources.trace_file import TraceMetadata

SHORT_VALUE = 200  # characters that are read of a metadata value
PLAIN_KEYS_LIMIT = 64


def interpret(members: Mapping[str, Any]) -> TraceMetadata:
    """Pick out what is of use."""
    job = _mapping(members.get("distributedInfo"))
    groups = _sequence(job.get("pg_config"))
    return TraceMetadata(
        rank=_count(job.get("rank")),
        world_size=_count(job.get("world_size")),
        backend=job["backend"] if isinstance(job.get("backend"), str) else None,
        groups=tuple(group for group in groups if isinstance(group, dict)),
        devices=_devices(members.get("deviceProperties")),
        base_ns=_count(members.get("baseTimeNanoseconds")),
        plain=_plain(members, job),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    value = _structured(value)
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> list[Any]:
    value = _structured(value)
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def _structured(value: object) -> object:
    """Some versions write structured values as text."""
    if not isinstance(value, str):
        return value
    for text in (value, f"[{value}]"):
        try:
            return parse_lenient(text)
        except (ValueError, RecursionError):
            continue
    return None


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        number = int(value)
    except ValueError:
        return None
    return number if 0 <= number < 2**62 else None


def _devices(value: object) -> tuple[Device, ...]:
    described = [item for item in _sequence(value) if isinstance(item, dict)]
    return tuple(_device(index, item) for index, item in enumerate(described))


def _device(position: int, item: Mapping[str, Any]) -> Device:
    index = _count(item.get("id"))
    major, minor = _count(item.get("computeMajor")), _count(item.get("computeMinor"))
    return Device(
        index=position if index is None else index,
        name=str(item.get("name", ""))[:SHORT_VALUE],
        memory_bytes=_count(item.get("totalGlobalMem")),
        compute_capability=None if major is None or minor is None else f"{major}.{minor}",
        multiprocessors=_count(item.get("numSms")),
    )


def _plain(members: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """Short scalar values, such as with_stack, record_shapes, profile_memory and versions."""
    scalars = {
        key: str(value)[:SHORT_VALUE]
        for source in (members, job)
        for key, value in source.items()
        if isinstance(value, str | int | float) and key not in ("rank", "deviceProperties", "distributedInfo")
    }
    return dict(list(scalars.items())[:PLAIN_KEYS_LIMIT])
