"""What the outputs of two jobs state differently next to the step time: timers, the wait for data, skipped steps, NCCL.

The change that explains a longer or shorter step comes first, with how much of it in words.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.analyzers.support.figures import measured
from tools.errors import UsageError
from tools.findings import Fact, Sentence
from tools.metrics.recorded.job_tables import step_timers
from tools.metrics.registry import measure
from tools.run.recorded.job_log import JobLog, NcclFacts
from tools.views.profile import Profile

SHOWN = 3  # timers, and variables of NCCL
# Shares of the change of a step, and what is said of a timer that changed by so much.
OF_STEP = (
    (1.2, "more than the step did"),
    (0.8, "nearly all of the change of the step"),
    (0.5, "more than half of it"),
)
A_PART = 0.2
NESTED = Sentence("Timers may contain one another.")
NOTHING = "No timer, wait for data, setting or fact of NCCL that both outputs state changed with it."


def output_changes(a: Profile, b: Profile, before: Fact, after: Fact, least_ms: float) -> tuple[Sentence, ...]:
    """What both outputs state and what changed by ``least_ms`` or more; () where one of the runs has no output."""
    logs = a.run.job_log, b.run.job_log
    if logs[0] is None or logs[1] is None:
        return ()
    step_ms = after.value - before.value
    pairs = [*_timers(a, b), *_wait(a, b)]
    changed = sorted((each for each in pairs if abs(_delta(each)) >= least_ms), key=lambda each: -abs(_delta(each)))[
        :SHOWN
    ]
    said = [_sentence(*each, step_ms if abs(step_ms) >= least_ms else 0.0) for each in changed]
    said += [NESTED] if len(changed) > 1 else []
    said += [*_skipped(a, b), *_of_nccl(logs[0], logs[1])]
    if not said and pairs and abs(step_ms) >= least_ms:
        return (Sentence(NOTHING),)
    return tuple(said)


Pair = tuple[str, Fact, Fact]  # the name of a timer (untrusted), "" for the wait for data


def _delta(pair: Pair) -> float:
    return pair[2].value - pair[1].value


def _timers(a: Profile, b: Profile) -> Iterator[Pair]:
    try:
        names = sorted(set(step_timers(a)) & set(step_timers(b)))
    except UsageError:
        return
    for name in names:
        yield name, measure(a, "timer_ms", name=name), measure(b, "timer_ms", name=name)


def _wait(a: Profile, b: Profile) -> Iterator[Pair]:
    if a.series is None or b.series is None:
        return
    ranks = (a.series.slowest_rank, b.series.slowest_rank)
    known = [measured(each, "logged_data_wait_ms", rank=rank) for each, rank in zip((a, b), ranks, strict=True)]
    if known[0] is not None and known[1] is not None:
        yield "", known[0], known[1]


def _sentence(name: str, before: Fact, after: Fact, step_ms: float) -> Sentence:
    """The change of a part, and how much of the change of the step that is."""
    subject = "The job's timer {n0}" if name else "The wait for data that the lines state"
    share = (after.value - before.value) / step_ms if step_ms else 0.0
    much = next((words for least, words in OF_STEP if share >= least), "a part of it" if share >= A_PART else "")
    text = f"{subject} {'rose' if after.value > before.value else 'fell'} from {{0}} to {{1}} per step"
    return Sentence(f"{text}{f': {much}' if much else ''}.", (before, after), (name,) if name else ())


def _skipped(a: Profile, b: Profile) -> list[Sentence]:
    known = [measured(each, "skipped_steps_pct", settled=0) for each in (a, b)]
    if known[0] is None or known[1] is None or abs(known[1].value - known[0].value) < a.thresholds["noted_pct"]:
        return []
    return [Sentence("Steps without an update of the weights changed from {0} to {1}.", (known[0], known[1]))]


def _of_nccl(first: JobLog, second: JobLog) -> list[Sentence]:
    """What NCCL's own lines of both state differently."""
    a, b = first.nccl, second.nccl
    if not a.lines or not b.lines:
        return []
    said = []
    for what, before, after in (("network", *_networks(a, b)), ("version", *_versions(a, b))):
        if before and after and before != after:
            said.append(Sentence(f"NCCL's {what} is {{n1}} instead of {{n0}}.", (), (before, after)))
    for name in sorted({*a.settings, *b.settings}):
        values = [each.settings[name].value if name in each.settings else "" for each in (a, b)]
        if values[0] != values[1] and len(said) < SHOWN:
            said.append(_variable(name, *values))
    return said


def _networks(a: NcclFacts, b: NcclFacts) -> tuple[str, str]:
    named = [", ".join(each.value for each in facts.network) for facts in (a, b)]
    return named[0], named[1]


def _versions(a: NcclFacts, b: NcclFacts) -> tuple[str, str]:
    return a.version.value if a.version else "", b.version.value if b.version else ""


def _variable(name: str, before: str, after: str) -> Sentence:
    if before and after:
        return Sentence("The variable {n0} is {n2} instead of {n1}.", (), (name, before, after))
    text = "The variable {n0} is no longer set (it was {n1})." if before else "The variable {n0} is now set to {n1}."
    return Sentence(text, (), (name, before or after))
