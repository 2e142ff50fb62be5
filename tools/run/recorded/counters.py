"""Sampled counters of devices and machines: what nvidia-smi, sar, a tracker or an exporter wrote down now and then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray
    from pandas.api.extensions import ExtensionArray

# level: the value at (or the mean up to) the sample; flag: 0 or 1; total: counted since boot or since the start.
CounterKind = Literal["level", "flag", "total"]
NONE = -1  # no device, no rank


@dataclass(frozen=True)
class Counter:
    """One counter: its unit, whether it is counted up, and a noun phrase for it."""

    unit: str
    label: str
    kind: CounterKind = "level"


COUNTERS: Mapping[str, Counter] = {
    # A kernel or copy engine ran in that share of the time; how much of the device it used is not in it.
    "device_busy_pct": Counter("%", "time in which some kernel ran"),
    "device_memory_busy_pct": Counter("%", "time in which device memory was read or written"),
    "device_sm_active_pct": Counter("%", "share of multiprocessors with work"),
    # By DCGM's profiling: also where devices are split (MIG), of which no utilization is known.
    "device_engine_active_pct": Counter("%", "time in which the engines of a device worked"),
    "device_tensor_active_pct": Counter("%", "time in which tensor cores worked"),
    "device_dram_active_pct": Counter("%", "share of the memory bandwidth in use"),
    "device_memory_used_bytes": Counter("bytes", "device memory in use"),
    "device_memory_total_bytes": Counter("bytes", "device memory"),
    "device_memory_free_bytes": Counter("bytes", "device memory that is free"),
    "device_memory_usable_bytes": Counter("bytes", "device memory in use and free, without what the driver keeps"),
    "device_memory_reserved_bytes": Counter("bytes", "device memory that the driver keeps for itself"),
    "device_process_memory_bytes": Counter("bytes", "device memory of one process"),  # part: its id and name
    "device_processes": Counter("processes", "processes on a device"),  # 0 where the tool says that it sees none
    "device_process_busy_pct": Counter("%", "time in which kernels of one process ran"),
    "device_memory_used_pct": Counter("%", "device memory in use"),
    "device_power_w": Counter("W", "power draw"),
    "device_power_limit_w": Counter("W", "power limit"),
    "device_power_pct": Counter("%", "power draw of the power limit"),
    "device_temperature_c": Counter("C", "device temperature"),
    "device_memory_temperature_c": Counter("C", "temperature of the device memory"),
    "device_clock_mhz": Counter("MHz", "clock of the multiprocessors"),
    "device_clock_max_mhz": Counter("MHz", "highest clock of the multiprocessors"),
    "device_memory_clock_mhz": Counter("MHz", "clock of the device memory"),
    "device_memory_clock_max_mhz": Counter("MHz", "highest clock of the device memory"),
    "device_performance_state": Counter("", "performance state"),  # 0 is the fastest
    "throttle_idle": Counter("", "clocks lowered because the device is idle", "flag"),
    "throttle_thermal": Counter("", "clocks lowered for heat", "flag"),
    "throttle_power": Counter("", "clocks lowered by the power limit", "flag"),
    "throttle_power_brake": Counter("", "clocks lowered by the power supply", "flag"),
    "throttle_hardware": Counter("", "clocks lowered by the hardware", "flag"),  # heat, power supply or both
    "throttle_setting": Counter("", "clocks set by an application or to those of a group of devices", "flag"),
    "throttle_power_pct": Counter("%", "time in which the power limit lowered clocks"),
    "pcie_received_bytes_per_s": Counter("bytes/s", "received over PCIe"),
    "pcie_sent_bytes_per_s": Counter("bytes/s", "sent over PCIe"),
    "pcie_received_pct": Counter("%", "share of the PCIe bandwidth used for receiving"),
    "pcie_sent_pct": Counter("%", "share of the PCIe bandwidth used for sending"),
    "nvlink_received_pct": Counter("%", "share of the NVLink bandwidth used for receiving"),
    "nvlink_sent_pct": Counter("%", "share of the NVLink bandwidth used for sending"),
    "pcie_received_bytes": Counter("bytes", "received over PCIe", "total"),
    "pcie_sent_bytes": Counter("bytes", "sent over PCIe", "total"),
    "pcie_generation": Counter("", "generation of the PCIe link"),
    "pcie_width": Counter("lanes", "width of the PCIe link"),
    "pcie_generation_max": Counter("", "highest generation of the PCIe link"),
    "pcie_width_max": Counter("lanes", "largest width of the PCIe link"),
    "nvlink_bytes": Counter("bytes", "moved over NVLink", "total"),
    "device_ecc_errors": Counter("errors", "uncorrected memory errors", "total"),
    "device_error_code": Counter("", "last error code (XID)"),
    # Of a machine; part names a processor (cpu3), a disk, a network interface, an adapter or a process.
    "cpu_busy_pct": Counter("%", "processor time in use"),
    "cpu_iowait_pct": Counter("%", "processor time idle with a disk request open"),
    "cpu_steal_pct": Counter("%", "processor time taken by other virtual machines"),
    "cpu_idle_pct": Counter("%", "idle processor time"),
    "cpu_system_pct": Counter("%", "processor time in the kernel"),
    "cpu_clock_mhz": Counter("MHz", "clock of the processors"),
    "runnable_processes": Counter("processes", "processes that run or wait for a processor"),
    "blocked_processes": Counter("processes", "processes blocked by a disk"),
    "context_switches_per_s": Counter("/s", "context switches"),
    "process_cpu_pct": Counter("%", "processor time of one process"),
    "process_wait_pct": Counter("%", "time for which one process waits for a processor"),
    "process_io_delay_ms": Counter("ms", "delay of one process by disks"),
    "process_resident_bytes": Counter("bytes", "resident memory of one process"),
    "process_threads": Counter("threads", "threads of one process"),
    "memory_used_bytes": Counter("bytes", "memory in use"),
    "memory_total_bytes": Counter("bytes", "memory"),
    "memory_used_pct": Counter("%", "memory in use"),
    "swapped_bytes_per_s": Counter("bytes/s", "swapped in and out"),
    "pressure_cpu_some_pct": Counter("%", "time in which some process waits for a processor"),
    "pressure_cpu_full_pct": Counter("%", "time in which every process waits for a processor"),
    "pressure_io_some_pct": Counter("%", "time in which some process waits for a disk"),
    "pressure_io_full_pct": Counter("%", "time in which every process waits for a disk"),
    "pressure_memory_some_pct": Counter("%", "time in which some process waits for memory"),
    "pressure_memory_full_pct": Counter("%", "time in which every process waits for memory"),
    "disk_busy_pct": Counter("%", "time in which a disk has requests"),
    "disk_requests_per_s": Counter("/s", "requests of a disk"),
    "disk_wait_ms": Counter("ms", "time of a disk request"),
    "disk_read_bytes_per_s": Counter("bytes/s", "read from a disk"),
    "disk_written_bytes_per_s": Counter("bytes/s", "written to a disk"),
    "disk_read_bytes": Counter("bytes", "read from a disk", "total"),
    "disk_written_bytes": Counter("bytes", "written to a disk", "total"),
    "disk_used_pct": Counter("%", "disk space in use"),
    "network_received_bytes_per_s": Counter("bytes/s", "received over the network"),
    "network_sent_bytes_per_s": Counter("bytes/s", "sent over the network"),
    "network_received_bytes": Counter("bytes", "received over the network", "total"),
    "network_sent_bytes": Counter("bytes", "sent over the network", "total"),
    "tcp_sent_segments": Counter("segments", "TCP segments sent", "total"),
    "tcp_retransmitted_segments": Counter("segments", "TCP segments sent again", "total"),
    "tcp_sent_segments_per_s": Counter("/s", "TCP segments sent"),
    "tcp_retransmitted_segments_per_s": Counter("/s", "TCP segments sent again"),
    "interface_errors": Counter("errors", "errors of a network interface", "total"),
    "interface_dropped": Counter("packets", "packets that an interface dropped", "total"),
    "interface_errors_per_s": Counter("/s", "errors of a network interface"),
    "interface_dropped_per_s": Counter("/s", "packets that an interface dropped"),
    "pause_frames_received": Counter("frames", "pause frames received", "total"),
    "pause_frames_sent": Counter("frames", "pause frames sent", "total"),
    "rdma_retransmissions": Counter("packets", "RDMA transfers that had to be repeated", "total"),
    "rdma_completion_errors": Counter("errors", "RDMA requests that completed with an error", "total"),
    "rdma_timeouts": Counter("time-outs", "RDMA acknowledgements that timed out", "total"),
    "rdma_out_of_sequence": Counter("packets", "RDMA packets out of sequence", "total"),
    "rdma_congestion_notices": Counter("packets", "RDMA congestion notifications", "total"),
    # Of reports of one moment; part names what was tested or is joined.
    "topology_path": Counter("", "path between two devices"),  # part: its kind and both ends
    "tested_bandwidth_bytes_per_s": Counter("bytes/s", "bandwidth of a link by a test"),
    "tested_latency_us": Counter("us", "latency of a link by a test"),
    "tested_storage_bytes_per_s": Counter("bytes/s", "rate of storage by a test"),
    "tested_requests_per_s": Counter("/s", "requests of storage by a test"),
    "tested_storage_wait_ms": Counter("ms", "time of a request of storage by a test"),
    "link_active": Counter("", "port that is active", "flag"),
    "link_rate_gbit_per_s": Counter("Gbit/s", "rate of a port"),
    "memory_available_pct": Counter("%", "memory that is available"),
    "swap_used_pct": Counter("%", "swap in use"),
    "link_downed": Counter("times", "times that a link went down", "total"),
    "link_symbol_errors": Counter("errors", "symbol errors of a link", "total"),
}

# One row for each value. ``tick`` counts the readings of a file from 0: rows of one tick were taken at once, whether
# or not a time is known (``time_unix_ns`` NaN). ``file`` is the place in ``CounterRecords.sources``, ``line`` the line
# or row there. ``host`` "" is not known, ``part`` "" the whole device or machine.
SAMPLE_COLUMNS = {
    **{"time_unix_ns": "float64", "tick": "int64", "host": "str", "device": "int64", "rank": "int64"},
    **{"part": "str", "counter": "str", "value": "float64", "file": "int64", "line": "int64"},
}
# unix: the times are on the epoch; local: of a clock whose zone is not known, written down as if it were UTC; none.
SampleClock = Literal["unix", "local", "none"]


@dataclass(frozen=True)
class CounterSource:
    """What one file of samples says of itself; "" and None where it does not."""

    format: str  # of the ``Source`` that lists the file
    path: str
    tool: str  # "nvidia-smi", "sar", "wandb"
    clock: SampleClock = "none"
    interval_s: float | None = None  # as the file states it
    driver: str = ""
    devices: tuple[tuple[int, str], ...] = ()  # index and model
    host: str = ""
    buses: tuple[tuple[int, int], ...] = ()  # index and PCI address as a number (domain, bus, device and function)
    cores: int = 0  # processors of the machine, 0 not stated
    since_start: bool = False  # its only reading may be a mean since the machine was started
    numbered: bool = True  # the indices of devices are stated, and not counted in order of appearance


@dataclass(frozen=True, eq=False)
class CounterRecords:
    """All samples of a run: ``samples`` with ``SAMPLE_COLUMNS``, in the order in which they were written.

    ``follows``: a file with a later reading of the same totals, by its place, and that with the earlier one;
    ``seconds_after`` holds the time between them where it is known.
    """

    samples: pd.DataFrame
    sources: tuple[CounterSource, ...] = ()
    follows: Mapping[int, int] = field(default_factory=dict)
    seconds_after: Mapping[int, float] = field(default_factory=dict)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of machines that the samples hold."""
        named = (*(each.host for each in self.sources), *map(str, self.samples["host"].unique()))
        return tuple(dict.fromkeys(host for host in named if host))


