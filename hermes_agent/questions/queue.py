"""Is the device idle although work is launched? The launch queue and the reasons of idle time."""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, bullets, paragraph
from hermes_agent.questions.question import Question
from tools.errors import UsageError
from tools.metrics.idle import REASONS

NO_LAUNCHES = (
    "No launch on the host is joined to work on a device, so neither the queue nor the reasons of idle time can be "
    "told. What it needs: host and device activity in one trace, on a run that uses a device."
)
REASON_TEXTS = {
    "data": "a training thread waits for its data loader",
    "launched": "launched work has not started yet: launch latency, a stream that waits for another, or a full device",
    "upload": "the host prepares a copy from pageable memory",
    "allocation": "the host allocates or frees device memory",
    "compilation": "the host compiles",
    "collection": "Python collects garbage",
    "synchronization": "the host had waited for the device and lost its lead",
    "dispatch": "the host needs longer to launch the next work than the device to run it",
    "stall": "the host does something else than launching",
}


def launch_queue(discussion: Discussion, question: Question) -> str:
    """How far the host is ahead of the device, and why the device is idle, on the rank named or the most idle one."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    joined = [view.rank.rank for view in profile.ranks if len(view.in_steps(view.launches["launch_row"].to_numpy()))]
    ranks = [rank for rank in question.ranks if rank in joined] if question.ranks else joined
    if not ranks:
        return NO_LAUNCHES
    idle = {rank: discussion.measure("device_idle_pct", rank=rank).value for rank in ranks}
    chosen = ranks if question.ranks else [max(ranks, key=lambda rank: idle[rank])]
    return blocks(_of_rank(discussion, rank) for rank in chosen)


def _of_rank(discussion: Discussion, rank: int) -> str:
    several = len(discussion.material.profile().ranks) > 1
    where = f" of rank {rank}" if several else ""
    idle = discussion.measure("device_idle_pct", rank=rank)
    rows = []
    shares = {reason: discussion.measure("device_idle_pct", rank=rank, reason=reason) for reason in REASONS}
    for reason in sorted(REASONS, key=lambda each: -shares[each].value):
        if shares[reason].value > 0:
            rows.append(discussion.say(f"{{0}}: {REASON_TEXTS[reason]}", shares[reason]))
    lead = discussion.say(f"The device{where} is idle for {{0}} of the step.", idle)
    return blocks([paragraph([lead, "By reason:"]) if rows else lead, bullets(rows), _queue(discussion, rank)])


def _queue(discussion: Discussion, rank: int) -> str:
    try:
        facts = [
            discussion.measure(name, rank=rank)
            for name in (
                "launches_per_step",
                "launch_queue_length",
                "empty_queue_pct",
                "launch_delay_us",
                "launch_interval_us",
                "launched_kernel_us",
            )
        ]
    except UsageError:
        return ""
    text = (
        "A step makes {0}. When a launch returns, {1} wait before it as the median, and {2} of the launches find "
        "nothing waiting. From a launch's return to the start of its work pass {3} as the median; the host launches "
        "every {4}, a typical kernel runs {5}."
    )
    return paragraph([discussion.say(text, *facts), _reading(facts[2].value, facts[4].value, facts[5].value)])


def _reading(empty_pct: float, interval_us: float, kernel_us: float) -> str:
    """What queue and kernels say together."""
    if empty_pct >= 50.0 and kernel_us < interval_us:
        return "So the host is the slower side: each kernel is done before the next one is launched."
    if empty_pct < 50.0:
        return "So the host is mostly ahead of the device: work waits in the queue when it is launched."
    return ""
