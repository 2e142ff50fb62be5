"""What a question asks for, as a record: a figure of what, which statistic of it, on which ranks and steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import plain
from hermes_agent.questions.prose import span
from hermes_agent.questions.reading.question import LIMIT, Question, Topic, folded, lexicon, normalised
from tools.knowledge.name_patterns import COLLECTIVE_KINDS

Quantity = Literal["time", "share", "count", "bytes", "rate", "steps"]
Statistic = Literal["", "each", "longest", "shortest", "median", "p95", "p99", "total"]
Extreme = Literal["", "most", "least"]
Over = Literal["", "rank", "step"]

# Questions for a cause, a change, a comparison or a name are answered otherwise.
NO_FIGURE = re.compile(
    r"\b(why|should|could|would|might|may|can|fix\w*|improv\w*|(?<!all )reduce(?! scatter)|avoid|faster|slower|better"
    r"|worse|suppose|if|bottlenecks?|problems?|issues?|enough|too|normal|compar\w*|vs|versus|against|difference|differs?"
    r"|(?<!not )(?<!non )overlap\w*"
    r"|between|will|bring|gaps?|timeline|mean by|chang\w*|longer than|over \d\w*|workers?|epochs?|training|recommend\w*"
    r"|(which|what) (line|code|python|function|call)\w*|at \d+|queue|left|utili[sz]ation|mfu)\b"
    r"|^(is|are|was|were|do|does|did|has|have|am)\b"
)
NAMED = re.compile(
    r"\b(which|what|top|list|show|name)\b( \w+){0,3} (kernels?|operators?|ops|calls?|functions?|layers?|modules?|lines?"
    r"|streams?|collectives|shapes?|hosts?|nodes|settings?)\b|\b(slowest|longest|worst|biggest) (\d+ )?(kernels"
    r"|operators?|ops|collectives|layers?|modules?|calls)\b"
)
DEFINITION = re.compile(
    r"^(what (is|are)|whats( the)?|define|explain|describe|tell me about) (a |an |the )?"
    r"(?!(\w+ ){0,3}(share|percent\w*|number|time|mean|median|total|longest|shortest|average|bandwidth(?! contention)"
    r"|rate|sizes?|duration)\b)"
    r"|^what does .* (mean|stand for)$"
)
WHICH_RANK = re.compile(
    r"\b(which|what|whose) (of the )?(traced |other )?(ranks?|[gn]pus?|process(es)?|devices?|cards?)\b"
    r"(?! (kernels?|calls?|operators?|memory|time))|^who\b"
    r"|\b(on|of|for|by|at) (each|every) (traced )?(rank|gpu|process|device|card|npu)\b"
)
WHICH_STEP = re.compile(r"\b(which|what) (of the )?(profiled |traced |recorded )?(steps?|iterations?)\b")
MOST = re.compile(r"\b(most|longest|slowest|highest|largest|biggest|longer|more|max(imum)?|worst|busiest|busier)\b")
LEAST = re.compile(r"\b(least|shortest|fastest|lowest|smallest|fewest|shorter|less|min(imum)?|quickest)\b")
BOUND = re.compile(r"\bat (least|most)\b|\bmore than\b|\bless than\b")
LONGEST = re.compile(r"\b(longest|slowest|max(imum)?)\b")
SHORTEST = re.compile(r"\b(shortest|fastest|quickest|min(imum)?)\b")
MIDDLE = re.compile(r"\b(median|typical|usual)\b")
MEAN = re.compile(r"\b(mean|average)\b")
PERCENTILE = re.compile(r"\bp ?(95|99)\b|\b(95|99)(th)? percentile\b")
ONE = r"\b(one|an?|single|individual|each|every) (single |individual |full )?"
TOTAL = re.compile(
    r"\b(over|of|in|across) all (the )?(recorded |traced )?(steps|iterations)\b|\bin total\b|^total\b|\boverall\b"
)
SHARE = re.compile(r"\b(percent\w*|share|fraction|proportion|portion|pct)\b|\bhow much of (the|a|each|its)\b")
RATE = re.compile(r"\b(bandwidths?|rates?|throughput|gb s)\b")
BYTES = re.compile(r"\b(bytes?|volume|sizes?|[kmg]i?b)\b|\bhow (big|large)\b")
COUNT = re.compile(r"\b(how (many|often)|number of|counts?|many times)\b(?! (ms|milliseconds|seconds|bytes))")
STEPS = re.compile(r"\bhow many (steps|iterations)\b")
PER_STEP = re.compile(r"^(?!.*\b(time|long|ms|how much)\b).*\b(per|each|every) (step|iteration)$")
TIME = re.compile(r"\b(how (long|much|slow|expensive)|times?|durations?|ms|costs?|takes?|spen[dt]s?|wait(s|ed)|last)\b")
# "How much memory" and "which is busier" ask for the amount that a topic has.
EXPLICIT_TIME = re.compile(r"\b(times?|long|ms|seconds|durations?|slow)\b")
AMOUNTS: tuple[Quantity, ...] = ("bytes", "share", "count", "rate")
# Words that narrow what is asked: a figure of the whole would be beside the question.
UNREAD = re.compile(
    r"\b(before|after|until|since|starts?|begins?|ends?|first|second|third|fourth|last(?! *$)|during|while|without"
    r"|except|only|excluding|apart|other than)\b"
)
# "per step" and "of the GPU's time" say of what whole a figure is, and not what it is about.
OF_BUSY = re.compile(
    r"\b(the )?time (that |in which |when )?(the |its )?(gpu|device)( of rank \d+)? is busy\b"
    r"|\b(the )?(gpu|device|kernel|busy)( busy)? time\b"
)
OF_STEP = re.compile(r"\b(per|each|every|an?|of (the|a|each|one|its)|in (the|a|each)) (step|iteration)\b")
LAUNCHED = re.compile(
    r"\blaunch(es|ed|ing)?\b(?=.*\bkernels\b)|(?<=\bkernels )launch(ed)?\b|(?<=\bkernel )launch(ed)?$"
)
GENERAL = ("kernel", "operator", "collective", "python")  # kinds of events whose words also stand by other names


@dataclass(frozen=True)
class Asked:
    """One figure, or the same of each rank or step; ``of`` is the whole of a share."""

    topic: Topic
    quantity: Quantity
    statistic: Statistic = ""
    extreme: Extreme = ""
    over: Over = ""
    of: Literal["step", "busy"] = "step"
    ranks: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()  # words that narrow the question and that no figure here can be narrowed by

    @property
    def ends(self) -> tuple[int, ...]:
        """The steps, of a range of more than two the first and the last."""
        whole = self.steps == tuple(range(self.steps[0], self.steps[-1] + 1)) if self.steps else False
        return (self.steps[0], self.steps[-1]) if whole and len(self.steps) > 2 else self.steps

    @property
    def spoken(self) -> str:
        """``the longest time of all-reduces on rank 6``."""
        what = {"steps": "number of steps with", "count": "number of", "bytes": "bytes of", "rate": "rate of"}
        noun = what.get(self.quantity, f"{self.quantity} of")
        kind = {"each": "mean single", "total": "total"}.get(self.statistic, self.statistic)
        whose = "".join(f" on rank {rank}" for rank in self.ranks)
        whose += f" in {span('step', self.steps)}" if self.ends != self.steps else ""
        whose += "".join(f" in step {step}" for step in self.steps) if self.ends == self.steps else ""
        by = f", the {self.extreme or 'most'} of all {self.over}s" if self.over else ""
        return " ".join(f"the {kind} {noun} {self.topic.title}{whose}{by}".split())


def may_ask_figure(question: Question) -> bool:
    """Whether nothing in a question says that it asks for a reason, a change, a meaning or what an id is."""
    words = _own_words(question)
    defines = DEFINITION.search(words) and not (question.ranks or question.steps)
    return not (NO_FIGURE.search(words) or question.ids or defines)


def asks_figure(question: Question) -> bool:
    """Whether a question asks for a figure, of whatever it may be."""
    return may_ask_figure(question) and quantity_of(question) is not None


def asked(question: Question, named: Topic | None = None) -> Asked | None:
    """The figure that a question asks for; None where it asks for none.

    ``named`` is the topic of a name of the run in it, which counts where the question says nothing more special.
    """
    if not may_ask_figure(question):
        return None
    words = _own_words(question)
    over: Over = "rank" if WHICH_RANK.search(words) else "step" if WHICH_STEP.search(words) else ""
    if not over and NAMED.search(words) and not (COUNT.search(words) or SHARE.search(words)):
        return None
    whole = OF_STEP.sub(" ", OF_BUSY.sub(" ", LAUNCHED.sub(" ", WHICH_RANK.sub(" ", words))))
    topic = topic_of(whole, named)
    quantity = _quantity(words, "%" in question.text, topic)
    if topic is not None and quantity is None and over == "rank":
        quantity = _first_quantity(topic)
    if topic is None or quantity is None:
        return None
    if quantity == "time" and "time" not in topic.figures and not EXPLICIT_TIME.search(words):
        quantity = next((each for each in AMOUNTS if each in topic.figures), None) or quantity
    extreme: Extreme = "least" if LEAST.search(words) else "most" if MOST.search(words) else ""
    return Asked(
        topic,
        quantity,
        (_statistic(words) or _of_one(words, topic, quantity)) if not over else "",
        extreme,
        over,
        "busy" if OF_BUSY.search(words) else "step",
        question.ranks,
        () if over == "step" else question.steps,
        tuple(match[0] for match in UNREAD.finditer(words)),
    )


def quantity_of(question: Question) -> Quantity | None:
    """Which quantity a question asks for, of whatever it may be; None where it asks for none."""
    return _quantity(_own_words(question), "%" in question.text, None)


def _own_words(question: Question) -> str:
    """The words of a question without the names of the run that it quotes."""
    words = BOUND.sub(" ", question.words)
    for name in question.names:
        words = words.replace(normalised(name), " ")
    return words


def about_topic(question: Question) -> Asked | None:
    """What a question may ask that names a topic and no figure of it: the first of its figures."""
    topic = topic_of(_own_words(question))
    if topic is None or topic.title == lexicon().topics[-1].title:
        return None
    quantity = _first_quantity(topic)
    return None if quantity is None else Asked(topic, quantity, ranks=question.ranks, steps=question.steps)


def _first_quantity(topic: Topic) -> Quantity | None:
    known: tuple[Quantity, ...] = ("steps", "time", "share", "count", "bytes", "rate")
    return next((each for each in known if each in topic.figures), None)


def of_events(
    title: str, kind: str, pieces: tuple[str, ...], others: tuple[str, ...] = (), device: bool = False
) -> Topic:
    """The topic of events of one kind whose names hold one of the pieces."""
    given = {"kind": kind} | ({"part": "|".join(pieces)} if pieces else {})
    given |= {"without": "|".join(others)} if others else {}
    figures = {"time": ["kind_ms"], "share": ["kind_pct"], "busy share": ["kind_pct:of=busy"], "count": ["kind_count"]}
    figures |= {key: [f"kind_each_ms:statistic={value}"] for key, value in SINGLE.items()}
    return Topic(title, "", "|".join(re.escape(each) for each in (title, *pieces)), figures, given, device)


SINGLE = {"each": "mean", "longest": "max", "shortest": "min", "median": "median", "p95": "p95", "p99": "p99"}


def named_by(fragment: str, kind: str) -> Topic:
    """The topic of the kernels, operators or Python frames whose name holds a word of the question."""
    title = {"python": "Python frame"}.get(kind, kind)
    return replace(
        of_events(f"{title}s whose name holds {quoted(fragment)}", kind, (fragment,)), shown=re.escape(fragment)
    )


@lru_cache(maxsize=1)
def _topics() -> tuple[tuple[re.Pattern[str], int, Topic], ...]:
    """Patterns of words with their rank among equals and their topic."""
    known = lexicon()
    rows: list[tuple[str, int, Topic]] = [(each.words, 0, each) for each in known.topics[:-1]]
    rows += [(known.topics[-1].words, 2, known.topics[-1])]
    for kind, _ in COLLECTIVE_KINDS:
        rows.append((plain(kind).replace(" ", " ?") + "s?", 0, _collective(plain(kind).replace(" ", "-") + "s", kind)))
    for each in known.event_kinds:
        pieces = (each.part,) if each.part else ()
        topic = of_events(each.title, each.kind, pieces, device=each.device)
        topic = _collective(each.title, None) if each.kind == "collective" else topic
        rows.append((each.words, int(each.kind in GENERAL), replace(topic, words=each.words)))
    for operation in known.operations:
        title = f"kernels of {operation.title}"
        topic = of_events(title, "kernel", operation.pieces, operation.others, device=True)
        rows.append(
            (operation.words, 0, replace(topic, shown="|".join(map(re.escape, (operation.title, *operation.pieces)))))
        )
    return tuple((re.compile(rf"\b(?:{words})\b"), tier, topic) for words, tier, topic in rows)


def _collective(title: str, kind: str | None) -> Topic:
    figures = {
        "time": ["collective_busy_ms"], "count": ["collective_count"], "bytes": ["collective_bytes"],
        "rate": ["bus_bandwidth"], **{key: [f"collective_each_ms:statistic={value}"] for key, value in SINGLE.items()},
    }  # fmt: skip
    if kind is None:
        figures["time"] = ["collective_busy_ms", "account_ms:part=communication"]
        figures |= {
            "share": ["kind_pct:kind=collective", "account_pct:part=communication"],
            "busy share": ["kind_pct:kind=collective,of=busy"],
        }
    shown = plain(kind).replace(" ", "[- _]?") if kind else "collective|communication|nccl|all.?reduce"
    return Topic(title, title, shown, figures, {"kind": kind} if kind else {})


def topic_of(words: str, named: Topic | None = None) -> Topic | None:
    """The topic that normalised words name: a name of the run, a kind of events or a step only after all others."""
    found = [*_mentioned(words), *([(1, -LIMIT, named)] if named else [])]
    return min(found, key=lambda each: each[:2])[2] if found else None


def _mentioned(words: str) -> Iterator[tuple[int, int, Topic]]:
    for pattern, tier, topic in _topics():
        for match in pattern.finditer(words):
            yield tier, -len(match[0]), topic


def _quantity(words: str, percent: bool, topic: Topic | None) -> Quantity | None:
    if percent or SHARE.search(words):
        return "share"
    if RATE.search(words):
        return "rate"
    if BYTES.search(words):
        return "bytes"
    counted = topic is not None and "count" in topic.figures
    if STEPS.search(words) and topic is not None and "steps" in topic.figures:
        return "steps"
    most_of = counted and re.search(
        r"\b(most|fewest|more|fewer)( \w+)? (kernels?|copies|launches|collectives|operators)\b", words
    )
    if COUNT.search(words) or most_of or (counted and PER_STEP.search(words)):
        return "count"
    timed = (TIME, LONGEST, SHORTEST, MIDDLE, MEAN, PERCENTILE, MOST, LEAST)
    return "time" if any(each.search(words) for each in timed) else None


def _statistic(words: str) -> Statistic:
    if match := PERCENTILE.search(words):
        return "p95" if "95" in match[0] else "p99"
    if LONGEST.search(words):
        return "longest"
    if SHORTEST.search(words):
        return "shortest"
    if MIDDLE.search(words):
        return "median"
    if TOTAL.search(words):
        return "total"
    return "each" if MEAN.search(words) and not re.search(r"\b(steps?|iterations?)\b", words) else ""


def _of_one(words: str, topic: Topic, quantity: Quantity | None) -> Statistic:
    """Whether the time is asked of one such event ("how long does one collection take") and not of all of a step."""
    one = quantity == "time" and "each" in topic.figures and re.search(rf"{ONE}(?:{topic.words})\b", words)
    return "each" if one and not OF_STEP.search(words) else ""


def in_english_words(text: str) -> tuple[str, str]:
    """Language and words of a question in English as far as the lexicon has them; both "" where it has few."""
    bare = folded(text[:LIMIT])
    for name, language in lexicon().languages.items():
        words, found = bare, 0
        for english, pattern in language.words.items():
            words, number = re.subn(pattern if not bare.isascii() else rf"\b(?:{pattern})\b", f" {english} ", words)
            found += number
        if found >= 2 or (found and not bare.isascii()):
            return name, " ".join(words.split())
    return "", ""
