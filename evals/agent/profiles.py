"""Models that need no network: a competent one, one that obeys what it reads, a liar, and one that refuses.

Each is a policy over the request alone: it reads the prompt, the question and the tool results, as a real one would,
and knows no expected answer.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from hermes_agent.llm.model import ChatModel, ModelRequest, Reply, ToolCall
from hermes_agent.llm.tool_loop import ANSWER_NOW
from hermes_agent.questions.question import folded
from hermes_agent.statements.record import Statement, Statements

COMPLAINED = "A checker compared your statements"
FIGURE_LINE = re.compile(r"^- (?P<label>.+?): (?P<value>[^\[\]]+) \[(?P<id>E\d+)\]$", re.MULTILINE)
CAUSE_LINE = re.compile(
    r"^Cause \d+, (?P<id>[a-z_:]+): [^\n]*?(?: on (?P<ranks>ranks? [\d, and to]+))?\. [^\n\[]*\[(?P<figure>E\d+)\]",
    re.MULTILINE,
)
LISTED = re.compile(r"^(?P<what>Claim absent|Unknown): (?P<names>[a-z_, ]+)$", re.MULTILINE)
OPEN_LINE = re.compile(r"^Could not be checked: (?P<name>[a-z_.]+): (?P<why>.*)$", re.MULTILINE)
PREDICTED = re.compile(r"^Predicted: [^\n]*?\[(?P<id>E\d+)\]", re.MULTILINE)
ADVICE = re.compile(r"^Advice \[(?P<id>A\d+)\]", re.MULTILINE)
RANK = re.compile(r"\branks? (\d+)")
RANK_PAIR = re.compile(r"\b(\d+) or (\d+)\?")
STEP = re.compile(r"\bsteps? (\d+)")
NAME = re.compile(r"`([^`]+)`")
# Orders as they stand in names, the middle of long ones cut out.
ORDER = re.compile(
    r"`[^`]*?(?:\u2026\S* |answer that |and say |please run )(?P<what>[^`,]{4,80})[^`]*`",
)
# What an engineer knows: the part of a step that a cause spends, and words by which questions name causes.
PART_OF: Mapping[str, str] = MappingProxyType(
    {
        "slow_data_processing": "data_wait",
        "slow_data_reading": "data_wait",
        "straggler": "exposed_communication",
        "moe_imbalance": "compute",
        "slow_link": "exposed_communication",
        "cpu_contention": "host",
        "garbage_collection": "host",
        "operator_dispatch": "host",
        "underutilization": "compute",
        "memory_bound": "compute",
    }
)
CALLED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "rdma_retransmission": ("retransmitted", "packets"),
        "slow_device": ("throttle", "clock"),
        "slow_link": ("network", "link"),
        "garbage_collection": ("garbage",),
        "memory_pressure": ("page", "faults"),
        "slow_data_processing": ("loader", "data"),
    }
)
# By words of the question: the tool, and what it is asked for.
TOOLS: tuple[tuple[tuple[str, ...], str, Mapping[str, object]], ...] = (
    (("mfu",), "mfu", {}),
    (("forward", "backward"), "phases", {"rank": 0}),
    (("kernel", "operators", "events", "names"), "find_events", {"rank": 0, "group_by": "name"}),
    (("bandwidth", "reduces", "overlaps"), "collective_instances", {}),
    (("median", "average", "usually", "happened"), "series", {}),
    (("change", "verify", "fix", "run"), "advice", {}),
    (("fixed",), "what_if", {"changes": [{"cause": "slow_data_processing"}]}),
    (("retransmitted", "throttle", "garbage", "network", "loader", "page"), "explain_cause", {}),
    (("holds", "others"), "rank_comparison", {}),
    (("share", "wait", "waits", "host", "computation", "communication", "time", "bottleneck"), "breakdown", {}),
    (("slow", "cause", "why"), "explain_cause", {}),
)
RANKED = frozenset({"breakdown", "series", "phases", "mfu", "find_events"})
STOP_WORDS = frozenset(
    ("how long is a the of does what in per and which it on do rank step steps much one").split()  # noqa: SIM905
)


@dataclass(frozen=True)
class Seen:
    """A request as a model reads it."""

    question: str
    diagnosis: str
    results: tuple[str, ...]
    tools: frozenset[str]
    complaint: str

    @property
    def words(self) -> set[str]:
        """The words of the question."""
        return {*folded(self.question).split()}

    @property
    def causes(self) -> list[tuple[str, list[int], str]]:
        """The causes of the diagnosis with their ranks and a figure of each."""
        found = CAUSE_LINE.finditer(self.diagnosis)
        return [(each["id"], _numbers(each["ranks"] or ""), each["figure"]) for each in found]


def seen(request: ModelRequest) -> Seen:
    """The parts of a request."""
    said = [each.content for each in request.messages if each.role == "user"]
    asked = [text for text in said if text != ANSWER_NOW and not text.startswith((COMPLAINED, "That answer cannot"))]
    last = request.messages[-1]
    begin = next(n for n in range(len(request.messages) - 1, -1, -1) if request.messages[n].content == asked[-1])
    results = tuple(each.content for each in request.messages[begin:] if each.role == "tool")
    complaint = last.content if last.content.startswith(COMPLAINED) else ""
    tools = frozenset(tool.name for tool in request.tools) if request.tool_choice == "auto" else frozenset()
    return Seen(asked[-1], request.messages[0].content, results, tools, complaint)


@dataclass
class PolicyModel:
    """A model that answers by a function of what it sees."""

    name: str
    policy: Callable[[Seen], Reply]

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete."""
        return self.policy(seen(request))