def samples_table(rows: Mapping[str, object]) -> pd.DataFrame:
    """A table of samples from columns of equal length (sequences or arrays); of ``SAMPLE_COLUMNS`` that are not given
    the unknown value."""
    import numpy as np
    import pandas as pd

    values = np.asarray(rows["value"], dtype="float64")
    unknown: dict[str, float] = {"time_unix_ns": float("nan"), "device": NONE, "rank": NONE}
    columns: dict[str, object] = {}
    for name, dtype in SAMPLE_COLUMNS.items():
        if name in rows:
            columns[name] = rows[name] if dtype == "str" else np.asarray(rows[name], dtype=dtype)
        elif dtype == "str":
            columns[name] = repeated_text([""], np.zeros(len(values), dtype="int64"))
        else:
            columns[name] = np.full(len(values), unknown.get(name, 0), dtype=dtype)
    return pd.DataFrame(columns).astype(SAMPLE_COLUMNS)


def repeated_text(names: Sequence[str], places: NDArray[np.integer]) -> ExtensionArray:
    """A column of texts by their place among few: no object for each row."""
    import pandas as pd

    return pd.array(list(names), dtype="str").take(places)


def joined_counters(*records: CounterRecords | None) -> CounterRecords | None:
    """The samples of several files or formats as one record; None where there are none."""
    import pandas as pd

    known = [each for each in records if each is not None]
    if len(known) < 2:
        return known[0] if known else None
    tables, before = [], 0
    follows: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for each in known:
        tables.append(each.samples.assign(file=each.samples["file"] + before))
        follows |= {later + before: earlier + before for later, earlier in each.follows.items()}
        seconds |= {later + before: passed for later, passed in each.seconds_after.items()}
        before += len(each.sources)
    return CounterRecords(
        samples=pd.concat(tables, ignore_index=True).astype(SAMPLE_COLUMNS),
        sources=tuple(source for each in known for source in each.sources),
        follows=follows,
        seconds_after=seconds,
    )
