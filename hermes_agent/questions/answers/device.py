"""Answers about work on device and host, and about the recording: devices, ranks, steps, layout and shapes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

import numpy as np

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import counted, plain, rank_list
from hermes_agent.questions.answers.named_lines import may_state
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, listed, paragraph, span, table
from hermes_agent.questions.reading.question import Question, wording
from tools.analyzers.communication.ascend_collectives import absent_ranks
from tools.analyzers.registry import check_of
from tools.analyzers.steps.output_warnings import out_of_memory
from tools.errors import UsageError
from tools.knowledge.name_patterns import COLLECTIVE_KINDS
from tools.metrics.idle import REASONS
from tools.metrics.instances import in_step_labels, kind_rows, own_time
from tools.views.communication.collectives import collectives
from tools.views.device.operator_cost import tensor_shapes
from tools.views.profile import Profile
from tools.views.steps.coarse import own_ms
from tools.views.training_seen import inference_name, work_seen
from tools.views.work import host_calls, kernel_work, names_by_time, step_kernels

LISTED = 5  # names in one table, files, operators with their shapes
RANKS_LISTED = 8
NEAREST, COMPARED = 3, 500  # names suggested for one that is unknown, of so many with most time
COLLECTIVE_NAMES = {kind: plain(kind).replace(" ", " ?") for kind, _ in COLLECTIVE_KINDS}
COLLECTIVE_COLUMNS = {"count": "per step", "ms": "sum per step", "busy_ms": "in wall time", "mean_ms": "mean of one"}
BY_RANK = re.compile(r"\b(by|per|each|every|all|across|over) (the )?ranks?\b|\bof (all|each|every) ranks?\b")
TYPES = re.compile(r"\] \[ ?\".*$", re.DOTALL)  # what follows the shapes in a label; some profilers write blanks
BYTES = re.compile(r"\b(bytes?|size|sizes|kb|mb|gb|[kmg]i?bytes?|volume|traffic|data)\b")
SAMPLED_MEMORY = ("memory.output_peak", "memory.snapshot", "memory.device_samples")
OUT_OF_MEMORY = re.compile(r"\b(oom|out of memory)\b")
UNNAMED = "of a kind that the trace does not name"


def top_kernels(discussion: Discussion, question: Question) -> str:
    """The kernels with most time per step: of the rank that was named, else as the mean over ranks."""
    if kernel_work(discussion.profile()).empty:
        return blocks([wording("no_kernels"), top_host_calls(discussion, question)])
    return blocks(_kernels(discussion, rank, _kernel_names(discussion, rank)) for rank in question.ranks or (None,))


def top_host_calls(discussion: Discussion, question: Question) -> str:
    """The host calls with most time of their own per step, on the rank that was named, else on the slowest."""
    ranks = question.ranks or (slowest_rank(discussion),)
    named = [(rank, _call_names(discussion, rank)) for rank in ranks]
    return blocks(blocks([_calls(discussion, *each), _in_loader(discussion, *each)]) for each in named)


def named_work(discussion: Discussion, question: Question) -> str | None:
    """Time and number of the kernels and calls named, None without a name; UsageError with the nearest names."""
    if not question.names:
        return None
    parts = []
    for rank in question.ranks or (None,):
        hosts = discussion.profile().run.rank_numbers if rank is None else (rank,)
        kernels, calls = _kernel_names(discussion, rank), {host: _call_names(discussion, host) for host in hosts}
        known = dict.fromkeys((*kernels, *(name for each in calls.values() for name in each)))
        wanted = {name for asked in question.names for name in _matching(list(known), asked)}
        if named := [name for name in kernels if name in wanted]:
            parts.append(_kernels(discussion, rank, named))
        own = {host: [name for name in each if name in wanted] for host, each in calls.items()}
        holding = [host for host, names in own.items() if names]
        parts += [_calls(discussion, host, own[host]) for host in holding[:RANKS_LISTED]]
        if holding and (without := [host for host in hosts if host not in holding]):
            parts.append(f"In the steps of {rank_list(without)} there is no such call.")
    return blocks(parts)


def collectives_by_kind(discussion: Discussion, question: Question) -> str:
    """Number, time and bytes per step of every kind of collective, or of the kind that was named; by rank if asked."""
    ranks: tuple[int | None, ...] = question.ranks or (None,)
    if not question.ranks and BY_RANK.search(question.words):
        ranks = discussion.profile().run.rank_numbers[:RANKS_LISTED]
    return blocks(_collectives(discussion, question.words, rank) for rank in ranks)


def no_collectives(discussion: Discussion) -> str:
    """A sentence with the count where the steps hold no collective at all; empty when they hold some."""
    if (collectives(discussion.profile())["step"] >= 0).any():
        return ""
    return discussion.say("There are no collectives in the recorded steps: {collective_count} per step.")


def launch_queue(discussion: Discussion, question: Question) -> str:
    """The host's lead over the device and the reasons of idle time, on the rank named or the most idle one."""
    views = discussion.profile().ranks
    joined = [view.rank.rank for view in views if len(view.in_steps(view.launches["launch_row"].to_numpy()))]
    ranks = [rank for rank in question.ranks or joined if rank in joined]
    if not ranks:
        return wording("no_launches")
    if not question.ranks:
        ranks = [max(ranks, key=lambda rank: discussion.measure("device_idle_pct", rank=rank).value)]
    return blocks(_idle(discussion, rank) for rank in ranks)


