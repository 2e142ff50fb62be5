"""What timers, tables, stacks and arguments of a run say of a subject, next to the checks for its causes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_agent.model.display import cause_title
from hermes_agent.questions.answers.certainty import check_text
from hermes_agent.questions.answers.timed_communication import timed_communication
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, listed, paragraph
from hermes_agent.questions.reading.question import Subject, wording
from tools.errors import UsageError
from tools.knowledge.taxonomy import family_of
from tools.knowledge.timer_names import communicates, fetches_batches
from tools.metrics.recorded.job_tables import step_timers

TIMERS_SHOWN = 4


HOW_LONG = re.compile(r"\bhow (long|much)\b|\btakes?\b")
OF_LOADER = {"slow_data_reading", "slow_data_processing"}
HANGS = ("communication.reported_ranks", "communication.timeouts")
SEEN_OF_LOADER = ("cpu.sampled_stacks", "step_time.output")
LOADER_TABLE = "io.output_table"


def stated_compilations(discussion: Discussion, words: str) -> str:
    """How long compilations take by the lines or the metrics report of the output that state it; else empty."""
    profile = discussion.profile()
    if profile.traced or not HOW_LONG.search(words):
        return ""
    warned = discussion.measured("warned_s", kind="slow_compile")
    if warned is not None:
        return discussion.say("The compilations that XLA states a time of take {0} in all.", warned)
    given = {"table": "torch_xla", "name": "CompileTime"}
    total, calls = (discussion.measured(f"table_row_{each}", **given) for each in ("ms", "calls"))
    if total is None or calls is None:
        return ""
    return discussion.say("By torch_xla's metrics report compilations take {0} in all, in {1}.", total, calls)


def by_profiler(discussion: Discussion, subject: Subject) -> str:
    """The wait for data by a profiler's table in the output, to a question about data input; else empty."""
    if discussion.profile().traced or discussion.profile().measured or not set(subject.causes) >= OF_LOADER:
        return ""
    check = next((each for each in discussion.diagnosis.checks if each.analyzer == LOADER_TABLE), None)
    if check is None or check.status == "cannot_answer":
        return ""
    shares = [discussion.measured(f"profiled_loader{of}_pct") for of in ("", "_rows")]
    limit = discussion.profile().thresholds["data_wait_pct"]
    waits = any(each is not None and each.value >= limit for each in shares)
    return paragraph(["Yes:" if waits else "Hardly:", *check.text])


def reported_ranks(discussion: Discussion, subject: Subject) -> str:
    """What the output reports of ranks that hold up a collective, asked about communication as a whole."""
    if len(subject.causes) < 2 or not {family_of(each) for each in subject.causes} <= {"communication", "parallel"}:
        return ""
    checks = {each.analyzer: each for each in discussion.diagnosis.checks if each.status == "found"}
    if HANGS[0] not in checks:
        return ""
    return blocks(check_text(checks[name]) for name in HANGS if name in checks)


@dataclass(frozen=True)
class TimersSay:
    """What the job's own timers say of a subject; ``settles``: nothing else need be said, as it takes hardly any."""

    text: str = ""
    settles: bool = False


def by_timers(discussion: Discussion, subject: Subject) -> TimersSay:
    """What the job's own timers say of communication or of making a batch, asked about as a whole; else empty."""
    profile, asked = discussion.profile(), set(subject.causes)
    if profile.traced or profile.run.job_log is None:
        return TimersSay()
    families = {family_of(each) for each in asked}
    of_ranks = families <= {"communication", "parallel"} and "communication" in families
    if not of_ranks and not asked >= OF_LOADER:
        return TimersSay()
    try:
        names = [name for name in sorted(step_timers(profile)) if (communicates if of_ranks else fetches_batches)(name)]
    except UsageError:
        return TimersSay(timed_communication(discussion) if of_ranks else "")
    rated = sorted(
        ((discussion.measure("timer_pct", name=name), name) for name in names), key=lambda each: -each[0].value
    )
    noted = profile.thresholds["noted_pct"]
    shown = [each for each in rated if each[0].value >= noted][:TIMERS_SHOWN] or rated[:1]
    if not shown:
        return TimersSay()
    parts = listed([f"{{{at}}} in {{n{at}}}" for at in range(len(shown))])
    little = not of_ranks and shown[0][0].value < noted
    kind = wording("timed_communication") if of_ranks else wording("timed_batches")
    text = (wording("timed_hardly") if little else kind).format(parts=parts)
    said = discussion.say(text, *(fact for fact, _ in shown), names=tuple(name for _, name in shown))
    first = next(iter(discussion.diagnosis.causes), None)
    found = f"The first cause found is {cause_title(first.cause, first.mechanism)}." if first else ""
    return TimersSay(paragraph([said, found]), settles=little)


def by_stacks(discussion: Discussion, subject: Subject) -> str:
    """Where the host is by sampled stacks, to a question about the host of a run without a trace; else empty."""
    if "operator_dispatch" not in subject.causes or discussion.profile().traced:
        return ""
    checks = discussion.diagnosis.checks
    return paragraph(each for check in checks if check.analyzer == "cpu.sampled_stacks" for each in check.text)


def seen_of_loader(discussion: Discussion, subject: Subject) -> str:
    """What stacks and warnings of a run without a trace say of its data loader, asked about data input; else empty."""
    if discussion.profile().traced or not set(subject.causes) >= OF_LOADER:
        return ""
    own = {each.analyzer: each.text for each in discussion.diagnosis.checks}
    stacks, warned = (own.get(name, ()) for name in SEEN_OF_LOADER)
    waits = any("data loader" in text for text in stacks)
    return paragraph([*(stacks if waits else ()), *(text for text in warned if "data loader" in text)])


def fewest_workers(discussion: Discussion, ranks: Sequence[int] = ()) -> str:
    """The fewest loader workers that keep up, where the making of a batch was recorded; else empty."""
    least = discussion.values("loader_workers_least", ranks or discussion.profile().run.rank_numbers)
    if not least:
        return ""
    rank = max(least, key=lambda each: least[each])
    where = f" on rank {rank}, which needs no fewer than the others" if len(least) > 1 else ""
    return discussion.say(wording("workers").format(where=where), rank=rank)


def workers_of(discussion: Discussion, subject: Subject) -> str:
    """What more workers would do on a run whose loader has another cause, else how many there are."""
    if subject.mechanism != "too_few_workers":
        return ""
    return fewest_workers(discussion) or stated_workers(discussion)


def stated_workers(discussion: Discussion) -> str:
    """How many loader workers the job's arguments state; else empty."""
    stated = discussion.measured("stated_loader_workers")
    return "" if stated is None else discussion.say("The job's arguments state {0}.", stated)
