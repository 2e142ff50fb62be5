"""Names of W&B's system metrics of a device, in its files and in its exports."""

from __future__ import annotations

DEVICE_COUNTERS = {
    "gpu": "device_busy_pct",
    "memory": "device_memory_busy_pct",
    "memoryAllocated": "device_memory_used_pct",
    "memoryAllocatedBytes": "device_memory_used_bytes",
    "powerWatts": "device_power_w",
    "powerPercent": "device_power_pct",
    "enforcedPowerLimitWatts": "device_power_limit_w",
    "temp": "device_temperature_c",
    "smClock": "device_clock_mhz",
    "memoryClock": "device_memory_clock_mhz",
    "uncorrectedMemoryErrors": "device_ecc_errors",
}
