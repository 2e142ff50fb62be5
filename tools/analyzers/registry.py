"""The explicit list of checks, and what is derived from it."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from tools.analyzers.communication import (
    arrival,
    ascend_collectives,
    exposed,
    flight_recorder,
    inspector,
    library_log,
    link_reports,
    messages,
    network,
    network_samples,
    rank_timers,
    ras,
    redundant,
    reported_ranks,
    timeouts,
    transfer,
    uneven_work,
)
from tools.analyzers.computation import (
    achieved_rate,
    ascend_kernels,
    core_clock,
    device_links,
    device_memory,
    device_use,
    devices_alike,
    kernel_groups,
    rank_speed,
    roofline,
    sampled_clocks,
    skipped_steps,
    straggler_report,
)
from tools.analyzers.cpu import (
    blocked,
    contention,
    dispatch,
    environment,
    held_up,
    host_environment,
    host_pauses,
    machine_samples,
    pauses,
    profiling,
    recompilations,
    sampled_stacks,
    synchronization,
    value_reads,
)
from tools.analyzers.io import data_wait
from tools.analyzers.memory import host_reports, offload, pressure, snapshots, stated_peak
from tools.analyzers.overlap import critical_path, evaluation, idle, operations, pipeline, schedule, step_account
from tools.analyzers.steps import (
    epoch_times,
    output_tables,
    output_warnings,
    profile_tables,
    reported_errors,
    restarts,
    side_work,
    step_time,
    throughput,
)
from tools.analyzers.storage import host_saves, saves
from tools.analyzers.support.spec import CheckSpec
from tools.errors import UsageError
from tools.findings import Check
from tools.knowledge.taxonomy import causes
from tools.run.kinds import MONITOR_FORMAT, STEP_LOG_FORMAT
from tools.run.model import Run
from tools.views.profile import Profile

# In the order of a report. Within a block, checks that the run's sources cannot answer at all come last.
BLOCKS: tuple[tuple[CheckSpec, ...], ...] = (
    (
        *(step_time.level, step_time.fluctuation, step_time.trend, step_time.change_point, step_time.rhythm),
        *(step_time.slowest_rank, throughput.throughput, epoch_times.epochs, restarts.job_restarts),
        side_work.side_work,
    ),
    (critical_path.critical_path,),
    (idle.device_idle, idle.queued_idle),
    (data_wait.data_loader, data_wait.uploads),
    (
        *(dispatch.small_operators, synchronization.host_synchronization, synchronization.launch_blocking),
        *(pauses.operator_compilation, profiling.profiling_overhead, environment.environment),
        rank_speed.launching_speed,
    ),
    (host_pauses.host_pauses, value_reads.value_reads, pauses.garbage_collection),
    (
        *(roofline.precision, kernel_groups.double, kernel_groups.alignment, kernel_groups.layout),
        *(kernel_groups.small_grid, roofline.against_roofline, achieved_rate.achieved_rate),
        *(kernel_groups.memory_bound, rank_speed.slow_device),
    ),
    (
        *(arrival.recorded_straggler, redundant.redundant, exposed.exposed, arrival.arrival_skew),
        *(transfer.transfer, messages.small_packet, transfer.slow_link),
    ),
    (pressure.allocation, pressure.peak, pressure.recomputation),
    (contention.contention, held_up.operators_held_up, blocked.interpreter_lock),
    (saves.periodic_stall, blocked.step_writes, saves.traced_saves, host_saves.host_saves),
    (flight_recorder.flight_recorder, ras.ras),
    (inspector.inspector_arrival, inspector.inspector_bandwidth),
    (network.retransmission, network.shared_link, network.interface, library_log.library_log, timeouts.timeouts),
    (library_log.library_warnings, reported_ranks.reported_ranks, rank_timers.rank_timers),
    (straggler_report.straggler_report,),
    (pressure.page_faults, offload.offload),
    (pipeline.bubble, pipeline.imbalance, schedule.schedule, evaluation.evaluation_stall),
    (uneven_work.data_skew, uneven_work.expert_load),
    (skipped_steps.skipped_steps, output_warnings.output_warnings, output_warnings.loader_table),
    (reported_errors.device_errors, reported_errors.hccl_errors),
    (output_warnings.flushes, output_tables.timers, output_tables.operator_table, output_tables.operations),
    (profile_tables.profile_tables, recompilations.logged_recompilations),
    (step_account.account, step_account.free_time, step_account.stage_balance, step_account.late_rank),
    (operations.operation_times,),
    (sampled_stacks.sampled_stacks, sampled_stacks.sampled_activity),
    (snapshots.allocator_snapshot, stated_peak.stated_peak, host_environment.host_environment),
    (ascend_kernels.ai_cpu, ascend_kernels.conversion, ascend_kernels.units, ascend_kernels.affinity_apis),
    (core_clock.core_clock,),
    (sampled_clocks.clocks, devices_alike.devices_alike, device_use.device_use, device_memory.device_memory),
    (device_links.device_links, device_links.device_instances, link_reports.link_reports),
    (machine_samples.processors, machine_samples.disks, network_samples.network),
    (host_reports.host_memory, host_reports.storage_test),
    (ascend_collectives.tabled_wait, ascend_collectives.packet_sizes, ascend_collectives.rdma),
)
CHECKS = tuple(spec for block in BLOCKS for spec in block)
BY_NAME = {spec.name: spec for spec in CHECKS}
OF_RECORDS = (MONITOR_FORMAT, STEP_LOG_FORMAT)
UNWATCHED = (
    "power_governor",  # by a recorded environment alone, and then only found
)  # mechanisms that the checks of their cause do not cover


def spec_of(name: str) -> CheckSpec:
    """The check of that name."""
    if name not in BY_NAME:
        raise UsageError(f"there is no check {name!r}; known are {', '.join(BY_NAME)}")
    return BY_NAME[name]


def check_of(profile: Profile, name: str) -> Check | None:
    """The answer of one check, computed once per profile; None where the question does not arise."""
    spec = spec_of(name)
    return spec.once(profile)


def answer_instead(profile: Profile, check: Check) -> Check:
    """Put an answer in the place of a check that broke, so that everyone who asks for it later gets this one."""
    profile.memo(f"check:{check.name}", lambda: check)
    return check


def affected_checks(before: Profile, after: Profile) -> tuple[CheckSpec, ...]:
    """The checks whose answer may change by further sources of the same run.

    Where the traces are the same, those that looked for records or that nobody has asked yet; otherwise all.
    """
    if not _same_traces(before.run, after.run):
        return CHECKS
    return tuple(spec for spec in CHECKS if before.depends_on_records(f"check:{spec.name}"))


def keep_answers(before: Profile, after: Profile, affected: Collection[CheckSpec]) -> None:
    """Take over the answers of all checks but the affected ones."""
    for spec in CHECKS:
        if spec not in affected:
            after.memo(f"check:{spec.name}", partial(spec.once, before))


def _same_traces(before: Run, after: Run) -> bool:
    """Return whether two readings of a run differ in monitor records and step logs alone."""
    return _without_records(before) == _without_records(after)


def _without_records(run: Run) -> list[object]:
    ranks = [
        (
            *(rank.rank, rank.steps, rank.marks, rank.devices, rank.clock, rank.metadata, rank.host),
            *(rank.rank_origin, rank.step_origin, len(rank.events)),
        )
        for rank in run.profiled_ranks
    ]
    traces = sorted((str(each.path), each.digest) for each in run.sources if each.format not in OF_RECORDS)
    return [ranks, run.rank_numbers, traces, run.layout, dict(run.variables), run.cut, run.screening is None]


def in_order(profile: Profile) -> tuple[CheckSpec, ...]:
    """All checks in the order of a report of this run."""
    return tuple(spec for block in BLOCKS for spec in sorted(block, key=lambda each: each.out_of_reach(profile)))


def all_checks(profile: Profile) -> tuple[Check, ...]:
    """The answers of all checks whose question arises, in the order of a report."""
    answers = (check_of(profile, spec.name) for spec in in_order(profile))
    return tuple(answer for answer in answers if answer is not None)


def checks_for(cause: str, mechanism: str | None = None) -> tuple[str, ...]:
    """Names of the checks that look for a cause, or for one mechanism of it; () when none does."""
    if mechanism in UNWATCHED:
        return ()
    looking = [spec for spec in CHECKS if cause in spec.causes]
    own = [spec.name for spec in looking if mechanism in spec.mechanisms]
    return tuple(own or (spec.name for spec in looking))


def has_own_check(mechanism: str | None) -> bool:
    """Whether a mechanism is looked for by other checks than its cause as a whole, or by none."""
    own = [cause.id for cause in causes().values() if mechanism in cause.mechanisms]
    return any(checks_for(cause, mechanism) != checks_for(cause) for cause in own)


def unwatched_causes() -> tuple[str, ...]:
    """The causes of the taxonomy that no check looks for."""
    return tuple(cause for cause in causes() if not checks_for(cause))
