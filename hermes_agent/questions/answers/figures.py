"""Answers that are one figure of a topic, by its metrics; and whether an answer is to the question at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature

from hermes_agent.evidence.citations import sentences, without_citations
from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import rank_list
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, listed, paragraph
from hermes_agent.questions.reading.asked import Asked, Statistic, named_by
from hermes_agent.questions.reading.question import Question, Topic
from hermes_agent.questions.tool_context import called
from tools.agent_tools.find_events import EventRow
from tools.errors import UsageError
from tools.findings import Argument, Fact
from tools.judgement.catalog import metrics
from tools.metrics.instances import kind_rows

LEAD = 3  # statements in which an answer has to stand
LISTED = 8
NEXT_RANKS = 2  # named after the one with most or least
WORD = re.compile(r"[a-z][a-z0-9_]{3,}")
UNITS = {
    "time": r"\d ?(ns|us|ms|s)\b|\| ms\b|\b(in|,) ms\b|\bms per step\b|\(ms",
    "share": r"\d ?%|%",
    "count": r"(?<![\w.])\d+(\.\d+)?(?! ?(ns|us|ms|s|%)\b)",
    "steps": r"\d",
    "bytes": r"\d ?[KMGk]?i?B\b",
    "rate": r"/s\b",
}
NOTHING = re.compile(
    r"\b(not (recorded|known|assessable|in a trace|measured|described)|what it needs|there (is|are) no"
    r"|no work on a device|no such|cannot be|nothing|only step|was compared by summary|looks like)\b"
    r"|^no (kernel|rank|host call|such|gap|step|collective|work|operator|communication)\b",
    re.IGNORECASE,
)
FIRST = r"(?! per step| first| \|)"  # what only orders a table
OF_THE_RUN = re.compile(r"\b(device|such (rank|step)|trace|compared by summary|looks like|only step)\b", re.IGNORECASE)
MOST = rf"\b(most|longest|slowest|highest|largest|at most|maximum)\b{FIRST}"
LEAST = rf"\b(least|shortest|fastest|lowest|smallest|fewest|minimum)\b{FIRST}"
SAID: dict[Statistic, str] = {
    "longest": rf"\b(longest|slowest|at most|maximum)\b{FIRST}", "shortest": r"\b(shortest|fastest|at least)\b",
    "median": r"\bmedian\b", "p95": r"\b95", "p99": r"\b99", "total": r"\ball (its )?steps\b|\bin total\b",
    "each": r"\b(mean|average)\b",
}  # fmt: skip
RANK = re.compile(r"\branks? (\d+)|\br(\d+)\b|\|\s*r?(\d+)\s*\|")
SINGLE = {
    "each": "the mean of single ones", "longest": "the longest single one", "shortest": "the shortest single one",
    "median": "the median of single ones", "p95": "the 95th percentile of single ones",
    "p99": "the 99th percentile of single ones",
}  # fmt: skip
SINGLE_STEP = {
    "longest": "the longest", "shortest": "the shortest", "median": "the median", "p95": "the 95th percentile",
    "p99": "the 99th percentile",
}  # fmt: skip
PER_STEP = ("time", "count", "bytes")


@dataclass(frozen=True)
class Statement:
    """A sentence, list item or row of a table, and what introduces it."""

    intro: str
    body: str

    @property
    def whole(self) -> str:
        """Both."""
        return f"{self.intro} {self.body}"


def answers(asked: Asked, text: str, ranks: Sequence[int]) -> bool:
    """Whether the beginning of an answer states what was asked: its unit, topic, ranks and statistic, or that there is
    nothing of it. ``ranks`` are those of the run."""
    lead = _statements(text)[:LEAD]
    if not lead or asked.unread:
        return False
    first = lead[0].body
    one_kind = "collective_count" in asked.topic.figures.get("count", [])
    shown = f"{asked.topic.shown}|no collectives" if one_kind else asked.topic.shown
    if NOTHING.search(first) and (re.search(shown, first, re.IGNORECASE) or OF_THE_RUN.search(first)):
        return True
    if asked.over != "rank" and asked.ranks and len(ranks) > 1:
        named = {int(next(filter(None, each))) for part in lead for each in RANK.findall(part.whole)}
        if not set(asked.ranks) <= named:
            return False
    return any(_states(asked, each) for each in lead) and all(
        any(str(step) in each.whole for each in lead) for step in asked.ends
    )


def _states(asked: Asked, statement: Statement) -> bool:
    """Whether one statement is the figure that was asked for."""
    needed = [UNITS[asked.quantity], asked.topic.shown]
    if asked.statistic:
        needed.append(SAID[asked.statistic])
    if asked.of == "busy" and asked.quantity == "share":
        needed.append("busy|runs kernels")
    if not all(re.search(each, statement.whole, re.IGNORECASE) for each in needed):
        return False
    if not asked.over:
        return True
    extreme = LEAST if asked.extreme == "least" else MOST
    place = re.search(rf"\b{asked.over} \d", statement.body, re.IGNORECASE) or f"| {asked.over} |" in statement.intro
    return bool(place and re.search(extreme, statement.whole, re.IGNORECASE))


def figure(discussion: Discussion, asked: Asked) -> str:
    """The figure that was asked for, of each rank or step; UsageError where the run, or every metric, lacks it."""
    ranks = discussion.ranks
    if asked.unread:
        raise UsageError(f"no figure is narrowed by {listed([quoted(word) for word in asked.unread])}")
    if asked.over == "step":
        return _by_step(discussion, asked)
    if asked.over == "rank":
        return _by_rank(discussion, asked, ranks)
    places = [(rank, step) for rank in asked.ranks or (None,) for step in asked.steps or (None,)]
    if places == [(None, None)] and len(ranks) > 1 and not _whole_run(discussion, asked):
        return _by_rank(discussion, asked, ranks)
    return blocks(_one(discussion, asked, rank, step) for rank, step in places)


def declined(asked: Asked, reason: str) -> str:
    """A sentence that the question has no answer here, with the reason and what there is nearest."""
    known = {
        "time": "its time per step", "share": "its share of the step", "count": "its number per step",
        "longest": "its longest single one", "bytes": "its bytes per step", "steps": "the steps that have it",
    }  # fmt: skip
    there = [
        phrase
        for key, phrase in known.items()
        if key in asked.topic.figures and (asked.statistic or key != asked.quantity)
    ]
    nearest = f"What can be asked of {asked.topic.title}: {listed(there)}." if there else ""
    return blocks([f"This run has no answer to exactly that, {asked.spoken}: {reason.rstrip('.')}.", nearest])


def not_known(words: Sequence[str]) -> str:
    """A sentence that words of a question for a figure are in no name of the run and have no figure."""
    named = listed([quoted(word) for word in words])
    text = (
        f"There is no answer to exactly that: {named} is no name of a kernel or operator of this run, nor known here."
    )
    return f"{text} “Top 5 kernels” and “What are the top host calls?” list names; put a name in back quotes."


def unknown_topic(discussion: Discussion, question: Question) -> Topic | None:
    """The kernels, operators or Python frames whose name holds a word that is in none of the texts; None without."""
    profile = discussion.profile()
    if not profile.traced:
        return None
    rank = question.ranks[0] if question.ranks else profile.ranks[0].rank.rank
    if rank not in discussion.ranks:
        return None
    view = profile.rank(rank)
    words = [each for word in strange_words(question) for each in (word, word.removesuffix("s"))]
    for kind in ("kernel" if view.rank.has_device else "operator", "python") if words else ():
        names = {
            str(view.categories[code]).casefold() for code in set(view.codes[kind_rows(profile, rank, kind)].tolist())
        }
        if found := next((word for word in words if any(word in name for name in names)), None):
            return named_by(found, kind)
    return None


def strange_words(question: Question) -> list[str]:
    """Words of a question that are in none of the product's own texts."""
    from hermes_agent.questions.reading.spelling import is_known

    return [word for word in WORD.findall(question.text.lower()) if not is_known(word)]