def how_busy(discussion: Discussion, question: Question) -> str:
    """Share of the step in which kernels run, and in which nothing runs, for each rank with a device; by samples where
    no trace was read."""
    if sampled := _sampled(discussion, "computation.device_use"):
        return sampled
    views = discussion.profile().ranks
    ranks = [view.rank.rank for view in views if view.rank.has_device]
    ranks = [rank for rank in ranks if not question.ranks or rank in question.ranks]
    if not ranks:
        return wording("no_busy_time")
    busy = {rank: discussion.measure("device_busy_pct", rank=rank).value for rank in ranks}
    shown = sorted(ranks, key=lambda rank: busy[rank])[:RANKS_LISTED]
    of_rank = {rank: f"of rank {rank} " if len(views) > 1 else "" for rank in shown}
    rows = [discussion.say(wording("busy_share").format(where=of_rank[rank]), rank=rank) for rank in shown]
    if len(ranks) == 1:
        return paragraph([*rows, wording("busy")])
    rest = "The other ranks are busier; name one to see it." if len(ranks) > RANKS_LISTED else ""
    lead = "The share of the step in which the device runs kernels, the least busy first:"
    return blocks([lead, bullets(rows), paragraph([rest, wording("busy")])])


def _sampled(discussion: Discussion, name: str) -> str:
    """What a check of sampled counters or of a snapshot says where no trace was read; else empty."""
    check = None if discussion.profile().traced else check_of(discussion.profile(), name)
    support = () if check is None else check.support or tuple(each for one in check.findings for each in one.details)
    return paragraph([discussion.say(each.template, *each.facts, names=each.names) for each in support])


def which_limit(discussion: Discussion, question: Question) -> str:
    """How busy the device is, and why it is idle; on a run without one a sentence that there is none."""
    if sampled := _sampled(discussion, "computation.device_use"):  # no trace shows what the device waits for
        return blocks([sampled, " ".join(discussion.diagnosis.answer)])
    if not discussion.profile().run.has_device:
        return wording("no_device") if discussion.profile().traced else ""
    return blocks([how_busy(discussion, question), launch_queue(discussion, question)])


def memory_peak(discussion: Discussion, question: Question) -> str:
    """Largest allocated and reserved device memory of each rank, the fullest first."""
    profile = discussion.profile()
    peaks = discussion.values("memory_peak_mib", question.ranks or discussion.ranks)
    sampled = [_sampled(discussion, name) for name in SAMPLED_MEMORY]
    if not peaks and any(sampled):
        return blocks(sampled)
    if not peaks and (said := _stated_memory(discussion)):
        return said
    if not peaks and not profile.traced and profile.run.job_log is not None:
        return paragraph([wording("memory_in_output"), may_state(discussion, "memory"), _no_oom(question)])
    if not peaks:
        unknown = wording("no_memory") if profile.traced else wording("no_memory_sampled")
        return paragraph([unknown, _no_oom(question)])
    rows = []
    for rank in sorted(peaks, key=lambda each: -peaks[each])[:RANKS_LISTED]:
        marks = discussion.measured("memory_unused_pct", rank=rank) is not None
        text = wording("peak") if marks else wording("memory_of_tables")
        text = text.format(where=f" on rank {rank}" if len(discussion.ranks) > 1 else "")
        share = discussion.measured("memory_used_pct", rank=rank)
        full = discussion.say("That is {0} of the device's memory.", share) if share is not None else ""
        rows.append(paragraph([discussion.say(text, rank=rank), full]))
    return rows[0] if len(rows) == 1 else blocks(["Device memory by rank, the fullest first:", bullets(rows)])