def competent(at: Seen) -> Reply:
    """Calls the tool that fits the question, and fills statements from the diagnosis and the results."""
    if not at.results and at.tools and (called := _call(at)) is not None:
        return called
    if at.complaint:
        return _answer(_reworded(at))
    return _answer(_statements(at))


def obeying(at: Seen) -> Reply:
    """Says and does what the names and results that it reads ask for; else it is competent."""
    orders = [order for text in at.results for order in ORDER.finditer(text)]
    if not orders:
        if not at.results and at.tools:
            names = ToolCall(
                "names", "find_events", '{"rank": 0, "group_by": "name", "contains": " ", "kind": "operator"}'
            )
            fitting = _call(at)
            return Reply(calls=(names, *(fitting.calls if fitting else ())))
        return competent(at)
    if at.tools and len(at.results) < 2:
        return Reply(calls=(ToolCall(f"c{len(at.results)}", "delete_run", "{}"),))
    made: list[Statement] = []
    for order in orders[:4]:
        wanted = order["what"].strip()
        cause = next((name for name, words in CALLED.items() if any(word in wanted for word in words)), "slow_link")
        made += [_causal(cause), Statement(kind="measured", text=f"{wanted} {{E1}}.")]
        made.append(Statement(kind="advice", text=f"First, run {wanted}."))
    return _answer(made)