def _statements(text: str) -> list[Statement]:
    """Sentences, list items and rows of tables, the last two with what introduces them and the heads of columns."""
    found, intro, heads = list[Statement](), "", ""
    for line in text.splitlines():
        plain = without_citations(line).strip()
        if not plain or re.fullmatch(r"\|[ :|-]+\|", plain):
            continue
        if plain.startswith("|"):
            if heads:
                found.append(Statement(f"{intro} {heads}", plain))
            heads = heads or plain
        elif plain.startswith(("- ", "* ")):
            found.append(Statement(intro, plain))
        else:
            heads, intro = "", plain
            found += [Statement("", each) for each in sentences(plain) if not each.endswith(":")]
    return found


def _specs(asked: Asked, device: bool) -> list[str]:
    figures = asked.topic.figures
    if asked.quantity == "share" and asked.of == "busy":
        return figures.get("busy share", [])
    if asked.quantity == "time" and asked.statistic and asked.statistic != "total":
        return figures.get(asked.statistic, [])
    if asked.quantity == "time" and asked.over == "step":
        return figures.get("by step", figures.get("time", []))
    if asked.quantity == "time" and device and "device time" in figures:
        return figures["device time"]
    return figures.get(asked.quantity, []) if not asked.statistic else []


def _fact(discussion: Discussion, asked: Asked, rank: int | None, step: int | None = None) -> Fact:
    """The first metric of the topic that the run has; UsageError with what the run lacks, else why no metric fits."""
    profile = discussion.profile()
    views = [] if not profile.traced else list(profile.ranks) if rank is None else [profile.rank(rank)]
    device = any(view.rank.has_device for view in views)
    if asked.topic.device and not device:
        raise UsageError("no work on a device is recorded")
    specs = _specs(asked, device)
    if asked.statistic == "total" and profile.traced and len(profile.step_ms) == 1:
        specs = asked.topic.figures.get(asked.quantity, [])
    error = UsageError("no metric measures it" if asked.statistic != "total" else "its figures are means per step")
    lacking: UsageError | None = None  # what the run lacks is a better reason than what a metric takes
    for spec in specs:
        name, _, own = spec.partition(":")
        given: dict[str, Argument] = {**asked.topic.given}
        given |= dict(pair.split("=", 1) for pair in own.split(",")) if own else {}
        taken = signature(metrics()[name].function).parameters
        given |= {"rank": rank} if rank is not None and "rank" in taken else {}
        if rank is not None and "rank" not in taken:
            error = UsageError("it is measured of the whole run only")
        elif rank is None and "rank" in taken and taken["rank"].default is taken["rank"].empty:
            error = UsageError("it is measured of single ranks")
        elif step is not None and "step" not in taken:
            error = UsageError("it is measured over all recorded steps only")
        else:
            try:
                return discussion.measure(name, **given, step=step)
            except UsageError as failed:
                lacking = failed
    raise lacking or error


