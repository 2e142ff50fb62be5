"""Answers from sampled counters of machines and devices: processors, swapping, disks, interfaces, adapters, heat.

Each states the figures of the samples next to what they are of; of totals that were read once, since when they count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, paragraph
from hermes_agent.questions.reading.question import Question
from tools.run.recorded.counters import COUNTERS
from tools.views.counters import counter_view

MOST_SHOWN = 8
# What asks for a reason, a fix or a part of the step is not answered by the state of a machine.
OTHERWISE = re.compile(
    r"\b(why|fix\w*|should|would|could|because|caus\w*|reasons?|steps?|kernels?|waiting|wait|slow\w*|bottleneck\w*|bound"
    r"|python|processes|offload\w*)\b"
)
PROCESSORS = r"(?<!tensor )(?<!cuda )(?<!ai )(?<!vector )(cpus?|processors?|cores?|host)"
CPU = re.compile(
    rf"^(?!.*\b(memory|ram)\b).*(\b{PROCESSORS}\b.*\b(busy|busier|load(ed)?|utili[sz]\w*|usage|used?|idle|full"
    rf"|saturated|steal|iowait)\b|\b(busy|loaded|idle|full|saturated|used|utili[sz]\w*)\b.*\b{PROCESSORS}\b"
    r"|\b(iowait|steal( time)?)\b)"
)
SWAP = re.compile(r"\b(swap\w*|paging|page(d|s) out)\b")
DISK = re.compile(
    r"\b(disks?|drives?|storage|nvme)\b.*\b(busy|loaded|idle|full|saturated|utili[sz]\w*|usage|used)\b"
    r"|\b(busy|loaded|saturated|idle|utili[sz]\w*)\b.*\b(disks?|drives?|storage|nvme)\b"
)
INTERFACE = re.compile(
    r"\b(interfaces?|nics?|network|ethernet|eth\d|adapters?|rdma|roce|ib|infiniband|packets?|links?)\b.*"
    r"\b(errors?|drop(s|ped)?|dropping|discard\w*|loss|los(e|es|t|ing)|retransmi\w*|pause|congest\w*|down)\b"
    r"|\b(errors?|drop(s|ped)?|dropping|discard\w*|los(e|es|t|ing)|retransmi\w*)\b.*"
    r"\b(interfaces?|nics?|network|ethernet|eth\d|adapters?|rdma|roce|ib|infiniband|packets?|links?)\b"
)
HEAT = re.compile(r"\b(too hot|overheat\w*|hot|heat|temperatures?|cool\w*)\b")
MEMORY = re.compile(r"\b(memory|vram)\b")
OF_DEVICE = re.compile(r"\b([gn]pus?|devices?|cards?|vram|accelerators?)\b")
ERRORS = ("interface_errors", "link_symbol_errors", "link_downed")
DROPS = ("interface_dropped",)
RDMA = (
    "rdma_completion_errors",
    "rdma_retransmissions",
    "rdma_timeouts",
    "rdma_out_of_sequence",
    "rdma_congestion_notices",
)
PAUSES = ("pause_frames_received", "pause_frames_sent")
OF_NETWORK = (
    (re.compile(r"\b(rdma|roce|ib|infiniband)\b"), (*RDMA, *ERRORS, *DROPS)),
    (re.compile(r"\b(errors?|down)\b"), ERRORS),
    (re.compile(r"\b(drop\w*|discard\w*|loss|los(e|es|t|ing))\b"), (*DROPS, "tcp_retransmitted_segments")),
    (re.compile(r"\bretransmi\w*"), (*RDMA, "tcp_retransmitted_segments")),
    (re.compile(r"\b(pause|congest\w*)\b"), (*PAUSES, "rdma_congestion_notices")),
)
CHECK = "communication.network_samples"
NAMED = re.compile(r"\b(errors?|rdma|roce|drop\w*|discard\w*|pause|congest\w*)\b")
ONCE = "These totals were read once: they count since the machine was started, not while the training ran."
SWAP_IN_USE = (
    "Of the machine's swap {0} is in use. Whether pages are moved while the training runs was not recorded: `vmstat 1`"
    " shows it in its columns si and so."
)
NO_AVAILABLE = "How much memory the machine has left was not recorded: `free -h` shows it."
NO_DEVICE = "These are figures of the machine's own memory; that of its devices was not recorded."
HOST_MEMORY = "memory.host_reports"
NO_LIMIT = "No limit of the device is in the samples; whether heat lowers its clock is shown by throttle reasons."


@dataclass(frozen=True)
class Sampled:
    """What is asked and what states it."""

    words: re.Pattern[str]
    answer: Callable[[Discussion, str], str]


def sampled_figure(discussion: Discussion, question: Question) -> str | None:
    """The figures that the samples of a run without a trace hold of what is asked; None where they hold none."""
    words = question.words
    asked = [each for each in ASKED if each.words.search(words)]
    if question.ids or question.ranks or not asked or OTHERWISE.search(words):
        return None
    profile = discussion.profile()
    if profile.traced or counter_view(profile) is None:
        return None
    return next((text for each in asked if (text := each.answer(discussion, words))), None)


def _processors(discussion: Discussion, _: str) -> str:
    shares = (
        ("cpu_busy_pct", "{} of the processor time is in use"),
        ("cpu_system_pct", "{} is spent in the kernel"),
        ("cpu_iowait_pct", "{} is idle while a disk works"),
        ("cpu_steal_pct", "{} goes to other virtual machines"),
        ("pressure_cpu_some_pct", "some process waits for a processor for {} of the time"),
    )
    return _shares(discussion, shares)


def _shares(discussion: Discussion, shares: tuple[tuple[str, str], ...]) -> str:
    known = [
        (text, fact)
        for counter, text in shares
        if (fact := discussion.measured("machine_counter_pct", counter=counter)) is not None
    ]
    if not known:
        return ""
    listed = ", ".join(text.format(f"{{{at}}}") for at, (text, _) in enumerate(known))
    return discussion.say(f"By the samples, on average: {listed}.", *(fact for _, fact in known))


def _swapping(discussion: Discussion, _: str) -> str:
    facts = [
        discussion.measured("machine_counter_mib_per_s", counter="swapped_bytes_per_s", statistic=each)
        for each in ("mean", "max")
    ]
    mean, most = facts
    if mean is None or most is None:
        used = discussion.measured("machine_counter_pct", counter="swap_used_pct", statistic="max")
        return "" if used is None else discussion.say(SWAP_IN_USE, used)
    lead = "No: the samples show {0} swapped in and out" if not most.value else "Swapped in and out by the samples: {0}"
    return discussion.say(f"{lead} on average, {{1}} at most.", mean, most)


def _disks(discussion: Discussion, _: str) -> str:
    view = counter_view(discussion.profile())
    own = None if view is None else view.machine("disk_busy_pct", None)
    if own is None or own.empty:
        return ""
    order = own.groupby("part")["value"].mean().sort_values(ascending=False)
    rows = []
    for part in map(str, order.index[:MOST_SHOWN]):
        busy = discussion.measured("machine_counter_pct", counter="disk_busy_pct", part=part)
        wait = discussion.measured("machine_counter_ms", counter="disk_wait_ms", part=part)
        text = "Disk {n0} has requests for {0} of the time" + (", {1} a request." if wait else ".")
        if busy is not None:
            rows.append(discussion.say(text, *(each for each in (busy, wait) if each is not None), names=(part,)))
    return rows[0] if len(rows) == 1 else bullets(rows)


def _network(discussion: Discussion, words: str) -> str:
    """Rises of the counters that are asked for, else their totals, and rates of interfaces."""
    wanted = [each for pattern, counters in OF_NETWORK if pattern.search(words) for each in counters]
    found = [each for each in discussion.diagnosis.checks if each.analyzer == CHECK and each.status == "found"]
    if found and not NAMED.search(words):  # the cause answers it
        return ""
    rows, once = [], False
    for counter in dict.fromkeys(wanted):
        label = COUNTERS[counter].label
        rise = discussion.measured("counted_rise", counter=counter)
        rate = _rate(discussion, f"{counter}_per_s")
        total = discussion.measured("counted_total", counter=counter)
        if rise is not None:
            rows.append(discussion.say(f"Between the readings, {label}: {{0}}.", rise))
        elif rate is not None:
            rows.append(rate)
        elif total is not None:
            once = True
            rows.append(discussion.say(f"In all, {label}: {{0}}.", total))
    if not rows:
        return ""
    shown = rows[0] if len(rows) == 1 else bullets(rows)
    return blocks([*(paragraph(each.text) for each in found), shown, ONCE if once else ""])


def _rate(discussion: Discussion, counter: str) -> str | None:
    """The mean rate of the interface or the machine that has the highest one."""
    view = counter_view(discussion.profile())
    own = None if view is None or counter not in COUNTERS else view.machine(counter, None)
    if own is None or own.empty:
        return None
    part = str(own.groupby("part")["value"].mean().idxmax())
    rate = discussion.measured("machine_counter_per_s", counter=counter, part=part)
    if rate is None:
        return None
    where = " on {n0}" if part else ""
    most = ", the most of any" if own["part"].nunique() > 1 else ""
    text = f"By the samples, {COUNTERS[counter].label}: {{0}} on average{where}{most}."
    return discussion.say(text, rate, names=(part,) if part else ())


def _heat(discussion: Discussion, words: str) -> str:
    """The highest temperature of the sampled devices, the hottest first."""
    view = counter_view(discussion.profile())
    names = [] if view is None or not OF_DEVICE.search(words) else list(view.devices)
    found = [
        (fact, name)
        for name in names
        if (
            fact := discussion.measured(
                "device_counter_c", counter="device_temperature_c", device=name, statistic="max"
            )
        )
    ]
    if not found:
        return ""
    found.sort(key=lambda each: -each[0].value)
    others = f" of the {len(found)} devices" if len(found) > 1 else ""
    second = f", the next one, device {found[1][1]}, {{1}}" if len(found) > 1 else ""
    text = f"The highest temperature{others} in the samples is {{0}}, of device {found[0][1]}{second}."
    said = discussion.say(text, *(fact for fact, _ in found[:2]))
    alike = [
        text
        for check in discussion.diagnosis.checks
        if check.analyzer in ("computation.devices_alike", "computation.clocks")
        for text in check.text
        if "look at its cooling" in text or "for heat" in text
    ]
    return blocks([said, *alike[:2], "" if alike else NO_LIMIT])


def _device_memory(discussion: Discussion, words: str) -> str:
    """The memory in use of each device, as far as the samples state it."""
    view = counter_view(discussion.profile())
    if not OF_DEVICE.search(words):
        return "" if view is None or view.devices else _host_memory(discussion)
    names = [] if view is None else list(view.devices)
    rows = []
    for name in names[:MOST_SHOWN]:
        known = [
            fact
            for unit, counter in (("gib", "device_memory_used_bytes"), ("pct", "device_memory_used_pct"))
            for statistic in ("mean", "max")
            if (
                fact := discussion.measured(f"device_counter_{unit}", counter=counter, device=name, statistic=statistic)
            )
        ]
        if known:
            own = " of its memory" if known[0].unit == "%" else " of memory"
            text = f"Device {name} holds {{0}}{own} on average, {{1}} at most"
            text += ", as a share {2} and {3}." if len(known) > 2 else "."
            rows.append(discussion.say(text, *known))
    return rows[0] if len(rows) == 1 else bullets(rows)


def _host_memory(discussion: Discussion) -> str:
    """The memory of a machine whose devices were not sampled, as far as its samples state it."""
    said = [text for each in discussion.diagnosis.checks if each.analyzer == HOST_MEMORY for text in each.text]
    swapped = "" if said else _swapping(discussion, "")
    if not said and not swapped:
        return ""
    left = discussion.measured("machine_counter_pct", counter="memory_available_pct", statistic="min")
    return paragraph([*said, swapped, NO_AVAILABLE if left is None else "", NO_DEVICE])


ASKED = (
    Sampled(CPU, _processors),
    Sampled(SWAP, _swapping),
    Sampled(DISK, _disks),
    Sampled(INTERFACE, _network),
    Sampled(HEAT, _heat),
    Sampled(MEMORY, _device_memory),
)
