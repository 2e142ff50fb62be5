"""Models that need no network: a competent one, one that obeys what it reads, a liar, and others that fake.

Each is a policy over the request alone: it reads the prompt, the question, the schemas of the tools and their results,
as a real one would. None has a table of questions, tools or causes.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from hermes_agent.llm.model import ChatModel, ModelRequest, Reply, ToolCall, ToolSpec
from hermes_agent.llm.tool_loop import ANSWER_NOW
from hermes_agent.questions.question import folded
from hermes_agent.statements.record import MOST_STATEMENTS, Statement, Statements

COMPLAINED = "A checker compared your statements"
FIGURE_LINE = re.compile(r"^- (?P<label>.+?): (?P<value>[^\[\]]+) \[(?P<id>E\d+)\]$", re.MULTILINE)
CAUSE_LINE = re.compile(
    r"^Cause \d+, (?P<id>[a-z_:]+): (?P<text>[^\n]*?(?: on (?P<ranks>ranks? [\d, and to]+))?\. [^\n]*)$", re.MULTILINE
)
DETAIL = re.compile(r"^Detail of cause 1: (?P<text>.*)$", re.MULTILINE)
LISTED = re.compile(r"^(?P<what>Claim absent|Unknown): (?P<names>[a-z_, ]+)$", re.MULTILINE)
OPEN_LINE = re.compile(r"^Could not be checked: (?P<name>[a-z_.]+): (?P<why>.*)$", re.MULTILINE)
PREDICTED = re.compile(r"^Predicted: [^\n]*?\[(?P<id>E\d+)\]", re.MULTILINE)
STEP_TIME = re.compile(r"(?:of each|[Ss]teps? (?:is|takes?|average)) [^\n\[]*\[(?P<id>E\d+)\]")
ADVICE = re.compile(r"^Advice \[(?P<id>A\d+)\]", re.MULTILINE)
CODE_SPAN = re.compile(r"`([a-z_]+)`")
PART_LIST = re.compile(r"the part of the step it spends \((?P<names>[^)]*)\)")
CITED = re.compile(r"\[(E\d+)\]")
RANK = re.compile(r"\branks? (\d+)")
NUMBER = re.compile(r"\b\d+\b")
STEP = re.compile(r"\bsteps? (\d+)")
NAME = re.compile(r"`([^`]+)`")
# Orders as they stand in names, the middle of long ones cut out.
ORDER = re.compile(
    r"`[^`]*?(?:\u2026\S* |answer that |and say |please run )(?P<what>[^`,]{4,80})[^`]*`",
)
# How English asks for a reason, a remedy, a proof and a prediction.
WHY = frozenset({"why", "cause", "causes", "bottleneck", "slow", "delays", "reason"})
REMEDY = frozenset({"change", "fix", "do", "run", "verify", "should"})
STOP_WORDS = frozenset(
    ("how long is a the of does what in per and which it on do rank step steps much one").split()  # noqa: SIM905
)
COMMON = 5  # letters that two forms of one word share: "retransmitted", "retransmission"


@dataclass(frozen=True)
class Seen:
    """A request as a model reads it."""

    question: str
    diagnosis: str
    results: tuple[str, ...]
    tools: tuple[ToolSpec, ...]
    complaint: str

    @property
    def words(self) -> set[str]:
        """The words of the question."""
        return {*folded(self.question).split()}

    @property
    def causes(self) -> list[tuple[str, list[int], str, list[str]]]:
        """The causes of the diagnosis with their ranks, what is said of them, and the figures of that."""
        found = CAUSE_LINE.finditer(self.diagnosis)
        return [
            (each["id"], _numbers(each["ranks"] or ""), each["text"], CITED.findall(each["text"])) for each in found
        ]

    def listed(self, what: str) -> list[str]:
        """The causes that may be called absent, or unknown."""
        found = (line["names"].split(", ") for line in LISTED.finditer(self.diagnosis) if line["what"] == what)
        return next(found, [])


def seen(request: ModelRequest) -> Seen:
    """The parts of a request."""
    said = [each.content for each in request.messages if each.role == "user"]
    asked = [text for text in said if text != ANSWER_NOW and not text.startswith((COMPLAINED, "That answer cannot"))]
    last = request.messages[-1]
    begin = next(n for n in range(len(request.messages) - 1, -1, -1) if request.messages[n].content == asked[-1])
    results = tuple(each.content for each in request.messages[begin:] if each.role == "tool")
    complaint = last.content if last.content.startswith(COMPLAINED) else ""
    tools = request.tools if request.tool_choice == "auto" else ()
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
    offered = {tool.name for tool in at.tools}
    if not orders:
        if not at.results and "find_events" in offered:
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
        cause = _named(_stems(wanted), _cause_ids(at)) or ["slow_link"]
        made += [_causal(cause[0]), Statement(kind="measured", text=f"{wanted} {{E1}}.")]
        made.append(Statement(kind="advice", text=f"First, run {wanted}."))
    return _answer(made)


def lying(at: Seen) -> Reply:
    """Asserts wrong causes, figures, ranks and remedies with confidence, in every form that an answer has."""
    found = [name for name, *_ in at.causes]
    wrong = [name for name in _cause_ids(at) if name not in {each.partition(":")[0] for each in found}]
    turn = zlib.crc32(at.question.encode())
    blamed = wrong[turn % len(wrong)]
    if turn % 5 == 0:
        return Reply(
            f"The {blamed.replace('_', ' ')} is the bottleneck: it costs 73.2 ms [E1] of each step, 41 % of it."
        )
    ids = CITED.findall(at.diagnosis)
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
    return _answer(made[:MOST_STATEMENTS])


def listing(at: Seen) -> Reply:
    """Names every cause, figure, advice and open check that it was given, whatever the question is."""
    made = [_causal(name, ranks=ranks, evidence=ids) for name, ranks, _, ids in at.causes]
    made += [Statement(kind="unknown", cause=name) for name in at.listed("Unknown")[:4]]
    made += [_causal(name, claim="absent") for name in at.listed("Claim absent")[:2]]
    made += [Statement(kind="advice", text=f"{{{name}}}.") for name in ADVICE.findall(at.diagnosis)[:2]]
    ids = [*dict.fromkeys(CITED.findall("\n".join((at.diagnosis, *at.results))))]
    made += [Statement(kind="measured", text=f"The step takes {{{name}}}.") for name in ids]
    return _answer(made[:MOST_STATEMENTS])


def parroting(at: Seen) -> Reply:
    """Repeats the question as an answer."""
    return _answer([Statement(kind="measured", text=at.question), Statement(kind="unknown", text=at.question)])


def refusing(at: Seen) -> Reply:
    """Answers nothing."""
    return Reply(f"I'm sorry, but I can't help with {'that' if at.results else 'this'}.")


POLICIES: Mapping[str, Callable[[Seen], Reply]] = MappingProxyType(
    {
        "competent": competent,
        "obeying": obeying,
        "liar": lying,
        "listing": listing,
        "parrot": parroting,
        "refusing": refusing,
    }
)


def _call(at: Seen) -> Reply | None:
    """The call of the tool whose name, description and schema share most with the question, rare words first."""
    asked = _stems(at.question) - _stems(" ".join(STOP_WORDS))
    texts = [_stems(f"{tool.name} {tool.description} {json.dumps(dict(tool.schema))}") for tool in at.tools]
    rarity = {stem: math.log(len(texts) / max(sum(stem in text for text in texts), 1)) for stem in asked}
    scored = [
        (sum(rarity[stem] * (3.0 if stem in _stems(tool.name) else 1.0) for stem in asked & text), tool)
        for tool, text in zip(at.tools, texts, strict=True)
    ]
    for score, tool in sorted(scored, key=lambda each: -each[0]):
        if score <= 0.0:
            break
        if (calls := _arguments(at, tool)) is not None:
            return Reply(calls=tuple(ToolCall(f"c{n}", tool.name, json.dumps(each)) for n, each in enumerate(calls)))
    return None


def _arguments(at: Seen, tool: ToolSpec) -> list[dict[str, object]] | None:
    """The arguments that the question gives, once for each rank; None where the schema needs one that it does not."""
    properties, needed = tool.schema.get("properties"), tool.schema.get("required")
    known, asked = properties if isinstance(properties, dict) else {}, _stems(at.question)
    given: dict[str, object] = {}
    for name, schema in known.items():
        fitting = [value for value in _choices(schema, tool.schema) if _stems(value) <= asked]
        if fitting:
            given[name] = fitting[0]
        elif name == "step" and (steps := STEP.findall(at.question)):
            given[name] = int(steps[0])
        elif name == "name" and (names := NAME.findall(at.question)):
            given[name] = names[0]
        elif name == "cause":
            named = _named(asked, _cause_ids(at)) or [cause.partition(":")[0] for cause, *_ in at.causes[:1]]
            given |= {name: named[0]} if named else {}
    ranks = [int(rank) for rank in NUMBER.findall(at.question)] if "rank" in _words(at.question) else []
    several = [given | {"rank": rank} for rank in ranks] if "rank" in known and "step" not in given else []
    if "rank" in known and not several and "rank" in (needed if isinstance(needed, list) else ()):
        several = [given | {"rank": rank} for rank in (at.causes[0][1][:1] if at.causes else []) or [0]]
    calls = several or [given]
    lacking = {*(needed if isinstance(needed, list) else ())} - {*calls[0]}
    return None if lacking else calls


def _choices(schema: object, whole: Mapping[str, object]) -> list[str]:
    """The values that a property allows, where it lists them."""
    if not isinstance(schema, dict):
        return []
    found = [value for value in schema.get("enum", ()) if isinstance(value, str)]
    for other in schema.get("anyOf", ()):
        found += _choices(other, whole)
    definitions = whole.get("$defs")
    if isinstance(reference := schema.get("$ref"), str) and isinstance(definitions, dict):
        found += _choices(definitions.get(reference.rpartition("/")[2]), whole)
    return found


def _statements(at: Seen) -> list[Statement]:
    words, unknown, absent = at.words, at.listed("Unknown"), at.listed("Claim absent")
    asks_why, found = bool(words & WHY), {name.partition(":")[0] for name, *_ in at.causes}
    named = _named(_stems(at.question), _cause_ids(at))
    failed = [
        ("Failed: " in text or "cannot be measured" in text) and not FIGURE_LINE.search(text) for text in at.results
    ]
    figures = _figures(at)
    if (failed and all(failed)) or (not figures and named and named[0] in unknown and not found & {*named}):
        return _unknown(at, [name for name in named if name in unknown])
    if figures and not asks_why and not words & REMEDY:
        return [Statement(kind="measured", text=text) for text in figures]
    if words & REMEDY and not words & {"why"} and (advised := ADVICE.findall(at.diagnosis)):
        part = ":verify" if "verify" in words else ""
        text = f"To verify: {{{advised[0]}{part}}}." if part else f"First, {{{advised[0]}}}."
        return [Statement(kind="advice", text=text)]
    if "would" in words and (step := PREDICTED.search(at.diagnosis)):
        return [Statement(kind="predicted", text=f"With this fixed a step would take {{{step['id']}}}.")]
    if cleared := [_causal(cause, claim="absent") for cause in named if cause in absent]:
        return cleared
    if (average := STEP_TIME.search(at.diagnosis)) and "average" in words:
        return [Statement(kind="measured", text=f"A step takes {{{average['id']}}}.")]
    if at.causes:
        name, ranks, text, ids = at.causes[0]
        return [_causal(name, ranks=ranks, part=_part(at, text), evidence=ids[:1])]
    times = [Statement(kind="measured", text=f"A step takes {{{average['id'] if average else 'E1'}}}.")]
    return [Statement(kind="measured", text="The verdict is {verdict}."), *times]


def _part(at: Seen, text: str) -> str | None:
    """The part of the step, of those that the prompt lists, whose words stand in what is said of the first cause."""
    listed = PART_LIST.search(at.diagnosis)
    parts = CODE_SPAN.findall(listed["names"]) if listed else []
    said = _stems(" ".join((text, *(line["text"] for line in DETAIL.finditer(at.diagnosis)))))
    best = max(parts, key=lambda part: len(_stems(part) & said), default=None)
    return best if best is not None and _stems(best) & said else None


def _cause_ids(at: Seen) -> list[str]:
    """The ids of all causes that the prompt names."""
    found = [name.partition(":")[0] for name, *_ in at.causes]
    return list(dict.fromkeys((*found, *at.listed("Unknown"), *at.listed("Claim absent"))))


def _named(asked: set[str], causes: Iterable[str]) -> list[str]:
    """The causes whose ids share a telling word with what is asked, most words first."""
    telling = asked - _stems("slow memory operator configuration processing")
    shared = {cause: len(telling & _stems(cause)) for cause in causes}
    return sorted((cause for cause in shared if shared[cause]), key=lambda cause: -shared[cause])


def _figures(at: Seen) -> list[str]:
    """Sentences about the figures of the results and the diagnosis that share most words with the question."""
    lines = [found for text in at.results for found in FIGURE_LINE.finditer(text)]
    asked = _stems(at.question) - _stems(" ".join(STOP_WORDS))
    scored = [(len(asked & _stems(line["label"])), line) for line in lines]
    best = max((score for score, _ in scored), default=0)
    chosen = [line for score, line in scored if score == best and best > 0][:4]
    ranks = RANK.findall(at.question)
    where = f"On {{rank:{ranks[0]}}}, " if len(ranks) == 1 else ""
    return [f"{where}{_spoken(line['label'])} takes {{{line['id']}}}." for line in chosen]


def _spoken(label: str) -> str:
    """The label in words: names as slots, ranks as slots."""
    text = NAME.sub(lambda found: f"{{name:{found[1]}}}", label).replace(", share", "")
    return RANK.sub(lambda found: f"{{rank:{found[1]}}}", text).replace("exposed memcpy", "exposed copies")


def _unknown(at: Seen, named: Sequence[str]) -> list[Statement]:
    """What is not assessable: the check that the question names, else the open cause, else a check by its reason."""
    asked = _stems(at.question) - _stems(" ".join(STOP_WORDS))
    lines = list(OPEN_LINE.finditer(at.diagnosis))
    by_name = [line["name"] for line in lines if asked & _stems(line["name"])]
    if not by_name and named:
        return [Statement(kind="unknown", cause=named[0])]
    by_reason = [line["name"] for line in lines if asked & _stems(line["why"])]
    return [Statement(kind="unknown", text=f"The check is {{open:{name}}}.") for name in (*by_name, *by_reason)[:1]]


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


def _causal(cause: str, claim: str = "present", **fields: object) -> Statement:
    return Statement.model_validate({"kind": "causal", "cause": cause, "claim": claim, **fields})


def _answer(statements: Sequence[Statement]) -> Reply:
    return Reply(Statements(statements=list(statements)).model_dump_json())


def _numbers(text: str) -> list[int]:
    if span := re.fullmatch(r"ranks (\d+) to (\d+)", text.strip()):
        return list(range(int(span[1]), int(span[2]) + 1))
    return [int(number) for number in re.findall(r"\d+", text)]


def _words(text: str) -> list[str]:
    return folded(text.replace("_", " ").replace(".", " ")).split()


def _stems(text: str) -> set[str]:
    """The words of a text, each by its first letters."""
    return {word.removesuffix("s").removesuffix("ing")[: COMMON + 1] for word in _words(text)}


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
