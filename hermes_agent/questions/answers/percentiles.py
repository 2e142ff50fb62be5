"""Answers about percentiles: of the step time, of single kernels, collectives and copies, of the calls of one name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hermes_agent.model.display import counted, plain
from hermes_agent.questions.answers.device import COLLECTIVE_NAMES, recorded_name, slowest_rank
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import listed, paragraph
from hermes_agent.questions.reading.question import Question, lexicon, wording
from hermes_agent.questions.tool_context import called
from tools.agent_tools.find_events import EventRow
from tools.analyzers.steps.step_time import SOURCES
from tools.findings import Argument
from tools.metrics.measurement import PERCENTILES
from tools.views.profile import Profile

ASKED = re.compile(r"\bp ?(\d{1,2})\b|\b(\d{1,2})(?:st|nd|rd|th)? percentile\b")
USUAL = ("p95", "p99")
OF_LONGEST = re.compile(r"\b(?:longest|slowest|biggest|top|(?:most )?expensive) (?P<what>kernel|operator|op|call)\b")
OF_OUTPUT = re.compile(r"\b(in|by|of|from) (the |its |my |our )?(train(ing)? |job )?(log|output)s?\b")
PRINTED = " that the job's output prints, the first and profiled ones among them"
AVERAGED = "Percentiles of single steps are not known: {}."
FEW_STEPS = 100  # with fewer the 99th percentile is the longest or next to it


def percentiles(discussion: Discussion, question: Question) -> str:
    """The percentile that is asked for next to the median and the longest, else the 95th and 99th.

    Of a name, of the longest kernel, of events of a kind, else of steps: unprofiled ones where there are records.
    """
    asked = _asked(question.words)
    if not asked:
        known = listed([each.removeprefix("p") for each in PERCENTILES])
        return f"That percentile is not measured. Those that are: {known}, and the median."
    if question.names:
        return "\n\n".join(_of_name(discussion, question, name, asked) for name in question.names)
    if match := OF_LONGEST.search(question.words):
        return _of_longest(discussion, question, match["what"], asked)
    return _of_kind(discussion, question, asked) or _of_steps(discussion, question, asked)


def _asked(words: str) -> tuple[str, ...]:
    """The percentiles that are shown; empty for one that is not measured."""
    named = [f"p{int(match[1] or match[2])}" for match in ASKED.finditer(words)]
    known = tuple(dict.fromkeys(each for each in named if each in PERCENTILES))
    return USUAL if not named or set(named) <= {*USUAL, "p50"} else known


def _of_steps(discussion: Discussion, question: Question, asked: Sequence[str]) -> str:
    profile = discussion.profile()
    metric = "step_time_ms" if profile.traced and profile.series is None else "series_step_ms"
    if OF_OUTPUT.search(question.words) and discussion.measured("logged_step_ms") is not None and not question.ranks:
        metric = "logged_step_ms"
    texts = []
    for rank in question.ranks or (None,):
        shown = (*reversed(asked), "median")
        given: dict[str, Argument] = {} if rank is None else {"rank": rank}
        facts = [discussion.measure(metric, statistic=each, **given) for each in shown]
        whose, steps = "" if rank is None else f" of rank {rank}", len(facts[0].steps) or len(profile.step_ms)
        rest = [f"the {each.removeprefix('p')}th {{{place}}}" for place, each in enumerate(shown[1:-1], 1)]
        first = f"The {shown[0].removeprefix('p')}th percentile of the step time{whose} is {{0}}"
        lead = f"{', '.join([first, *rest])}, the median {{{len(shown) - 1}}}."
        few = f"; below {FEW_STEPS} the 99th is close to the longest one" if steps < FEW_STEPS else ""
        source = PRINTED if metric == "logged_step_ms" else _source(profile, question)
        if averaged := _averaged(profile, metric):
            lead, rests = (
                f"{AVERAGED.format(averaged)} {lead.replace('step time', 'values of lines')}",
                f"It rests on {counted(steps, 'line')}{few}.",
            )
        else:
            rests = f"It rests on {counted(steps, 'step')}{source}{few}."
        texts.append(paragraph([discussion.say(lead, *facts), rests if few or source else ""]))
    return "\n\n".join(texts)


def _averaged(profile: Profile, metric: str) -> str:
    """Why the values of step lines are none of single steps; empty where they are."""
    return "" if profile.series is None or metric == "step_time_ms" else profile.series.averaged


def _source(profile: Profile, question: Question) -> str:
    """Where unprofiled steps are from, and what of them is left out; empty where only traced ones are known."""
    if profile.series is None:
        return ""
    other = profile.series.origin == "monitor" and OF_OUTPUT.search(question.words)
    instead = ", not by the job's output" if other else ""
    return f" by {SOURCES[profile.series.origin]}{instead}, without the first ones and those next to profiled ones"


def _of_kind(discussion: Discussion, question: Question, asked: Sequence[str]) -> str:
    """Of single collectives, kernels, copies or operators; empty where the question names none of them."""
    words = question.words
    named = next((kind for kind, name in COLLECTIVE_NAMES.items() if re.search(rf"\b{name}s?\b", words)), None)
    kind = next((each for each in lexicon().event_kinds if re.search(rf"\b(?:{each.words})\b", words)), None)
    if named is not None or (kind is not None and kind.kind == "collective"):
        rank = question.ranks[0] if question.ranks else None
        whose = f" of rank {rank}" if rank is not None else " over all ranks"
        lead = f"Single {plain(named) + 's' if named else 'collectives'}{whose}"
        return _spread(discussion, f"{lead} take", "collective_each_ms", {"kind": named, "rank": rank}, asked)
    if kind is None:
        return ""
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    if kind.device and not discussion.profile().rank(rank).rank.has_device:
        return wording("no_device_events").format(kind.title)
    given: dict[str, Argument] = {"rank": rank, "kind": kind.kind, "part": kind.part or None}
    return _spread(discussion, f"Single {kind.title} of rank {rank} take", "kind_each_ms", given, asked)


def _of_longest(discussion: Discussion, question: Question, what: str, asked: Sequence[str]) -> str:
    """Of the calls that have the name of the longest single kernel or operator."""
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    device = discussion.profile().rank(rank).rank.has_device
    if what == "kernel" and not device:
        return wording("no_kernels")
    kind = "kernel" if what == "kernel" else "operator"
    found = called(discussion, "find_events", rank=rank, kind=kind, limit=1)
    names = [row.name for row in found.rows if isinstance(row, EventRow)]
    if not names:
        return paragraph(found.notes) or f"No {kind} of rank {rank} starts inside its steps."
    longest = discussion.say(f"The longest single {kind} of rank {rank} is {{n0}}.", names=(names[0],))
    return paragraph([longest, _of_calls(discussion, rank, names[0], "One run of it takes", asked)])


def _of_name(discussion: Discussion, question: Question, name: str, asked: Sequence[str]) -> str:
    """Of the kernels or calls of a name that is asked for."""
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    whole = recorded_name(discussion, rank, name)
    return _of_calls(discussion, rank, whole, f"One {{n0}} of rank {rank} takes", asked)


def _of_calls(discussion: Discussion, rank: int, name: str, lead: str, asked: Sequence[str]) -> str:
    text = _spread(discussion, lead, "call_ms", {"rank": rank, "name": name}, asked, (name,))
    return f"{text} It rests on all of its calls in the recorded steps, with what runs inside them."


def _spread(
    discussion: Discussion,
    lead: str,
    metric: str,
    given: Mapping[str, Argument],
    asked: Sequence[str],
    names: tuple[str, ...] = (),
) -> str:
    """Median, percentiles and the longest of single events."""
    facts = [discussion.measure(metric, **given, statistic=each) for each in ("median", *asked, "max")]
    shares = [f"{each.removeprefix('p')} %{' of them take' * (not place)} at most {{{place + 1}}}"
              for place, each in enumerate(asked)]  # fmt: skip
    text = f"{lead} {{0}} as the median; {', '.join(shares)}, the longest {{{len(facts) - 1}}}."
    return discussion.say(text, *facts, names=names)