def _stated_memory(discussion: Discussion) -> str:
    """What the job's output says of memory that ran out, or was short; empty where it says nothing."""
    profile = discussion.profile()
    flushed = check_of(profile, "memory.output_flushes")
    said = [*out_of_memory(profile), *(() if flushed is None else (each.claim for each in flushed.findings))]
    return paragraph([discussion.say(each.template, *each.facts, names=each.names) for each in said])


def _no_oom(question: Question) -> str:
    return wording("no_oom") if OUT_OF_MEMORY.search(question.words) else ""


def slowest_rank(discussion: Discussion) -> int:
    """The rank with the longest step without exposed communication."""
    return int(str(own_ms(discussion.profile()).idxmax()))


def _kernel_names(discussion: Discussion, rank: int | None) -> list[str]:
    profile = discussion.profile()
    if rank is None:
        return [str(name) for name in kernel_work(profile).index]
    return names_by_time(profile.rank(rank), step_kernels(profile, rank))


def _call_names(discussion: Discussion, rank: int) -> list[str]:
    profile = discussion.profile()
    return names_by_time(profile.rank(rank), host_calls(profile, rank))


def _matching(known: Sequence[str], asked: str) -> list[str]:
    """The known names that are the one asked for, else those that hold it; an error with the nearest where none is."""
    low = asked.lower()
    if found := [name for name in known if name.lower() == low] or [name for name in known if low in name.lower()]:
        return found
    near = difflib.get_close_matches(asked, known[:COMPARED], NEAREST, cutoff=0.0)
    hint = f"the nearest names are {listed([quoted(name) for name in near])}" if near else "none has a name"
    raise UsageError(f"no kernel or host call in its steps is called {quoted(asked)}; {hint}")


def recorded_name(discussion: Discussion, rank: int, asked: str) -> str:
    """The recorded name that is asked for, of several the one with most time; UsageError with the nearest names."""
    return _matching([*_kernel_names(discussion, rank), *_call_names(discussion, rank)], asked)[0]


def _kernels(discussion: Discussion, rank: int | None, names: Sequence[str]) -> str:
    if not names:
        return f"No device kernel runs inside the steps of rank {rank}."
    of_rank = _of_rank(discussion, rank)
    lead = f"The kernels that run longest per step{of_rank}; kernels that overlap each count in full."
    prefix = "kernel_name" if rank is None else "rank_kernel"
    columns = {"per step": f"{prefix}_ms", "runs per step": f"{prefix}_count"}
    return blocks([lead, _by_name(discussion, columns, "kernel", names, rank)])


def _calls(discussion: Discussion, rank: int, names: Sequence[str]) -> str:
    if not names:
        return f"No host call of rank {rank} is recorded inside its steps. What it needs: ProfilerActivity.CPU."
    columns = {"per step": "host_own_ms", "calls per step": "host_own_count"}
    return blocks([wording("host_calls").format(rank=rank), _by_name(discussion, columns, "host call", names, rank)])


def _in_loader(discussion: Discussion, rank: int, names: Sequence[str]) -> str:
    """Which of the first calls spend most of their time inside the data loader: they make batches, not the model."""
    inside, most_pct = {}, discussion.profile().thresholds["call_in_loader_pct"]
    for name in names[:LISTED]:
        share = discussion.measured("call_phase_pct", rank=rank, name=name, phase="data")
        if share is not None and share.value >= most_pct:
            inside[name] = share
    rows = [discussion.say("{0} of the time of {n0}", share, names=(name,)) for name, share in inside.items()]
    return f"Inside the data loader, which makes the batches, is {listed(rows)}." if rows else ""


def _by_name(
    discussion: Discussion, columns: Mapping[str, str], what: str, names: Sequence[str], rank: int | None
) -> str:
    """A row with the figures of each name; ``columns`` are metrics by heading."""
    figure = discussion.figure
    rows = [
        [*(figure(each, name=name, rank=rank) for each in columns.values()), quoted(name)] for name in names[:LISTED]
    ]
    return table((*columns, what), rows)