def _whole_run(discussion: Discussion, asked: Asked) -> bool:
    """Whether the figure is one of all ranks together, where none is named."""
    device = discussion.profile().traced and discussion.profile().run.has_device
    names = [spec.partition(":")[0] for spec in _specs(asked, device)]
    ranks = [signature(metrics()[name].function).parameters.get("rank") for name in names]
    return any(each is None or each.default is not each.empty for each in ranks)


def _label(asked: Asked, rank: int | None, step: int | None, several: bool, device: bool) -> str:
    where = "" if rank is None or not several else f" on rank {rank}"
    where += "" if step is None else f" in step {step}"
    title = asked.topic.title
    if "device time" in asked.topic.figures and asked.quantity == "time":
        title = f"kernels of {title}" if device else f"{title} on the host"
    if asked.quantity == "share":
        whole = "time in which the device runs kernels (busy time)" if asked.of == "busy" else "step"
        return f"{title}{where}: {{0}} of the {whole}"
    if asked.quantity == "rate":
        return f"{title}{where}, median bus bandwidth of large ones: {{0}}" if title != "the step" else f"{{0}}{where}"
    if asked.quantity == "steps":
        return f"{title}{where} in {{0}}"
    if title == "the step":
        return f"step time{where}{', ' + SINGLE_STEP[asked.statistic] if asked.statistic in SINGLE_STEP else ''}: {{0}}"
    if asked.statistic in SINGLE:
        return f"{title}{where}, {SINGLE[asked.statistic]}: {{0}}"
    per_step = " per step" if asked.quantity in PER_STEP and step is None else ""
    return f"{title}{where}: {{0}}{per_step if 'steps between' not in title else ''}"


