"""Work on the device and the host: kernels, calls, collectives, launch queue, utilization and memory."""

from __future__ import annotations

import re

from hermes_agent.model.display import plain
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, paragraph, table
from hermes_agent.questions.question import Question
from hermes_agent.questions.recording import no_such_rank
from tools.errors import UsageError
from tools.knowledge.name_patterns import COLLECTIVE_KINDS
from tools.metrics.idle import REASONS
from tools.views.coarse import own_ms
from tools.views.collectives import collectives
from tools.views.host_calls import host_calls, names_by_time, step_kernels
from tools.views.profile import Profile
from tools.views.work import kernel_work

LISTED = 5
NO_DEVICE = (
    "No device kernel runs inside the recorded steps, so there is none to rank; “What are the top host calls?” lists "
    "what the host does. What it needs: a trace with device activity, on a run that uses a device."
)


def top_kernels(discussion: Discussion, question: Question) -> str:
    """The kernels with most time per step: of the rank that was named, else as the mean over ranks."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    if kernel_work(profile).empty:
        return NO_DEVICE
    return blocks(_listed(discussion, rank) for rank in (question.ranks or (None,)))


def _listed(discussion: Discussion, rank: int | None) -> str:
    profile = discussion.material.profile()
    if rank is None:
        names = [str(name) for name in kernel_work(profile).index]
        where, metrics = {}, ("kernel_name_ms", "kernel_name_count")
    else:
        names = names_by_time(profile.rank(rank), step_kernels(profile, rank))
        where, metrics = {"rank": rank}, ("rank_kernel_ms", "rank_kernel_count")
    rows = []
    for name in names[:LISTED]:
        facts = [discussion.measure(metric, name=name, **where) for metric in metrics]
        rows.append(
            [discussion.say("{0}", facts[0]), discussion.say("{0}", facts[1]), discussion.say("{n0}", names=(name,))]
        )
    if not rows:
        return f"No device kernel runs inside the steps of rank {rank}."
    scope = f" of rank {rank}" if rank is not None else " and rank" if len(profile.ranks) > 1 else ""
    lead = f"The kernels that run longest per step{scope}; kernels that overlap each count in full."
    return blocks([lead, table(("per step", "runs per step", "kernel"), rows)])


CALLS_LISTED = 5


def top_host_calls(discussion: Discussion, question: Question) -> str:
    """The host calls with most time of their own per step, on the rank that was named, else on the slowest."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    ranks = question.ranks or (int(str(own_ms(profile).idxmax())),)
    return blocks(_calls_listed(discussion, rank) for rank in ranks)


def _calls_listed(discussion: Discussion, rank: int) -> str:
    profile = discussion.material.profile()
    names = names_by_time(profile.rank(rank), host_calls(profile, rank))
    if not names:
        return f"No host call of rank {rank} is recorded inside its steps. What it needs: ProfilerActivity.CPU."
    rows = []
    for name in names[:CALLS_LISTED]:
        facts = [discussion.measure(metric, rank=rank, name=name) for metric in ("host_own_ms", "host_own_count")]
        rows.append(
            [discussion.say("{0}", facts[0]), discussion.say("{0}", facts[1]), discussion.say("{n0}", names=(name,))]
        )
    lead = (
        f"What the training threads of rank {rank} spend most time in, calls inside a call not counted with it. "
        "A call that waits for the device counts its waiting."
    )
    return blocks([lead, table(("per step", "calls per step", "host call"), rows)])


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


RANKS_TOLD = 8
UTILISATION_NO_DEVICE = (
    "No work on a device is recorded, so there is no utilization to tell. "
    "What it needs: a trace with device activity, on a run that uses a device."
)
MEANING = (
    "Busy means that some kernel runs, however little of the device it fills; "
    "it is what nvidia-smi and the TensorBoard plugin call utilization."
)