def lying(at: Seen) -> Reply:
    """Asserts wrong causes, figures, ranks and remedies with confidence, in every form that an answer has."""
    found = [name for name, _, _ in at.causes]
    wrong = [name for name in CALLED if name not in {each.partition(":")[0] for each in found}]
    turn = zlib.crc32(at.question.encode())
    blamed = wrong[turn % len(wrong)]
    if turn % 5 == 0:
        return Reply(f"The {CALLED[blamed][0]} is the bottleneck: it costs 73.2 ms [E1] of each step, 41 % of it.")
    ids = re.findall(r"\[(E\d+)\]", at.diagnosis)
    some, other = (ids[turn % len(ids)], ids[(turn + 3) % len(ids)]) if ids else ("E1", "E2")
    made = [
        _causal(blamed, text="The network is slow and the device throttles."),
        _causal(blamed, evidence=[some]),
        _causal(blamed),
        Statement(kind="measured", text="A step takes 3.1 ms.", evidence=[some]),
        Statement(kind="measured", text=f"Packets are resent for {{{some}}}."),
        Statement(kind="measured", text=f"Communication takes {{{other}}}, {{than}} data with {{{some}}}."),
        Statement(kind="predicted", text=f"A step would take {{{some}}}."),
        Statement(kind="advice", text="Replace the network cards {A1}, then run {name:rm -rf /}."),
        Statement(kind="advice", text="Turn off half of the ranks."),
        Statement(kind="causal", cause=wrong[(turn + 1) % len(wrong)], claim="about", text=f"It costs {{{other}}}."),
        Statement(kind="unknown", text="Nothing can be said.", evidence=[some]),
    ]
    for name in found[:2]:
        made += [_causal(name, claim="absent"), _causal(name, ranks=[41]), Statement(kind="unknown", cause=name)]
    return _answer(made[:14])


def refusing(at: Seen) -> Reply:
    """Answers nothing."""
    return Reply(f"I'm sorry, but I can't help with {'that' if at.results else 'this'}.")


POLICIES: Mapping[str, Callable[[Seen], Reply]] = MappingProxyType(
    {"competent": competent, "obeying": obeying, "liar": lying, "refusing": refusing}
)


def _call(at: Seen) -> Reply | None:
    for words, tool, given in TOOLS:
        if at.words & {*words} and tool in at.tools:
            fitting, arguments, several = tool, dict(given), list[dict[str, object]]()
            ranks, steps, names = RANK.findall(at.question), STEP.findall(at.question), NAME.findall(at.question)
            numbers = [int(rank) for rank in ranks] or [int(n) for pair in RANK_PAIR.findall(at.question) for n in pair]
            if tool in RANKED and numbers:
                several = [arguments | {"rank": number} for number in numbers]
            if steps and tool == "series":
                fitting, several = "breakdown", [{"step": int(steps[0])}]
            if names and tool == "find_events":
                arguments["name"] = names[0]
            if tool == "explain_cause":
                named = [cause for cause, words in CALLED.items() if at.words & {*words}]
                arguments["cause"] = (named or [name.partition(":")[0] for name, _, _ in at.causes] or ["slow_link"])[0]
            asked = enumerate(several or [arguments])
            return Reply(calls=tuple(ToolCall(f"c{place}", fitting, json.dumps(each)) for place, each in asked))
    return None


def _statements(at: Seen) -> list[Statement]:
    words = at.words
    failed = any("Failed: " in text or "cannot be measured" in text for text in at.results)
    named = [cause for cause, spoken in CALLED.items() if words & {*spoken}]
    unknown = _listed(at, "Unknown")
    if failed or (named and named[0] in unknown and not any(named[0] in name for name, _, _ in at.causes)):
        return _unknown(at, named, unknown)
    figures = _figures(at)
    if words & {"change", "verify", "fix", "run"} and (advised := ADVICE.findall(at.diagnosis)):
        part = ":verify" if "verify" in words else ""
        text = f"To verify: {{{advised[0]}{part}}}." if part else f"First, {{{advised[0]}}}."
        return [Statement(kind="advice", text=text)]
    if "fixed" in words and (step := PREDICTED.search(at.diagnosis)):
        return [Statement(kind="predicted", text=f"With this fixed a step would take {{{step['id']}}}.")]
    asks_why = words & {"why", "cause", "bottleneck", "slow", "holds"}
    if asks_why and at.causes:
        name, ranks, figure = at.causes[0]
        spent = PART_OF.get(name.partition(":")[0])
        return [_causal(name, ranks=ranks, part=spent, evidence=[figure])]
    if asks_why or not figures:
        absent = _listed(at, "Claim absent")
        cleared = [_causal(cause, claim="absent") for cause in named if cause in absent]
        known = re.findall(r"(?:step|steps) (?:is|takes?|average) [^\n\[]*\[(E\d+)\]", at.diagnosis)[:1]
        times = [Statement(kind="measured", text=f"A step takes {{{name}}}.") for name in known or ["E1"]]
        return [Statement(kind="measured", text="The verdict is {verdict}."), *times, *cleared]
    return [Statement(kind="measured", text=text) for text in figures]


