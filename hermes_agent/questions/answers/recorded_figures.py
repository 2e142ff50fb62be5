"""Answers from a job's output, samples and stacks where no trace was read: operators, memory, bandwidth, device state.

What these hold is in the text of their checks; it answers a question for a figure that only traces give otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_agent.evidence.citations import without_citations
from hermes_agent.questions.answers.certainty import check_text
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, listed, paragraph
from hermes_agent.questions.reading.asked import LEAST, MOST
from hermes_agent.questions.reading.question import Question
from tools.findings import Fact
from tools.views.counters import counter_view

RECORDED = "recorded"  # the kind of these answers
MOST_DEVICES = 8


@dataclass(frozen=True)
class RecordedFigure:
    """What is asked, the checks whose text has it, and what a sentence of that text has to hold."""

    words: re.Pattern[str]
    checks: tuple[str, ...]
    holds: re.Pattern[str] = re.compile(r"\d")
    without_steps: bool = False  # where steps are known, they answer it


FIGURES = (
    RecordedFigure(
        re.compile(
            r"\b(how (often|many)|number of)\b.*\b(cuda ?malloc|retr(y|ies)|ooms?|out of memory|(cache )?flush\w*)\b"
        ),
        ("step_time.output", "memory.output_flushes"),
        re.compile(r"memory|cache|cudaMalloc"),
    ),
    RecordedFigure(
        re.compile(
            r"\bdominat\w*"
            r"|\b(which|what|top|list|longest|slowest|most expensive)\b.*"
            r"\b(operators?|ops|kernels?|functions?|calls?)\b"
        ),
        ("computation.output_operators", "step_time.profile_tables", "cpu.sampled_stacks"),
    ),
    RecordedFigure(
        re.compile(
            r"\b(cop(y|ies|ying)|transfers?|memcpy|htod|dtoh)\b(?=.*\b(host|device|gpu|cpu|htod|dtoh|memcpy)\b)"
        ),
        ("computation.output_operators", "step_time.profile_tables"),
        re.compile(r"(?i)memcpy|cop(y|ies)\b|HtoD|DtoH"),
    ),
    RecordedFigure(
        re.compile(
            r"^where (does|do|did|is)(?!.*\b(host|cpu|program)\b) .*\btime\b"
            r"|^what (takes|uses|costs|needs) .*\btime\b"
        ),
        ("computation.output_operators", "step_time.profile_tables", "cpu.sampled_stacks"),
        without_steps=True,
    ),
    RecordedFigure(
        re.compile(
            r"\bhow (much|full)\b.*\bmemory\b(?!.*\b(host|cpu|ram)\b)|\b(memory|vram) (use|used|usage|in use)\b"
        ),
        ("memory.output_peak", "memory.device_samples"),
    ),
    RecordedFigure(
        re.compile(
            r"\b(what|which|how (much|high|good|fast)) .*\b(bandwidth|bus ?bw|alg ?bw)\b(?! (contention|bound))"
        ),
        ("communication.library_log", "communication.inspector_bandwidth", "communication.network_samples"),
        re.compile(r"\dB?/s|\d ?[KMGT]?i?B/s|\d ?[kMG]?bit/s"),
    ),
)
# What tables of an Ascend profiler hold, also next to its timeline.
OF_NPU = (
    (re.compile(r"\bai ?cpus?\b|\baicpus?\b"), "computation.ai_cpu"),
    (
        re.compile(
            r"\btrans ?data\b|\b(formats?|layouts?|types?)\b.*\bconver\w+|\bconver\w+\b.*\b(formats?|layouts?|types?)\b"
        ),
        "computation.conversion",
    ),
    (
        re.compile(
            r"\b(cube|vector|matrix|mte\d?|mac|aic|aiv) (units?|cores?|util\w*|ratios?)\b|\bai cores?\b"
            r"|\b(compute|memory)[ -]bound\b.*\b(operators?|ops|kernels?)\b"
            r"|\b(operators?|ops|kernels?)\b.*\b(compute|memory)[ -]bound\b|\bwhich units?\b.*\bbounds?\b"
        ),
        "computation.units",
    ),
)
COMMUNICATION = re.compile(
    r"\b(how (much|long)|time|share|percent\w*|fraction)\b.*\b(communication|communicating|hccl|collectives)\b"
    r"|\b(communication|hccl) (time|share|percent\w*)\b"
)
OF_ELSE = re.compile(
    r"\b(why|fix\w*|would|could|should|if|kernels?|forward|backward|bytes|volume|wait\w*|longest|steps? \d|save\w*"
    r"|tp|dp|parallel\w*|all (reduce|gather|to)|reduce|broadcast|retransmi\w*|bandwidth|bring|faster)\b"
)
MOST_RANKS = 16
STATE = re.compile(r"\b(power|watts?|temperatures?|hot\w*|heat|cool\w*|sm clocks?|clocks?|mhz)\b")
MEMORY = re.compile(r"\b(memory|vram)\b")
HOST_MEMORY = re.compile(r"\b(host|cpu|ram|pinned)\b")
WHICH = re.compile(r"\b(which|what) (of the )?([gn]pus?|devices?|cards?|accelerators?|ranks?)\b")
NO_FIGURE = re.compile(
    r"\b(skew|offset|align\w*|limit|throttl\w*|governor|sync\w*)\b|^(is|are|could|can|why|does|do)\b"
)
COUNTERS = {
    "power": ("w", "device_power_w", re.compile(r"\b(power|watts?)\b")),
    "temperature": ("c", "device_temperature_c", re.compile(r"\b(temperatures?|hot\w*|heat|cool\w*)\b")),
    "SM clock": ("mhz", "device_clock_mhz", re.compile(r"\b(sm clocks?|clocks?|mhz)\b")),
    "memory in use": ("gib", "device_memory_used_bytes", MEMORY),
    "share of its memory in use": ("pct", "device_memory_used_pct", MEMORY),
}


def recorded_figure(discussion: Discussion, question: Question) -> str | None:
    """The answer from the records of a run without a trace; None where these do not hold what is asked."""
    asked = [each for each in FIGURES if each.words.search(question.words)]
    memory = MEMORY.search(question.words) and not HOST_MEMORY.search(question.words)
    of_place = memory and (question.ranks or WHICH.search(question.words))
    state = (STATE.search(question.words) or of_place) and not NO_FIGURE.search(question.words)
    communication = COMMUNICATION.search(question.words) and not OF_ELSE.search(question.words)
    tabled = next((name for words, name in OF_NPU if words.search(question.words)), "")
    if question.ids or not (asked or state or communication or tabled):  # nothing is read of the run for it
        return None
    profile = discussion.profile()
    if tabled and (text := _of_npu(discussion, tabled)):
        return text
    if profile.traced:
        return None
    if communication and (text := _communication(discussion, question)):
        return text
    if of_place and state and (text := _device_state(discussion, question)):
        return text
    for each in asked:
        if (not each.without_steps or not profile.measured) and (text := _of_checks(discussion, each)):
            return text
    return _device_state(discussion, question) or None if state else None


def _of_npu(discussion: Discussion, name: str) -> str:
    """What a check of the tables of an Ascend profiler says; empty where none were read."""
    record = discussion.profile().run.ascend
    if record is None or record.kernels.empty:
        return ""
    return next((check_text(each) for each in discussion.diagnosis.checks if each.analyzer == name), "")


def _of_checks(discussion: Discussion, figure: RecordedFigure) -> str:
    """The sentences of the checks that hold such a figure, a paragraph for each check."""
    texts = {each.analyzer: each.text for each in discussion.diagnosis.checks}
    own = (
        [text for text in texts.get(name, []) if figure.holds.search(without_citations(text))] for name in figure.checks
    )
    return blocks(map(paragraph, own))


def _device_state(discussion: Discussion, question: Question) -> str:
    """Power, temperature, clock or memory of the sampled devices, those that are named or all: mean and range over the
    readings, after the one with most or least where that is asked; empty where no device was sampled so."""
    view = counter_view(discussion.profile())
    known = [] if view is None else list(view.devices)
    named = [str(number) for number in question.ranks]
    wanted = [name for name in known if not named or name.split()[0] in named]
    rows = []
    for title, (unit, counter, words) in COUNTERS.items():
        if words.search(question.words):
            found = _levels(discussion, wanted or known, unit, counter)
            if found and not wanted:
                return f"The samples hold no device {listed(named, 'or')}; they hold {listed(known[:MOST_DEVICES])}."
            rows += [_extreme(discussion, question, title, found), *_each(discussion, title, found)]
    rows = [row for row in rows if row]
    return rows[0] if len(rows) == 1 else bullets(rows)


def _communication(discussion: Discussion, question: Question) -> str:
    """Communication per step of each rank by the account that an Ascend profiler writes; empty where there is none."""
    record = discussion.profile().run.ascend
    if record is None or record.steps.empty:
        return ""
    known = sorted({int(rank) for rank in record.steps["rank"]})
    ranks = [rank for rank in known if not question.ranks or rank in question.ranks]
    text = (
        "Rank {rank}: {{account_ms:part=exposed_communication}} of communication per step that no compute overlaps, "
        "{{account_pct:part=exposed_communication}} of {{account_ms:part=stage}}"
    )
    text += "." if record.steps["overlapped_ms"].isna().any() else "; {{account_ms:part=overlapped}} more overlap."
    rows = [discussion.say(text.format(rank=rank), rank=rank) for rank in ranks[:MOST_RANKS]]
    rest = "Name another rank to see it." if len(ranks) > MOST_RANKS else ""
    lead = "By the profiler's own account (step_trace_time), waiting for other ranks included:"
    return blocks([lead, bullets(rows), rest]) if rows else ""


def _levels(discussion: Discussion, names: list[str], unit: str, counter: str) -> dict[str, list[Fact]]:
    """Mean, least and most reading of the counter by device, of those that have it."""
    found = {}
    for name in names:
        given = {"counter": counter, "device": name}
        facts = [
            discussion.measured(f"device_counter_{unit}", **given, statistic=each) for each in ("mean", "min", "max")
        ]
        if len(measured := [each for each in facts if each is not None]) == len(facts):
            found[name] = measured
    return found


def _each(discussion: Discussion, title: str, found: dict[str, list[Fact]]) -> list[str]:
    """A sentence for each of the first devices."""
    text = "Device {0}, {1}: {{0}} on average, {{1}} to {{2}}."
    return [
        discussion.say(text.format(name, title), *facts)
        if facts[1].value != facts[2].value
        else discussion.say(f"Device {name}, {title}: {{0}} at all readings.", facts[0])
        for name, facts in list(found.items())[:MOST_DEVICES]
    ]


def _extreme(discussion: Discussion, question: Question, title: str, found: dict[str, list[Fact]]) -> str:
    """The device with the most or the least on average, where one is asked for and several were sampled."""
    least = bool(LEAST.search(question.words) or re.search(r"\bcool\w*", question.words))
    most = bool(MOST.search(question.words) or re.search(r"\bhot\w*", question.words))
    if len(found) < 2 or not WHICH.search(question.words) or not (least or most):
        return ""
    order = sorted(found, key=lambda name: found[name][0].value if least else -found[name][0].value)
    if found[order[0]][0].value == found[order[1]][0].value:
        return f"No single device has the {'lowest' if least else 'highest'} {title} on average."
    text = f"Device {order[0]} has the {'lowest' if least else 'highest'} {title} of {len(found)} devices, {{0}} on"
    return discussion.say(
        f"{text} average; next is device {order[1]} with {{1}}.", *(found[each][0] for each in order[:2])
    )
