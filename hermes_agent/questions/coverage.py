"""Which checks look for which cause. A cause without an entry here is not looked for, and answers must say so."""

from __future__ import annotations

CHECKS_OF_CAUSE: dict[str, tuple[str, ...]] = {
    "poor_overlap": ("communication.exposed",),
    "slow_data_reading": ("io.data_loader",),
    "slow_data_processing": ("io.data_loader",),
    "slow_data_fetching": ("io.upload",),
    "operator_compilation": ("cpu.operator_compilation",),
    "operator_dispatch": (
        "cpu.small_operators",
        "cpu.host_synchronization",
        "cpu.launch_blocking",
        "cpu.device_idle",
        "cpu.interpreter_lock",
    ),
    "garbage_collection": ("cpu.garbage_collection",),
    "environment_configuration": ("cpu.environment",),
    "profiling_overhead": ("cpu.profiling_overhead",),
    "slow_device": ("computation.slow_device",),
    "compute_bound": ("computation.roofline",),
    "memory_bound": ("computation.memory_bound",),
    "underutilization": (
        "computation.precision",
        "computation.fp64",
        "computation.alignment",
        "computation.layout",
        "computation.small_grid",
        "computation.roofline",
    ),
    "straggler": ("communication.arrival_skew",),
    "data_skew": ("communication.data_skew", "communication.arrival_skew"),
    "moe_imbalance": ("communication.expert_load",),
    "pipeline_bubble": ("pipeline.bubble",),
    "pipeline_imbalance": ("pipeline.imbalance",),
    "slow_link": ("communication.slow_link", "communication.transfer", "communication.retransmission"),
    "small_packet": ("communication.small_packet",),
    "network_configuration": ("communication.transfer", "communication.interface"),
    "memory_pressure": ("memory.allocation", "memory.peak", "memory.recomputation", "memory.page_faults"),
    "cpu_contention": ("cpu.contention", "cpu.host_speed"),
    "checkpoint_stall": ("storage.periodic_stall", "storage.step_writes", "storage.traced_save"),
    "bandwidth_contention": ("communication.shared_link",),
    "rdma_retransmission": ("communication.retransmission",),
}

# Where a mechanism is looked for by fewer checks than its cause; () means by none.
CHECKS_OF_MECHANISM: dict[str, tuple[str, ...]] = {
    "small_operators": ("cpu.small_operators",),
    "host_synchronization": ("cpu.host_synchronization",),
    "launch_blocking": ("cpu.launch_blocking",),
    "gil_contention": ("cpu.interpreter_lock",),
    "version_mismatch": ("cpu.environment",),
    "power_governor": (),
    "no_tensor_core": ("computation.precision",),
    "shape_alignment": ("computation.alignment",),
    "layout_conversion": ("computation.layout",),
    "small_grid": ("computation.small_grid",),
    "fallback_unit": ("computation.fp64",),
    "allocator_retry": ("memory.allocation",),
    "fragmentation": ("memory.peak",),
    "offload_stall": (),
    "recomputation": ("memory.recomputation",),
}

# Checks that describe the run without looking for one cause.
DESCRIPTIVE = ("step_time.", "parallel.", "cpu.queued_idle", "cpu.device_idle")


def checks_for(cause: str, mechanism: str | None = None) -> tuple[str, ...]:
    """Names of the checks that look for a cause, or for one mechanism of it; () when none does."""
    if mechanism is not None and mechanism in CHECKS_OF_MECHANISM:
        return CHECKS_OF_MECHANISM[mechanism]
    return CHECKS_OF_CAUSE.get(cause, ())
