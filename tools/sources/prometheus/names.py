"""What the metrics of exporters are as counters: DCGM exporter and node exporter.

Units: DCGM field identifiers (dcgm_fields.h): FB in MiB, power in W, clocks in MHz, PROF activities as fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tools.run.recorded.counters import NONE
from tools.sources.utilisation.smi_query import REASONS

MIB = float(1 << 20)
DEVICE = {
    "DCGM_FI_DEV_GPU_UTIL": ("device_busy_pct", 1.0),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("device_memory_busy_pct", 1.0),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("device_engine_active_pct", 100.0),
    "DCGM_FI_PROF_SM_ACTIVE": ("device_sm_active_pct", 100.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("device_tensor_active_pct", 100.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("device_dram_active_pct", 100.0),
    "DCGM_FI_DEV_FB_USED": ("device_memory_used_bytes", MIB),
    "DCGM_FI_DEV_FB_TOTAL": ("device_memory_total_bytes", MIB),
    "DCGM_FI_DEV_FB_FREE": ("device_memory_free_bytes", MIB),
    "DCGM_FI_DEV_FB_RESERVED": ("device_memory_reserved_bytes", MIB),
    "DCGM_FI_DEV_POWER_USAGE": ("device_power_w", 1.0),
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": ("device_power_limit_w", 1.0),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("device_power_limit_w", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("device_temperature_c", 1.0),
    "DCGM_FI_DEV_MEMORY_TEMP": ("device_memory_temperature_c", 1.0),
    "DCGM_FI_DEV_SM_CLOCK": ("device_clock_mhz", 1.0),
    "DCGM_FI_DEV_MAX_SM_CLOCK": ("device_clock_max_mhz", 1.0),
    "DCGM_FI_DEV_MEM_CLOCK": ("device_memory_clock_mhz", 1.0),
    "DCGM_FI_DEV_MAX_MEM_CLOCK": ("device_memory_clock_max_mhz", 1.0),
    "DCGM_FI_DEV_XID_ERRORS": ("device_error_code", 1.0),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("device_ecc_errors", 1.0),
    "DCGM_FI_DEV_PCIE_LINK_GEN": ("pcie_generation", 1.0),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": ("pcie_width", 1.0),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_received_bytes_per_s", 1.0),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_sent_bytes_per_s", 1.0),
}
THROTTLE = ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")
# And above: DCGM has no value (dcgm_structs.h: DCGM_INT32_BLANK, DCGM_FP64_BLANK; the one of int64 is larger still).
BLANK, LARGE_BLANK = 0x7FFFFFF0, 2.0**47
MAY_BE_LARGE = ("DCGM_FI_PROF_PCIE_RX_BYTES", "DCGM_FI_PROF_PCIE_TX_BYTES")
MACHINE = {
    "node_procs_running": ("runnable_processes", ""),
    "node_procs_blocked": ("blocked_processes", ""),
    "node_memory_MemTotal_bytes": ("memory_total_bytes", ""),
    "node_netstat_Tcp_OutSegs": ("tcp_sent_segments", ""),
    "node_netstat_Tcp_RetransSegs": ("tcp_retransmitted_segments", ""),
    "node_network_receive_bytes_total": ("network_received_bytes", ""),
    "node_network_transmit_bytes_total": ("network_sent_bytes", ""),
    "node_network_receive_drop_total": ("interface_dropped", " received"),
    "node_network_transmit_drop_total": ("interface_dropped", " sent"),
    "node_network_receive_errs_total": ("interface_errors", " received"),
    "node_network_transmit_errs_total": ("interface_errors", " sent"),
    "node_disk_read_bytes_total": ("disk_read_bytes", ""),
    "node_disk_written_bytes_total": ("disk_written_bytes", ""),
    "node_infiniband_link_downed_total": ("link_downed", ""),
    "node_infiniband_symbol_error_total": ("link_symbol_errors", ""),
}
HOST_LABELS = ("Hostname", "hostname", "kubernetes_node", "node", "nodename", "instance")
LONGEST_HOST = 80


@dataclass(frozen=True, slots=True)
class Place:
    """Where a series was measured: host ("" not stated), device (``NONE`` of a machine) and part."""

    host: str
    device: int
    part: str
    model: str = ""


def place_of(name: str, labels: Mapping[str, str]) -> Place | None:
    """The place of a series that is read; None of any other."""
    host = next((labels[each] for each in HOST_LABELS if labels.get(each)), "")[:LONGEST_HOST]
    if name in DEVICE or name in THROTTLE:
        gpu = labels.get("gpu", "")
        if not (gpu.isascii() and gpu.isdecimal() and len(gpu) < 5):
            return None
        instance = labels.get("GPU_I_ID", "")
        part = f"MIG {instance}" if instance else ""
        return Place(host, int(gpu), part, labels.get("modelName", "")[:LONGEST_HOST])
    if name in MACHINE:
        device, port = labels.get("device", ""), labels.get("port", "")
        return Place(host, NONE, device + (f"/{port}" if port else "") + MACHINE[name][1])
    return None


def values_of(name: str, value: float) -> Iterator[tuple[str, float]]:
    """The counters that a value of a metric is; none where the exporter had no value."""
    if name in THROTTLE:
        if 0 <= value < BLANK:
            active = {reason for bit, reason in REASONS.items() if int(value) & bit}
            yield from ((reason, float(reason in active)) for reason in dict.fromkeys(REASONS.values()))
    elif name in DEVICE:
        counter, scale = DEVICE[name]
        if value < (LARGE_BLANK if name in MAY_BE_LARGE else BLANK):
            yield counter, value * scale
    elif name in MACHINE:
        yield MACHINE[name][0], value