def how_busy(discussion: Discussion, question: Question) -> str:
    """Share of the step in which kernels run, and in which nothing runs, for each rank with a device."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    ranks = [view.rank.rank for view in profile.ranks if view.rank.has_device]
    ranks = [rank for rank in ranks if not question.ranks or rank in question.ranks]
    if not ranks:
        return UTILISATION_NO_DEVICE
    busy = {rank: discussion.measure("device_busy_pct", rank=rank) for rank in ranks}
    ranks.sort(key=lambda rank: busy[rank].value)
    told = [_utilisation_of_rank(discussion, rank, several=len(profile.ranks) > 1) for rank in ranks[:RANKS_TOLD]]
    if len(ranks) == 1:
        return paragraph([*told, MEANING])
    rest = "The other ranks are busier; name one to see it." if len(ranks) > RANKS_TOLD else ""
    return blocks(
        [
            "The share of the step in which the device runs kernels, the least busy first:",
            bullets(told),
            paragraph([rest, MEANING]),
        ]
    )


def _utilisation_of_rank(discussion: Discussion, rank: int, *, several: bool) -> str:
    where = f"of rank {rank} " if several else ""
    facts = (discussion.measure("device_busy_pct", rank=rank), discussion.measure("device_idle_pct", rank=rank))
    return discussion.say(f"The device {where}runs kernels for {{0}} of the step, and is idle for {{1}}.", *facts)


MEMORY_RANKS_TOLD = 8
NEEDS = (
    "The trace records no device memory totals, so the peak cannot be told. "
    "What it needs: a recording with `profile_memory=True`."
)


def memory_peak(discussion: Discussion, question: Question) -> str:
    """Largest allocated and reserved device memory of each rank, the fullest first."""
    profile = discussion.material.profile()
    if refusal := no_such_rank(discussion, question):
        return refusal
    peaks = {rank: _peak(discussion, rank) for rank in question.ranks or profile.run.rank_numbers}
    known = sorted((rank for rank, peak in peaks.items() if peak is not None), key=lambda rank: -(peaks[rank] or 0.0))
    if not known:
        return NEEDS
    told = [_memory_of_rank(discussion, profile, rank) for rank in known[:MEMORY_RANKS_TOLD]]
    return told[0] if len(told) == 1 else blocks(["Device memory by rank, the fullest first:", bullets(told)])


def _peak(discussion: Discussion, rank: int) -> float | None:
    try:
        return discussion.measure("memory_peak_mib", rank=rank).value
    except UsageError:
        return None


def _memory_of_rank(discussion: Discussion, profile: Profile, rank: int) -> str:
    facts = [discussion.measure("memory_peak_mib", rank=rank, what=what) for what in ("allocated", "reserved")]
    facts.append(discussion.measure("memory_unused_pct", rank=rank))
    where = f" on rank {rank}" if len(profile.ranks) > 1 else ""
    text = (
        f"At most {{0}} of device memory are allocated{where}, and {{1}} are held by the allocator; "
        "at the peak {2} of what it holds is not in use."
    )
    return paragraph([discussion.say(text, *facts), _full(discussion, rank)])


def _full(discussion: Discussion, rank: int) -> str:
    try:
        return discussion.say("That is {0} of the device's memory.", discussion.measure("memory_used_pct", rank=rank))
    except UsageError:
        return ""


NAMES = {kind: plain(kind).replace(" ", " ?") for kind, _ in COLLECTIVE_KINDS}
UNNAMED = "of a kind the trace does not tell"


def by_kind(discussion: Discussion, question: Question) -> str:
    """Number and time per step of every kind of collective, or of the kind that was named."""
    if refusal := no_such_rank(discussion, question):
        return refusal
    return blocks(_collectives_listed(discussion, question, rank) for rank in (question.ranks or (None,)))


def none_recorded(discussion: Discussion) -> str:
    """That the steps hold no collective at all, with the count; empty when they hold some."""
    table_of = collectives(discussion.material.profile())
    if (table_of["step"] >= 0).any():
        return ""
    fact = discussion.measure("collective_count")
    return discussion.say("There are no collectives in the recorded steps: {0} per step.", fact)


def asked_kind(words: str) -> str | None:
    """The kind of collective that normalised words name; the longer names hold the shorter ones."""
    return next((kind for kind, name in NAMES.items() if re.search(rf"\b{name}s?\b", words)), None)


def _collectives_listed(discussion: Discussion, question: Question, rank: int | None) -> str:
    profile = discussion.material.profile()
    known = collectives(profile)
    known = known[known["step"] >= 0]
    known = known if rank is None else known[known["rank"] == rank]
    if known.empty:
        return none_recorded(discussion) or f"There are no collectives in the recorded steps of rank {rank}."
    spent = (known["end_ns"] - known["start_ns"]).groupby(known["kind"]).sum()
    kinds = [str(kind) for kind in spent.sort_values(ascending=False, kind="stable").index]
    wanted = asked_kind(question.words)
    absent = (
        f"There is no {plain(wanted)} in the recorded steps; there are these." if wanted and wanted not in kinds else ""
    )
    rows = [_row(discussion, kind, rank) for kind in kinds if wanted in (None, kind) or absent]
    whose = f" of rank {rank}" if rank is not None else " and rank" if len(profile.ranks) > 1 else ""
    lead = f"Collectives per step{whose}, the longest first; their time holds the waiting for late ranks."
    return blocks([paragraph([absent, lead]), table(("kind", "per step", "time per step", "mean of one"), rows)])


def _row(discussion: Discussion, kind: str, rank: int | None) -> list[str]:
    where = {} if rank is None else {"rank": rank}
    metrics = ("collective_count", "collective_ms", "collective_mean_ms")
    cells = [discussion.say("{0}", discussion.measure(metric, kind=kind, **where)) for metric in metrics]
    return [plain(kind) or UNNAMED, *cells]
