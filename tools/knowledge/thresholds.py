"""The one table of thresholds: name -> value, unit, reason and source. Overridden by configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tools.errors import UsageError


@dataclass(frozen=True)
class Threshold:
    """One limit and why it is where it is."""

    value: float
    unit: str
    reason: str
    source: str


HERMES = "Hermes, USENIX ATC'25"
TB_PLUGIN = "PyTorch Profiler TensorBoard plugin, advisor"
OWN = "this project"

DEFAULTS: Mapping[str, Threshold] = MappingProxyType(
    {
        "cause_share_pct": Threshold(
            5.0, "% of step", "a cause that would give back less is noted, not called the problem", OWN
        ),
        "confidence": Threshold(0.5, "0..1", "below this a cause is a hypothesis, not a verdict", OWN),
        "healthy_compute_pct": Threshold(
            70.0, "% of step", "a step that computes less than this is not called healthy without a reason", OWN
        ),
        "unexplained_part_pct": Threshold(
            15.0, "% of step", "so much waiting that no finding speaks of is told, and rules out healthy", OWN
        ),
        "explained_part_pct": Threshold(
            33.0, "% of a part", "causes that would give back less of a part of the step do not explain it", OWN
        ),
        "certain_loss_pct": Threshold(
            30.0, "% of step", "a part other than computation this large is a problem before its cause is sure", OWN
        ),
        "fluctuation_pct": Threshold(10.0, "%", "a step this far over the usual one counts as a fluctuation", HERMES),
        "data_wait_pct": Threshold(5.0, "% of step", "share of the step in which the run waits for data", TB_PLUGIN),
        "communication_exposed_pct": Threshold(10.0, "% of step", "share in communication", TB_PLUGIN),
        "collective_wait_pct": Threshold(
            30.0,
            "% of time in collectives",
            "waiting for the last rank; unlike 1 - T_avg/T_max it does not shrink when one of many ranks is late",
            OWN,
        ),
        "straggler_lead": Threshold(
            2.0, "x the next rank", "a rank is the late one when it is waited for this much more than any other", OWN
        ),
        "straggler_steadiness": Threshold(
            3.0,
            "mean/standard error",
            "waiting over steps that is less steady than this may be chance, not a late rank",
            OWN,
        ),
        "poor_overlap_pct": Threshold(
            50.0, "% of communication", "below this overlap, exposed communication is a matter of schedule", OWN
        ),
        "collective_start_ms": Threshold(
            1.0, "ms", "starting a collective takes tens of microseconds; a fixed part beyond this is waiting", OWN
        ),
        "collective_fixed_pct": Threshold(
            50.0, "% of transfer time", "above this the number of messages, not their bytes, sets the time", OWN
        ),
        "fit_error_pct": Threshold(
            20.0, "%", "a line through duration over size that misses by more than this explains nothing", OWN
        ),
        "small_collective_us": Threshold(
            100.0, "us", "collectives this short are start-up cost, whatever their size", OWN
        ),
        "single_node_bus_gb_s": Threshold(
            5.0, "GB/s", "half of what PCIe 3.0 x16, the slowest link inside a training node, sustains", OWN
        ),
        "cluster_bus_gb_s": Threshold(
            25.0, "GB/s", "200 Gb/s per accelerator, the network that training clusters of such devices have", OWN
        ),
        "host_bus_gb_s": Threshold(
            0.6, "GB/s", "half of what 10 Gb/s Ethernet, the slowest network worth training over, carries", OWN
        ),
        "host_slowest_bus_gb_s": Threshold(
            0.125,
            "GB/s",
            "1 Gb/s Ethernet, the slowest that machines are sold with; faster ones differ so much that only their own"
            " rate could judge them",
            OWN,
        ),
        "host_overlap_share": Threshold(
            0.75,
            "of what could be hidden",
            "a judgement between half and all of it, not derived: the last message stays, and threads of library and"
            " training meet on the cores; two recorded pairs gave back 0.6 to 1.1, within the range that is predicted",
            OWN,
        ),
        "link_busy_pct": Threshold(
            85.0, "%", "collectives that leave fewer pauses than this keep the link busy: no order hides more", OWN
        ),
        "unexplained_path_pct": Threshold(
            50.0, "% of step", "a critical path that is mostly idle for no recorded reason says too little", OWN
        ),
        "garbage_collection_ms": Threshold(1.0, "ms", "a collector pause of this length is an event", "msprof-analyze"),
        "noted_pct": Threshold(1.0, "% of step", "what costs less than this is not reported as a finding", OWN),
        "upload_pct": Threshold(
            5.0, "% of step", "uploads below this are usual and hidden only by rebuilding the input pipeline", OWN
        ),
        "dispatch_gap_us": Threshold(
            500.0, "us", "one operator's way through the host takes 5 to 200 us; a longer pause is something else", OWN
        ),
        "short_operator_us": Threshold(
            50.0, "us", "a host operator below this spends most of its time in dispatch, not in arithmetic", OWN
        ),
        "repeated_calls": Threshold(
            100.0,
            "calls per step",
            "layers and parameters call an operator tens of times; loops over rows or numbers do so hundreds of times",
            OWN,
        ),
        "burst_gap_us": Threshold(
            50.0, "us", "synchronising calls this close together are one wait (a copy, then its synchronise)", OWN
        ),
        "launch_blocking_ratio": Threshold(
            0.5, "of launches", "more launches than this end only with their kernel: launches block", "msprof-analyze"
        ),
        "allocation_ms": Threshold(
            10.0, "ms in the recorded steps", "allocator calls beyond this are noticeable", "msprof-analyze"
        ),
        "dispatch_left_best": Threshold(
            0.1, "of the host time", "a CUDA graph or compiled region is one launch in place of many", OWN
        ),
        "dispatch_left_cautious": Threshold(
            0.6, "of the host time", "fused optimizers and a few fused operators, the rest of the model as it is", OWN
        ),
        "profiled_frame_us": Threshold(
            0.15, "us per Python frame", "what recording a Python call adds, torch 2.13 on one CPU core: 0.13", OWN
        ),
        "profiled_operator_us": Threshold(
            1.0, "us per operator", "what shapes, stacks or memory add to an operator, same machine: 1.0 to 1.1", OWN
        ),
        "state_copy_bytes": Threshold(
            1e6, "bytes per step", "losses, counters and metrics read back are bytes to kilobytes, a state is more", OWN
        ),
        "roofline_utilization_pct": Threshold(
            60.0,
            "% of peak",
            "from here on an operator runs as fast as the device allows; libraries seldom pass 80 of the datasheet's "
            "peak and our traffic counts every operand once",
            "Hermes, USENIX ATC'25 (rule); value: " + OWN,
        ),
        "matrix_efficiency_pct": Threshold(
            40.0,
            "% of peak",
            "what ordinary training shapes reach on tensor cores",
            "published model FLOPs utilisation",
        ),
        "vector_efficiency_pct": Threshold(
            70.0,
            "% of peak",
            "what tuned 32-bit kernels reach on ordinary units, assumed where shapes are unknown",
            OWN,
        ),
        "memory_efficiency_pct": Threshold(
            80.0,
            "% of peak",
            "memory bandwidth that a streaming kernel can reach",
            "STREAM-like kernels on datasheet peaks",
        ),
        "misaligned_gain": Threshold(
            0.6,
            "of the time",
            "time that a matrix multiplication of half types keeps once its sizes are multiples of 8",
            "NVIDIA matrix multiplication guide: alignment to 16 bytes",
        ),
        "computation_finding_pct": Threshold(
            1.0, "% of step", "less device time than this is not worth a finding", OWN
        ),
        "low_roofline_pct": Threshold(
            30.0,
            "% of peak",
            "operators that need three times what the device's peaks allow leave most of the device unused",
            OWN,
        ),
        "compute_bound_pct": Threshold(
            30.0, "% of step", "only a step that mostly computes at the device's limit is bound by it", OWN
        ),
        "small_grid_kernel_us": Threshold(
            10.0, "us", "shorter kernels are bounded by launch latency, not by their grid", OWN
        ),
        "streaming_kernel_us": Threshold(
            5.0, "us", "a run of element-wise kernels whose mean is shorter is bounded by launches, not by memory", OWN
        ),
        "device_slowdown_pct": Threshold(
            5.0, "%", "the same kernels this much slower than on the other ranks mean a slow device", HERMES
        ),
        "run_delay_pct": Threshold(
            8.0, "% of time", "ranks that share a machine with their own helper threads wait 2 to 6 %", OWN
        ),
        "foreign_cores": Threshold(
            0.3, "cores", "what a machine's services use stays below; a monitoring program used 40 cores", HERMES
        ),
        "throttled_pct": Threshold(
            2.0, "% of time", "a quota that is not used up holds nobody back; the first period may", OWN
        ),
        "side_thread_pct": Threshold(
            10.0,
            "% of one core",
            "loggers and progress bars use less, and a thread keeps the interpreter no longer than it runs",
            OWN,
        ),
        "switch_interval_ms": Threshold(
            5.0,
            "ms",
            "a thread that wants the interpreter asks for it after so long, and waits again if another one is first",
            "CPython, sys.getswitchinterval",
        ),
        "collector_pct": Threshold(
            2.0, "% of step", "raising the collector's threshold cost 0.02 %, switching it off brought 1 %", HERMES
        ),
        "compiled_again": Threshold(
            3.0, "compilations", "one or two make sizes dynamic or tell training from evaluation; then it goes on", OWN
        ),
        "page_fault_pct": Threshold(3.0, "% of step", "a steady step reuses its memory and hardly faults", OWN),
        "page_fault_us": Threshold(
            1.5, "us", "trap, clearing and accounting of a 4 KiB page: 0.5 bare, over 2 in a virtual machine", OWN
        ),
        "blocked_pct": Threshold(
            10.0, "% of step", "what the sampled clocks and the trace's share of waiting miss stays below this", OWN
        ),
        "step_write_bytes": Threshold(
            3500.0, "bytes per step", "one page per step is a line that is brought to the disk each time", OWN
        ),
        "slow_storage_bytes_per_s": Threshold(
            50e6, "bytes/s", "a single hard disk sustains twice this; below it is the place, not the amount", OWN
        ),
        "host_short_operators_pct": Threshold(
            12.5,
            "% of step",
            "from here on fusing short operators called over and over, seen cautiously (dispatch_left_cautious), gives"
            " back cause_share_pct",
            OWN,
        ),
        "sent_again_pct": Threshold(
            1.0, "% of segments", "healthy links of the lab send up to 0.33 % again when they are full", OWN
        ),
        "foreign_traffic_pct": Threshold(
            30.0, "% of bytes", "protocol, monitoring and file systems add less than this to the collectives", OWN
        ),
        "host_slowdown_pct": Threshold(
            15.0, "%", "the same operators differ by up to a tenth between two equal, shared cores", OWN
        ),
        "rank_spread_pct": Threshold(5.0, "%", "spread of compute between ranks", "msprof-analyze"),
    }
)


@dataclass(frozen=True)
class Thresholds:
    """The table with a configuration's overrides applied."""

    overrides: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.overrides:
            if name not in DEFAULTS:
                raise UsageError(f"there is no threshold {name!r}; known are {', '.join(sorted(DEFAULTS))}")

    def __getitem__(self, name: str) -> float:
        override = self.overrides.get(name)
        return DEFAULTS[name].value if override is None else override
