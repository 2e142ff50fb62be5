"""A competent policy: it chooses tools by their schemas and fills statements from the prompt and the results.

It has no table of questions, tools or causes: what it decides by are words that the question shares with what it reads.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence

from evals.agent.seen import Seen, answer, causal, cause_ids, named_causes, stems, words_of
from hermes_agent.llm.model import Reply, ToolCall, ToolSpec
from hermes_agent.statements.record import Statement

FIGURE_LINE = re.compile(r"^- (?P<label>.+?): (?P<value>[^\[\]]+) \[(?P<id>E\d+)\]$", re.MULTILINE)
DETAIL = re.compile(r"^Detail of cause 1: (?P<text>.*)$", re.MULTILINE)
OPEN_LINE = re.compile(r"^Could not be checked: (?P<name>[a-z_.]+): (?P<why>.*)$", re.MULTILINE)
PREDICTED = re.compile(r"^Predicted: [^\n]*?\[(?P<id>E\d+)\]", re.MULTILINE)
STEP_TIME = re.compile(r"(?:of each|[Ss]teps? (?:is|takes?|average)) [^\n\[]*\[(?P<id>E\d+)\]")
ADVICE = re.compile(r"^Advice \[(?P<id>A\d+)\]", re.MULTILINE)
CODE_SPAN = re.compile(r"`([a-z_]+)`")
PART_LIST = re.compile(r"the part of the step it spends \((?P<names>[^)]*)\)")
RANK = re.compile(r"\branks? (\d+)")
NUMBER = re.compile(r"\b\d+\b")
STEP = re.compile(r"\bsteps? (\d+)")
NAME = re.compile(r"`([^`]+)`")
# How English asks for a reason, a remedy, a proof and a prediction.
WHY = frozenset({"why", "cause", "causes", "bottleneck", "slow", "delays", "reason"})
REMEDY = frozenset({"change", "fix", "do", "run", "verify", "should"})
STOP_WORDS = frozenset(
    ("how long is a the of does what in per and which it on do rank step steps much one").split()  # noqa: SIM905
)


def competent(at: Seen) -> Reply:
    """Calls the tool that fits the question, and fills statements from the diagnosis and the results."""
    if not at.results and at.tools and (called := call_for(at)) is not None:
        return called
    if at.complaint:
        return answer(_reworded(at))
    return answer(_statements(at))


def call_for(at: Seen) -> Reply | None:
    """The call of the tool whose name, description and schema share most with the question, rare words first."""
    asked = stems(at.question) - stems(" ".join(STOP_WORDS))
    texts = [stems(f"{tool.name} {tool.description} {json.dumps(dict(tool.schema))}") for tool in at.tools]
    rarity = {stem: math.log(len(texts) / max(sum(stem in text for text in texts), 1)) for stem in asked}
    scored = [
        (sum(rarity[stem] * (3.0 if stem in stems(tool.name) else 1.0) for stem in asked & text), tool)
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
    known, asked = properties if isinstance(properties, dict) else {}, stems(at.question)
    given: dict[str, object] = {}
    for name, schema in known.items():
        fitting = [value for value in _choices(schema, tool.schema) if stems(value) <= asked]
        if fitting:
            given[name] = fitting[0]
        elif name == "step" and (steps := STEP.findall(at.question)):
            given[name] = int(steps[0])
        elif name == "name" and (names := NAME.findall(at.question)):
            given[name] = names[0]
        elif name == "cause":
            named = named_causes(asked, cause_ids(at)) or [cause.partition(":")[0] for cause, *_ in at.causes[:1]]
            given |= {name: named[0]} if named else {}
    ranks = [int(rank) for rank in NUMBER.findall(at.question)] if "rank" in words_of(at.question) else []
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
    named = named_causes(stems(at.question), cause_ids(at))
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
    if cleared := [causal(cause, claim="absent") for cause in named if cause in absent]:
        return cleared
    if (average := STEP_TIME.search(at.diagnosis)) and "average" in words:
        return [Statement(kind="measured", text=f"A step takes {{{average['id']}}}.")]
    if at.causes:
        name, ranks, text, ids = at.causes[0]
        return [causal(name, ranks=ranks, part=_part(at, text), evidence=ids[:1])]
    times = [Statement(kind="measured", text=f"A step takes {{{average['id'] if average else 'E1'}}}.")]
    return [Statement(kind="measured", text="The verdict is {verdict}."), *times]


def _part(at: Seen, text: str) -> str | None:
    """The part of the step, of those that the prompt lists, whose words stand in what is said of the first cause."""
    listed = PART_LIST.search(at.diagnosis)
    parts = CODE_SPAN.findall(listed["names"]) if listed else []
    said = stems(" ".join((text, *(line["text"] for line in DETAIL.finditer(at.diagnosis)))))
    best = max(parts, key=lambda part: len(stems(part) & said), default=None)
    return best if best is not None and stems(best) & said else None


def _figures(at: Seen) -> list[str]:
    """Sentences about the figures of the results and the diagnosis that share most words with the question."""
    lines = [found for text in at.results for found in FIGURE_LINE.finditer(text)]
    asked = stems(at.question) - stems(" ".join(STOP_WORDS))
    scored = [(len(asked & stems(line["label"])), line) for line in lines]
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
    asked = stems(at.question) - stems(" ".join(STOP_WORDS))
    lines = list(OPEN_LINE.finditer(at.diagnosis))
    by_name = [line["name"] for line in lines if asked & stems(line["name"])]
    if not by_name and named:
        return [Statement(kind="unknown", cause=named[0])]
    by_reason = [line["name"] for line in lines if asked & stems(line["why"])]
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
