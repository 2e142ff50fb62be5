"""Limits of accelerators: peak arithmetic by type and unit, and memory bandwidth, from datasheets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tools.knowledge.tables import table
from tools.run.model import Device

Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8"]
PRECISIONS: tuple[Precision, ...] = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8")
BYTES_PER_GB = 1_000_000_000


@dataclass(frozen=True)
class DeviceSpec:
    """Dense peaks of one device model, and the datasheet they are from."""

    name: str
    pattern: re.Pattern[str]
    vector_tflops: dict[str, float]
    matrix_tflops: dict[str, float]
    memory_gb_s: float
    source: str
    min_memory_gb: float = 0.0

    def peak_flops_per_s(self, precision: str, matrix: bool) -> float | None:
        """Operations per second on the matrix or the ordinary units; None when the unit lacks the type."""
        if matrix:
            tera = self.matrix_tflops.get(precision)
        else:
            tera = self.vector_tflops.get(precision, None if precision == "fp64" else self.vector_tflops.get("fp32"))
        return None if tera is None else tera * 1e12

    @property
    def memory_bytes_per_s(self) -> float:
        """Peak memory bandwidth."""
        return self.memory_gb_s * 1e9

    def matches(self, device: Device) -> bool:
        """Return whether a recorded device is of this model."""
        if not self.pattern.search(device.name):
            return False
        if not self.min_memory_gb:
            return True
        return device.memory_bytes is not None and device.memory_bytes >= self.min_memory_gb * BYTES_PER_GB


def spec_of(device: Device) -> DeviceSpec | None:
    """The datasheet figures of a recorded device; None when the table does not know it."""
    return next((spec for spec in device_specs() if spec.matches(device)), None)


@lru_cache(maxsize=1)
def device_specs() -> tuple[DeviceSpec, ...]:
    """The whole table in order of precedence."""
    return tuple(
        DeviceSpec(
            name=entry["name"],
            pattern=re.compile(entry["pattern"]),
            vector_tflops=dict(entry["vector"]),
            matrix_tflops=dict(entry["matrix"]),
            memory_gb_s=entry["memory_gb_s"],
            source=entry["source"],
            min_memory_gb=entry.get("min_memory_gb", 0.0),
        )
        for entry in table("devices")["devices"]
    )
