"""Communication by the job's own timers, where no trace was read and no series of steps holds them."""

from __future__ import annotations

import re

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import listed
from hermes_agent.questions.reading.question import wording
from tools.errors import UsageError
from tools.findings import Fact
from tools.knowledge.timer_names import communicates
from tools.metrics.recorded.job_tables import step_timers
from tools.views.profile import Profile

ASKED = re.compile(r"\bcommunicat\w*|\bcollectives?\b|\ball ?reduces?\b|\bnccl\b", re.I)
SHOWN = 3
METRICS = {
    "timer_pct": "timed_communication",
    "printed_timer_pct": "printed_communication",
    "lone_timer_ms": "lone_communication",
}
OF_MICRO_STEPS = "micro_communication"


def timed_communication(discussion: Discussion) -> str:
    """The timers of communication with their share of a step, or their time where no step is known; else empty."""
    profile = discussion.profile()
    log = profile.run.job_log
    if profile.traced or log is None:
        return ""
    for metric, words in METRICS.items():
        found = _shown(discussion, metric, _names(profile, metric))
        if not found:
            continue
        parts = listed([f"{{{at}}} in {{n{at}}}" for at in range(len(found))])
        micro = discussion.measured("micro_step_ms") if metric == "lone_timer_ms" else None
        facts = [fact for fact, _ in found] + ([] if micro is None else [micro])
        words = words if micro is None else OF_MICRO_STEPS
        text = wording(words).format(parts=parts, micro=f"{{{len(found)}}}")
        return discussion.say(text, *facts, names=tuple(name for _, name in found))
    return ""


def _names(profile: Profile, metric: str) -> list[str]:
    """The timers of communication that this metric may know."""
    log = profile.run.job_log
    known = set() if log is None else set(log.timers["name"])
    if metric == "timer_pct":
        try:
            known = set(step_timers(profile))
        except UsageError:
            known = set()
    return sorted(str(name) for name in known if communicates(str(name)))


def _shown(discussion: Discussion, metric: str, names: list[str]) -> list[tuple[Fact, str]]:
    measured = [(discussion.measured(metric, name=name), name) for name in names]
    rated = sorted(((fact, name) for fact, name in measured if fact is not None), key=lambda each: -each[0].value)
    return rated[:SHOWN]
