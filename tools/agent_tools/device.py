"""Reasons why a device waits: the launch queue, idle time by reason, the critical path, collectives."""

from __future__ import annotations

from pydantic import Field

from tools.agent_tools.context import Figure, ToolContext, measured
from tools.agent_tools.tool import Arguments, NoArguments
from tools.findings import Argument
from tools.metrics.idle import REASONS
from tools.whatif.families import FAMILIES, REMOVABLE

LAUNCHES = (
    ("launches per step", "launches_per_step"),
    ("median kernel", "launched_kernel_us"),
    ("time between launches", "launch_interval_us"),
    ("median launch-queue depth", "launch_queue_length"),
    ("launches that find an empty queue", "empty_queue_pct"),
    ("delay from launch to start", "launch_delay_us"),
    ("launches that wait for their kernel", "launch_blocking_pct"),
    ("synchronising calls per step", "blocking_calls_per_step"),
    ("host waiting in them per step", "blocking_wait_ms"),
)


class OneRank(Arguments):
    """One rank."""

    rank: int = Field(ge=0)


def launch_queue(context: ToolContext, asked: OneRank) -> str:
    """Launch rate, launch-queue depth and synchronising calls of a rank: does its host keep the device busy?"""
    return "\n".join(measured(context, ((label, name, {"rank": asked.rank}) for label, name in LAUNCHES)))


def device_idle(context: ToolContext, asked: OneRank) -> str:
    """Idle time of a rank's device per step, by reason."""
    figures: list[Figure] = [("idle in all", "device_idle_ms", {"rank": asked.rank})]
    for reason in REASONS:
        label = f"idle, {reason.replace('_', ' ')}"
        where: dict[str, Argument] = {"rank": asked.rank, "reason": reason}
        figures += [(label, "device_idle_ms", where), (f"{label}, share", "device_idle_pct", where)]
    return "\n".join(measured(context, figures))


def critical_path(context: ToolContext, _: NoArguments) -> str:
    """The critical path of a step by family of work, and the time saved if that family's work took no time."""
    figures: list[Figure] = [("whole path per step", "critical_path_step_ms", {})]
    for family in FAMILIES:
        figures.append((f"{family} on the path", "critical_path_ms", {"family": family}))
        if family in REMOVABLE:
            figures.append((f"saved without {family}", "family_saving_ms", {"family": family}))
    return "\n".join(measured(context, figures))


class Collectives(Arguments):
    """The collectives in question; everything may be left out."""

    kind: str | None = Field(default=None, max_length=40, description="all_reduce, all_gather, reduce_scatter, ...")
    rank: int | None = Field(default=None, ge=0)


def collectives(context: ToolContext, asked: Collectives) -> str:
    """Collectives: number and time per step, overlap with compute, waiting for stragglers, bus bandwidth, size."""
    kind: dict[str, Argument] = {"kind": asked.kind}
    rank: dict[str, Argument] = {"rank": asked.rank}
    count = context.measure("collective_count", **kind, **rank)
    if not count.value:
        return context.say("Such collectives in a step: {0}; how they run is not assessable from this data.", count)
    figures: tuple[Figure, ...] = (
        ("collectives per step and rank", "collective_count", kind | rank),
        ("time inside them per step", "collective_ms", kind | rank),
        ("communication that overlaps with compute", "communication_overlap_pct", rank),
        ("exposed communication that is not waiting", "exposed_transfer_ms", rank),
        ("exposed waiting for a straggler", "exposed_wait_ms", rank),
        ("inequality of arrivals (R_wait)", "wait_ratio_pct", kind),
        ("bus bandwidth of large ones", "bus_bandwidth", kind),
        ("median size", "message_bytes", kind),
        ("found on several ranks", "matched_collectives", {}),
        ("without a counterpart", "unmatched_collectives", {}),
    )
    return "\n".join(measured(context, figures))
