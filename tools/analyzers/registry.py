"""The explicit list of analyzers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tools.analyzers import untraced
from tools.analyzers.communication import checks as communication
from tools.analyzers.communication import retransmission, uneven_work
from tools.analyzers.computation import checks as computation
from tools.analyzers.cpu import checks as cpu
from tools.analyzers.cpu import contention, garbage_collection
from tools.analyzers.io import data_wait as io
from tools.analyzers.memory import allocation as memory
from tools.analyzers.memory import page_faults
from tools.analyzers.overlap import critical_path, idle, pipeline
from tools.analyzers.steps import step_time
from tools.analyzers.storage import checkpoint
from tools.errors import UsageError
from tools.findings import Check
from tools.views.profile import Profile


@dataclass(frozen=True)
class Analyzer:
    """One question to a run. ``stage`` says when the workflow asks it."""

    name: str
    family: str
    stage: str  # coarse, inter_operator or family
    question: str
    function: Callable[[Profile], tuple[Check, ...]]


ANALYZERS = (
    Analyzer(
        "step_time", "parallel", "coarse", "Is the step time steady, over steps and over ranks?", step_time.analyze
    ),
    Analyzer("critical_path", "parallel", "inter_operator", "What does the step wait for?", critical_path.analyze),
    Analyzer("idle", "cpu", "inter_operator", "Why is the device idle?", idle.analyze),
    Analyzer("io", "io", "family", "Does the step wait for data?", io.analyze),
    Analyzer("cpu", "cpu", "family", "Does the device wait for the host program?", cpu.analyze),
    Analyzer("garbage_collection", "cpu", "family", "Do collector pauses stop the host?", garbage_collection.analyze),
    Analyzer("computation", "computation", "family", "Do operators run as fast as they could?", computation.analyze),
    Analyzer(
        "communication", "communication", "family", "Do collectives wait, or transfer slowly?", communication.analyze
    ),
    Analyzer("memory", "memory", "family", "Does allocation cost time?", memory.analyze),
    Analyzer(
        "contention", "cpu", "family", "Does the training wait for a core or the interpreter?", contention.analyze
    ),
    Analyzer("checkpoint", "storage", "family", "Do saving and logging stop the training?", checkpoint.analyze),
    Analyzer("retransmission", "communication", "family", "Is what is sent lost on the way?", retransmission.analyze),
    Analyzer(
        "page_faults", "memory", "family", "Does each step take its memory anew from the kernel?", page_faults.analyze
    ),
    Analyzer("pipeline", "parallel", "family", "Do pipeline stages wait for each other?", pipeline.analyze),
    Analyzer("uneven_work", "communication", "family", "Have the ranks unequal work?", uneven_work.analyze),
)


def analyzer(name: str) -> Analyzer:
    """The analyzer of that name."""
    for candidate in ANALYZERS:
        if candidate.name == name:
            return candidate
    raise UsageError(f"there is no analyzer {name!r}; known are {', '.join(each.name for each in ANALYZERS)}")


def checks_of(profile: Profile, name: str) -> tuple[Check, ...]:
    """What one analyzer says about the run; computed once per profile. Without a trace only records answer."""
    function = analyzer(name).function if profile.traced else untraced.answers(name)
    return profile.memo(f"checks:{name}", lambda: function(profile))


def answer_instead(profile: Profile, name: str, checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """Puts checks in the place of those of an analyzer that broke, so that whoever asks for them later gets these."""
    return profile.memo(f"checks:{name}", lambda: checks)


def all_checks(profile: Profile) -> tuple[Check, ...]:
    """What all analyzers say, in the order of the list."""
    return tuple(check for each in ANALYZERS for check in checks_of(profile, each.name))