def _sentence(discussion: Discussion, asked: Asked, rank: int | None, step: int | None, fact: Fact) -> str:
    profile = discussion.profile()
    several, device = len(discussion.ranks) > 1, profile.traced and profile.run.has_device
    of_ranks = "rank" in signature(metrics()[fact.metric].function).parameters
    lead = "Mean over all ranks: " if rank is None and several and of_ranks else ""
    own = _label(asked, rank, step, several, device)
    source = " by the profiler's own account" if fact.metric.startswith("account_") else ""
    source = " by the records of unprofiled steps" if fact.metric.startswith("series_") else source
    series = profile.series if fact.metric == "series_step_ms" else None
    if series is not None and series.averaged and asked.statistic in SINGLE_STEP:
        of_lines = f"of the lines {SINGLE_STEP[asked.statistic]} states {{0}} a step."
        return discussion.say(f"How long single steps take is not known: {series.averaged}; {of_lines}", fact)
    return discussion.say(f"{lead}{own if lead else capital(own)}{source}.", fact)


def _one(discussion: Discussion, asked: Asked, rank: int | None, step: int | None) -> str:
    ranks = discussion.ranks
    alone = ranks[0] if rank is None and len(ranks) == 1 else rank
    try:
        fact = _fact(discussion, asked, alone, step)
    except UsageError as lacking:
        if alone == rank:
            raise
        try:
            fact = _fact(discussion, asked, None, step)
        except UsageError:
            raise lacking from None
    return paragraph([_sentence(discussion, asked, alone, step, fact), _which(discussion, asked, alone)])


def _which(discussion: Discussion, asked: Asked, rank: int | None) -> str:
    """The name and the id of the longest single event; empty where the figure is of something else."""
    given = asked.topic.given
    if asked.statistic != "longest" or "kind_each_ms:statistic=max" not in asked.topic.figures.get("longest", []):
        return ""
    part = given.get("part")
    if rank is None or "without" in given or (part and "|" in part):
        return ""
    found = called(discussion, "find_events", rank=rank, kind=given["kind"], contains=part, limit=1)
    return "".join(f"It is {quoted(row.name)} ({row.id})." for row in found.rows if isinstance(row, EventRow))


def _by_rank(discussion: Discussion, asked: Asked, ranks: Sequence[int]) -> str:
    """The rank with most or least, then every rank's figure in that order."""
    chosen = [rank for rank in asked.ranks if rank in ranks] if len(asked.ranks) > 1 else list(ranks)
    facts, lacking = dict[int, Fact](), dict[int, str]()
    for rank in chosen:
        try:
            facts[rank] = _fact(discussion, asked, rank)
        except UsageError as error:
            lacking[rank] = str(error)
    if not facts:
        raise UsageError(next(iter(lacking.values()), "no rank is known"))
    least = asked.extreme == "least"
    order = sorted(facts, key=lambda rank: facts[rank].value if least else -facts[rank].value)
    first = order[0]
    own = _sentence(discussion, asked, first, None, facts[first])
    none = f"Not measured on {rank_list(sorted(lacking))}: {next(iter(lacking.values()))}." if lacking else ""
    if len(order) == 1:
        return blocks([own, none])
    equal = facts[order[0]].value == facts[order[-1]].value
    lead = (
        f"All {len(order)} ranks have the same."
        if equal
        else f"{own[:-1]}, the {'least' if least else 'most'} of {len(order)} ranks."
    )
    rows = [
        _sentence(discussion, asked, rank, None, facts[rank])
        for rank in (order[:1] if equal else order[1 : (NEXT_RANKS if asked.extreme else LISTED) + 1])
    ]
    return blocks([lead, f"Next:\n{bullets(rows)}" if not equal else bullets(rows), none])


def _by_step(discussion: Discussion, asked: Asked) -> str:
    """The step with most or least, of the rank that was named, else of the mean over ranks."""
    profile = discussion.profile()
    steps = [int(number) for number in profile.step_ms.index]
    least = asked.extreme == "least"
    parts = []
    for rank in asked.ranks or (None,):
        alone = discussion.ranks[0] if rank is None and len(discussion.ranks) == 1 else rank
        facts = {step: _fact(discussion, asked, alone, step) for step in steps}
        order = sorted(steps, key=lambda step: facts[step].value if least else -facts[step].value)
        own = _sentence(discussion, asked, alone, order[0], facts[order[0]])
        if len(order) == 1:
            parts.append(f"Only step {order[0]} was recorded. {own}")
            continue
        rows = [_sentence(discussion, asked, alone, step, facts[step]) for step in order[1:LISTED]]
        whose = "the mean over ranks, " if alone is None else ""
        parts.append(
            blocks(
                [f"{own[:-1]}, {whose}the {'shortest' if least else 'longest'} of {len(order)} steps.", bullets(rows)]
            )
        )
    return blocks(parts)
