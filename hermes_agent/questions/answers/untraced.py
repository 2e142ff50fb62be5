"""Answers about one part of a run without a trace: what its records state of it, else the one recording that would."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hermes_agent.evidence.citations import cited_ids, without_citations
from hermes_agent.questions.answers.sampled_figures import CPU
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, listed, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.errors import UsageError
from tools.judgement.wanted_source import recorded_already
from tools.knowledge.recordings import Recording, next_recording
from tools.knowledge.timer_names import communicates, fetches_batches
from tools.metrics.recorded.job_tables import step_timers
from tools.views.profile import Profile

SHOWN = 3  # timers of a part
NEEDS = re.compile(r"\s*What it needs: [^\n]*")
REASON = re.compile(r"^(?:why|which|who)\b")


@dataclass(frozen=True)
class Part:
    """A part of a run: the words that name it, the checks that state figures of it, the names of timers of it, and the
    recordings that would state it, the cheapest first."""

    words: re.Pattern[str]
    checks: tuple[str, ...]
    timers: Callable[[str], bool] | None
    recordings: tuple[str, ...]
    holds: re.Pattern[str] = re.compile(r"")  # what a sentence of the checks has to hold


def _words(*either: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(either)})\b")


def _named(pattern: str) -> Callable[[str], bool]:
    """Whether the name of a timer holds the pattern."""
    return lambda name: re.search(pattern, name) is not None


DEVICES = r"(gpu|device|npu|card|accelerator)s?"
PARTS = (
    Part(
        _words(
            r"(data|input|batch) ?(load\w*|wait\w*|pipeline|fetch\w*|starv\w*|time|share|bound|stalls?)|data ?loaders?",
            r"starv\w*|(wait\w*|spent) (for|on) (the )?(data|input|batch\w*)|load\w* (the |a |of )?(data|batch\w*)",
            r"batch(es)? .*\bload|(go|goes|lost) (to|on|for|in|into) (the )?(data|input|loading)",
        ),
        ("io.data_loader", "io.output_table"),
        fetches_batches,
        ("stacks", "monitor"),
        re.compile(r"(?i)data|batch"),
    ),
    Part(
        _words(
            r"throttl\w*|(sm |gpu |core )?clocks?|overheat\w*|thermal\w*|temperatures?|too hot|slow (gpu|device)",
        ),
        ("computation.clocks", "computation.slow_device"),
        None,
        ("utilization",),
        re.compile(r"(?i)clock|power|heat|temperature"),
    ),
    Part(
        _words(
            rf"{DEVICES} (\d+ )?(is |are |be )?(so |mostly |often |well |fully )?(busy|idle|used?|usage|utili[sz]\w*)",
            r"utili[sz]ation",
            rf"(busy|idle|utili[sz]ed) (are|is) (the |my |our |all )?{DEVICES}",
        ),
        ("computation.device_use", "computation.devices_alike", "computation.device_instances"),
        None,
        ("utilization",),
    ),
    Part(
        _words(r"network|infiniband|ethernet|nics?|rdma|interconnect|nvlink|links? (speed|slow)"),
        (
            *("communication.library_log", "communication.library_warnings", "communication.network_samples"),
            *("communication.inspector_bandwidth", "communication.link_reports"),
        ),
        None,
        ("output", "bandwidth", "host_counters"),
    ),
    Part(
        _words(
            r"all ?reduces?|reduce ?scatters?|all ?gathers?|all ?to ?alls?|broadcasts?|communicat\w*|collectives?|nccl",
            r"grad\w* (sync\w*|reduc\w*|exchange)|sync\w* (of )?grad\w*",
        ),
        ("communication.exposed", "computation.output_operators"),
        communicates,
        ("trace",),
        re.compile(r"(?i)communicat|collective|nccl|hccl|reduce|gather"),
    ),
    Part(_words(r"forward( pass)?|fwd"), (), _named(r"(?i)\Aforward|\bfwd\b|forward[-_ ]compute"), ("trace",)),
    Part(
        _words(r"backward( pass)?|bwd|backprop\w*"),
        (),
        _named(r"(?i)\Abackward|\bbwd\b|backward[-_ ]compute"),
        ("trace",),
    ),
    Part(_words(r"optimi[sz]er|weight update"), (), _named(r"(?i)optimizer|\Astep\Z"), ("trace",)),
    Part(
        _words(r"sav(e|es|ing)|checkpoint\w*"),
        ("storage.periodic_stall", "storage.step_writes", "storage.host_save"),
        _named(r"(?i)save|checkpoint"),
        ("monitor",),
        re.compile(r"(?i)sav|checkpoint|state"),
    ),
    Part(
        CPU,
        ("cpu.machine_samples", "cpu.contention"),
        None,
        ("host_counters", "monitor"),
    ),
    Part(
        _words(
            r"(cpu|host) ?(bound|limited|bottleneck\w*|overhead)|(limited|held up|bound) by the (cpu|host)",
            r"python overhead",
        ),
        ("cpu.sampled_stacks", "cpu.machine_samples"),
        None,
        ("stacks", "trace"),
    ),
)


@dataclass(frozen=True)
class PartAnswer:
    """What is answered of a part, and whether the records state anything of it."""

    text: str
    stated: bool


def part_of(question: Question) -> Part | None:
    """The part of a run that a question is about; None where it names none."""
    if question.ids or question.names:
        return None
    return next((each for each in PARTS if each.words.search(question.words)), None)


def of_part(discussion: Discussion, question: Question, text: str, lacking: bool) -> PartAnswer | None:
    """What the records of a run without a trace state of the part that is asked about, by their checks and timers;
    where they state nothing ``text`` with the cheapest recording that would. None where no part is named or a trace was
    read, and for a text with figures but where these are ``lacking`` what was asked, or it names several recordings.
    """
    part = part_of(question)
    answered = bool(cited_ids(text)) and not lacking
    if part is None or (answered and len(NEEDS.findall(text)) < 2):
        return None
    profile = discussion.profile()
    if profile.traced or profile.run.ascend is not None:
        return None
    stated = blocks([_by_checks(discussion, part), _by_timers(discussion, part)])
    if cited_ids(stated) and not answered:
        why = " ".join(discussion.diagnosis.answer) if REASON.search(question.words) else ""
        return PartAnswer(blocks([stated, why if not set(cited_ids(why)) & set(cited_ids(stated)) else ""]), True)
    wanted = next_recording(part.recordings, recorded_already(profile))
    if wanted is None:
        return None
    timers = "" if part.timers is None else text.partition("\n\n")[2]  # those of a step say nothing of a device
    known = timers if lacking else NEEDS.sub("", text)
    if lacking and REASON.search(question.words):
        known = " ".join(discussion.diagnosis.answer)
    return PartAnswer(blocks([wording("part_unstated") if lacking else "", known, _needed(wanted)]), False)


def _needed(wanted: Recording) -> str:
    return f"What it needs: {wanted.do}. It shows {wanted.shows}."


def _by_checks(discussion: Discussion, part: Part) -> str:
    """The sentences with figures of the checks of a part that were answered."""
    own = [each for name in part.checks for each in discussion.diagnosis.checks if each.analyzer == name]
    return blocks(
        paragraph(each for each in check.text if cited_ids(each) and part.holds.search(without_citations(each)))
        for check in own
        if check.status in ("found", "clean")
    )


def _by_timers(discussion: Discussion, part: Part) -> str:
    """The job's own timers of a part, the longest first."""
    names = [] if part.timers is None else [name for name in _timers(discussion.profile()) if part.timers(name)]
    known = {name: discussion.measure("timer_pct", name=name) for name in names}
    rated = sorted(known, key=lambda name: -known[name].value)[:SHOWN]
    if not rated:
        return ""
    parts = listed([f"{{{at}}} in {{n{at}}}" for at in range(len(rated))])
    several = " Timers may contain one another." if len(rated) > 1 else ""
    text = f"By the job's timers a step spends {parts}.{several}"
    return discussion.say(text, *(known[name] for name in rated), names=tuple(rated))


def _timers(profile: Profile) -> list[str]:
    if profile.run.job_log is None:
        return []
    try:
        return sorted(step_timers(profile))
    except UsageError:
        return []