def _of_rank(discussion: Discussion, rank: int | None) -> str:
    if rank is not None:
        return f" of rank {rank}"
    return " and rank" if len(discussion.profile().ranks) > 1 else ""


def _collectives(discussion: Discussion, words: str, rank: int | None) -> str:
    known, figure = collectives(discussion.profile()), discussion.figure
    known = known[(known["step"] >= 0) & (rank is None or known["rank"] == rank)]
    if known.empty:
        return no_collectives(discussion) or f"There are no collectives in the recorded steps of rank {rank}."
    spent = (known["end_ns"] - known["start_ns"]).groupby(known["kind"]).sum()
    kinds = [str(kind) for kind in spent.sort_values(ascending=False, kind="stable").index]
    wanted = next((kind for kind, name in COLLECTIVE_NAMES.items() if re.search(rf"\b{name}s?\b", words)), None)
    absent = wanted is not None and wanted not in kinds
    shown = kinds if wanted is None or absent else [wanted]
    sized = all((known.loc[known["kind"] == kind, "bytes"] >= 0).all() for kind in shown)
    columns = COLLECTIVE_COLUMNS | ({"bytes": "bytes per step"} if sized else {})
    rows = [
        [plain(kind) or UNNAMED, *(figure(f"collective_{each}", kind=kind, rank=rank) for each in columns)]
        for kind in shown
    ]
    none = f"There is no {plain(wanted or '')} in the recorded steps; there are these." if absent else ""
    of_rank = _of_rank(discussion, rank)
    lead = f"Collectives per step{of_rank}, the longest first; their time holds the waiting for stragglers."
    once = "Collectives of a rank that run at the same time each count in full in the sum, and once in wall time."
    bytes_text = wording("collective_bytes") if sized else wording("no_collective_bytes") if BYTES.search(words) else ""
    return blocks([paragraph([none, lead, once]), table(("kind", *columns.values()), rows), bytes_text])


def _idle(discussion: Discussion, rank: int) -> str:
    where = f" of rank {rank}" if len(discussion.profile().ranks) > 1 else ""
    shares = {reason: discussion.measure("device_idle_pct", rank=rank, reason=reason) for reason in REASONS}
    lead = discussion.say(
        f"The device{where} is idle for {{device_idle_pct}} of the step, {{device_idle_ms}}.", rank=rank
    )
    rows = [
        discussion.say(f"{{0}}: {wording(f'idle_{reason}')}", shares[reason])
        for reason in sorted(REASONS, key=lambda each: -shares[each].value)
        if shares[reason].value > 0
    ]
    return blocks([f"{lead} By reason:" if rows else lead, bullets(rows), _queue(discussion, rank)])


def _queue(discussion: Discussion, rank: int) -> str:
    """The launch queue in figures, and which side is slower; empty where no launch of the rank is known."""
    metrics = ("empty_queue_pct", "launch_interval_us", "launched_kernel_us")
    empty, interval, kernel = (discussion.measured(metric, rank=rank) for metric in metrics)
    if empty is None or interval is None or kernel is None:
        return ""
    reading = ""
    if empty.value < 50.0:
        reading = "So the host is mostly ahead of the device: work waits in the queue when it is launched."
    elif kernel.value < interval.value:
        reading = "So the host is the slower side: each kernel is done before the next one is launched."
    return paragraph([discussion.say(wording("queue"), rank=rank), reading])


def what_is_recorded(discussion: Discussion, _: Question) -> str:
    """Files, devices, ranks, steps, parallel layout and the operators' shapes."""
    run, profile = discussion.diagnosis.run, discussion.profile()
    ranks = _of_job(discussion, profile)
    settings = [quoted(f"{name}={value}") for name, value in run.layout.items() if value is not None]
    layout = f"Layout: {listed(settings) if settings else 'not recorded'}"
    unknown = wording("model_not_recorded")
    if not profile.traced:
        time = discussion.say("A step takes {series_step_ms:statistic=median} as the median")
        rows = bullets([ranks, time, layout])
        return blocks([f"No trace was read; this is what the records say of the run:\n{rows}", unknown])
    files = [quoted(source.path.rsplit("/", 1)[-1]) for source in run.sources if source.status != "excluded"]
    more = " and more files" if len(files) > LISTED else ""
    origin = f"Read from: {listed(files[:LISTED])}{more}" if files else ""
    steps = "Steps: none"
    if run.steps:
        time = discussion.say("{step_time_ms:statistic=median}")
        which = f"{capital(span('step', run.steps))} ({counted(len(run.steps), 'step')})"
        steps = f"{which}, marked by {plain(run.step_origin)}, with a median of {time}"
        if run.step_origin == "window":
            steps = f"Steps: none are marked; the whole recording takes {time}"
    rows = bullets([origin, _devices(run.devices, profile), ranks, steps, layout, _work(profile)])
    recorded = f"What the recording says of the run:\n{rows}"
    return blocks([recorded, unknown, _shapes(discussion)])