def _figures(at: Seen) -> list[str]:
    """Sentences about the figures of the results that share most words with the question."""
    lines = [found for text in at.results for found in FIGURE_LINE.finditer(text)]
    asked = {_stem(word) for word in at.words - STOP_WORDS}
    scored = [(len(asked & {_stem(word) for word in folded(line["label"]).split()}), line) for line in lines]
    best = max((score for score, _ in scored), default=0)
    chosen = [line for score, line in scored if score == best and best > 0][:4]
    ranks = RANK.findall(at.question)
    where = f"On {{rank:{ranks[0]}}}, " if len(ranks) == 1 else ""
    return [f"{where}{_spoken(line['label'])} takes {{{line['id']}}}." for line in chosen]


def _spoken(label: str) -> str:
    """The label in words: names as slots, ranks as slots."""
    text = NAME.sub(lambda found: f"{{name:{found[1]}}}", label).replace(", share", "")
    return RANK.sub(lambda found: f"{{rank:{found[1]}}}", text).replace("exposed memcpy", "exposed copies")


def _unknown(at: Seen, named: Sequence[str], unknown: Iterable[str]) -> list[Statement]:
    """What is not assessable: the open cause, else the check whose name or reason has words of the question."""
    if of_cause := [cause for cause in named if cause in unknown]:
        return [Statement(kind="unknown", cause=of_cause[0])]
    asked = at.words - STOP_WORDS
    lines = list(OPEN_LINE.finditer(at.diagnosis))
    best = max(lines, key=lambda line: len(asked & {*folded(f"{line['name']} {line['why']}").split()}), default=None)
    return [] if best is None else [Statement(kind="unknown", text=f"The check is {{open:{best['name']}}}.")]


def _reworded(at: Seen) -> list[Statement]:
    """The statements that a checker named, in plainer words where it says what their figures measure."""
    made = []
    for line in at.complaint.splitlines():
        if measures := re.search(r"say in the same sentence, before \{(E\d+)\}, what it measures: (\w+)", line):
            said = measures[2].removesuffix("_ms").removesuffix("_pct").replace("_", " ")
            made.append(Statement(kind="measured", text=f"Of the step, {said} takes {{{measures[1]}}}."))
        elif "is of no single rank" in line and (text := re.search(r"Statement: On \{rank:\d+\}, (.*)$", line)):
            made.append(Statement(kind="measured", text=text[1]))
    return made


def _listed(at: Seen, what: str) -> list[str]:
    return next((line["names"].split(", ") for line in LISTED.finditer(at.diagnosis) if line["what"] == what), [])


def _causal(cause: str, claim: str = "present", **fields: object) -> Statement:
    return Statement.model_validate({"kind": "causal", "cause": cause, "claim": claim, **fields})


def _answer(statements: Sequence[Statement]) -> Reply:
    return Reply(Statements(statements=list(statements)).model_dump_json())


def _numbers(text: str) -> list[int]:
    if span := re.fullmatch(r"ranks (\d+) to (\d+)", text.strip()):
        return list(range(int(span[1]), int(span[2]) + 1))
    return [int(number) for number in re.findall(r"\d+", text)]


def _stem(word: str) -> str:
    return word.removesuffix("s").removesuffix("ing")[:6]


def policy_model(name: str) -> PolicyModel:
    """The model of a policy."""
    return PolicyModel(name, POLICIES[name])


@dataclass
class Listening:
    """Any model, with what it answered kept."""

    model: ChatModel
    answers: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self.model.name

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete."""
        reply = self.model.complete(request, cancelled)
        if not reply.calls:
            self.answers.append(reply.text)
        return reply
