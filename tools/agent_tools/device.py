"""What keeps the device waiting: the launch queue, idle time by reason, the critical path, collectives."""

from __future__ import annotations

from pydantic import Field

from tools.agent_tools.context import Figure, ToolContext, told
from tools.agent_tools.tool import Arguments, NoArguments
from tools.findings import Argument
from tools.metrics.idle import REASONS
from tools.whatif.families import FAMILIES, REMOVABLE

LAUNCHES = (
    ("launches per step", "launches_per_step"),
    ("typical kernel", "launched_kernel_us"),
    ("time between launches", "launch_interval_us"),
    ("launches queued before the device", "launch_queue_length"),
    ("launches that find an empty queue", "empty_queue_pct"),
    ("delay from launch to start", "launch_delay_us"),
    ("launches that wait for their kernel", "launch_blocking_pct"),
    ("synchronising calls per step", "blocking_calls_per_step"),
    ("host waiting in them per step", "blocking_wait_ms"),
)


class OneRank(Arguments):
    """Which rank."""

    rank: int = Field(ge=0)


def launch_queue(context: ToolContext, asked: OneRank) -> str:
    """Whether the host launches fast enough for a rank's device, and how often it stops to wait for the device."""
    return "\n".join(told(context, tuple(Figure(label, name, {"rank": asked.rank}) for label, name in LAUNCHES)))


def device_idle(context: ToolContext, asked: OneRank) -> str:
    """How long a rank's device is idle per step, by reason."""
    figures = [Figure("idle in all", "device_idle_ms", {"rank": asked.rank})]
    for reason in REASONS:
        where: dict[str, Argument] = {"rank": asked.rank, "reason": reason}
        figures.append(Figure(f"idle, {reason.replace('_', ' ')}", "device_idle_ms", where))
        figures.append(Figure(f"idle, {reason.replace('_', ' ')}, share", "device_idle_pct", where))
    return "\n".join(told(context, tuple(figures)))


def critical_path(context: ToolContext, _: NoArguments) -> str:
    """What the step waits for, by family of work, and what it would lose if that family's work took no time."""
    figures = [Figure("whole path per step", "critical_path_step_ms")]
    for family in FAMILIES:
        figures.append(Figure(f"{family} on the path", "critical_path_ms", {"family": family}))
        if family in REMOVABLE:
            figures.append(Figure(f"saved without {family}", "family_saving_ms", {"family": family}))
    return "\n".join(told(context, tuple(figures)))


class Collectives(Arguments):
    """Which collectives; everything may be left out."""

    kind: str | None = Field(default=None, max_length=40, description="all_reduce, all_gather, reduce_scatter, ...")
    rank: int | None = Field(default=None, ge=0)


def collectives(context: ToolContext, asked: Collectives) -> str:
    """Collectives: number and time per step, overlap with computation, waiting for late ranks, transfer speed, size."""
    kind: dict[str, Argument] = {"kind": asked.kind}
    rank: dict[str, Argument] = {"rank": asked.rank}
    count = context.measure("collective_count", **kind, **rank)
    if not count.value:
        return context.say("Such collectives in a step: {0}; so nothing can be said about how they run.", count)
    return "\n".join(
        told(
            context,
            (
                Figure("collectives per step and rank", "collective_count", kind | rank),
                Figure("time inside them per step", "collective_ms", kind | rank),
                Figure("communication that overlaps with computation", "communication_overlap_pct", rank),
                Figure("exposed communication that is not waiting", "exposed_transfer_ms", rank),
                Figure("exposed waiting for a later rank", "exposed_wait_ms", rank),
                Figure("inequality of arrivals (R_wait)", "wait_ratio_pct", kind),
                Figure("bus bandwidth of large ones", "bus_bandwidth", kind),
                Figure("median size", "message_bytes", kind),
                Figure("found on several ranks", "matched_collectives"),
                Figure("without a counterpart", "unmatched_collectives"),
            ),
        )
    )