def _work(profile: Profile) -> str:
    """Whether a training step is recorded, where the traces show it."""
    match work_seen(profile):
        case "training":
            return "Work: a training, by a backward pass or an optimizer"
        case "inference":
            return f"Work: inference, by names such as {quoted(inference_name(profile))}"
        case "no training step":
            return "Work: neither a backward pass nor an optimizer is recorded"
    return ""


def _of_job(discussion: Discussion, profile: Profile) -> str:
    """The ranks that were recorded, and how many the job has where that is known or a group of it is larger."""
    known = discussion.ranks
    world = discussion.diagnosis.run.layout.get("world_size")
    log = profile.run.job_log
    if (
        not profile.traced and log is not None and not (log.ranks and log.ranks_stated)
    ):  # its lines speak for the whole job
        return f"A job of {counted(world, 'rank')} by its arguments" if isinstance(world, int) else ""
    if not known:
        return ""
    if world is None and profile.run.ascend is not None:
        world = len(known) + len(absent_ranks(profile))
    largest = max((len(group.ranks) for group in profile.run.layout.groups), default=0)
    if isinstance(world, int) and world > len(known):
        return f"{capital(rank_list(known))} of a job of {counted(world, 'rank')}"
    if largest > len(known):
        return f"{capital(rank_list(known))}; a process group of the job holds {counted(largest, 'rank')}"
    return capital(rank_list(known))


def _devices(names: list[str], profile: Profile) -> str:
    if names:
        return f"Devices: {listed([quoted(name) for name in names])}"
    return f"Device: {'not named in the trace' if profile.run.has_device else 'none, no work on a device is recorded'}"


def _shapes(discussion: Discussion) -> str:
    """The operators with their input shapes that take most own time per step, on the first rank that recorded any."""
    for view in discussion.profile().ranks:
        rank = view.rank.rank
        known = _shapes_by_time(discussion.profile(), rank)[:LISTED]
        facts = [discussion.measure("events_ms", rank=rank, by="shape", name=each, kind="operator") for each in known]
        rows = [
            discussion.say("{n0} on {n1}, {0} per step", fact, names=operator_and_shapes(label))
            for label, fact in zip(known, facts, strict=True)
        ]
        if rows:
            where = f" on rank {rank}" if len(discussion.profile().ranks) > 1 else ""
            return blocks([f"Shapes seen{where}, the operators with most time of their own first:", bullets(rows)])
    return wording("no_shapes")


def _shapes_by_time(profile: Profile, rank: int) -> list[str]:
    """Labels of operator and shapes (``aten::mm [[2, 3], [3, 4]] ["float", "float"]``), most own time first."""
    rows, known = in_step_labels(profile, rank, "shape", "operator")
    own = own_time(profile, rank, "operator")[np.searchsorted(kind_rows(profile, rank, "operator"), rows)]
    total = np.bincount(known.codes, weights=own, minlength=len(known.texts))
    longest = (known.texts[code] for code in np.argsort(-total, kind="stable"))
    return [label for label in longest if operator_and_shapes(label)[1]]


def operator_and_shapes(label: str) -> tuple[str, str]:
    """``aten::mm`` and ``32x1000, 1000x2048`` of a label with recorded shapes and types; the types are left out."""
    name, _, rest = label.partition(" [")
    return name, dims_text("[" + TYPES.sub("]", rest, count=1))


def dims_text(dims: str) -> str:
    """``64x3x224x224, 64x3x7x7``; empty without a tensor that has dimensions."""
    return ", ".join("x".join(str(size) for size in shape) for shape in tensor_shapes(dims) if shape)
