"""A request as a model reads it, for the models of the evaluation that need no network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes_agent.llm.model import ModelRequest, Reply, ToolSpec
from hermes_agent.llm.tool_loop import ANSWER_NOW
from hermes_agent.questions.reading.question import folded
from hermes_agent.statements.record import Statement, Statements

COMPLAINED = "A checker compared your statements"
CAUSE_LINE = re.compile(
    r"^Cause \d+, (?P<id>[a-z_:]+): (?P<text>[^\n]*?(?: on (?P<ranks>ranks? [\d, and to]+))?\. [^\n]*)$", re.MULTILINE
)
LISTED = re.compile(r"^(?P<what>Claim absent|Unknown): (?P<names>[a-z_, ]+)$", re.MULTILINE)
CITED = re.compile(r"\[(E\d+)\]")
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


def cause_ids(at: Seen) -> list[str]:
    """The ids of all causes that the prompt names."""
    found = [name.partition(":")[0] for name, *_ in at.causes]
    return list(dict.fromkeys((*found, *at.listed("Unknown"), *at.listed("Claim absent"))))


def named_causes(asked: set[str], causes: Iterable[str]) -> list[str]:
    """The causes whose ids share a telling word with what is asked, most words first."""
    telling = asked - stems("slow memory operator configuration processing")
    shared = {cause: len(telling & stems(cause)) for cause in causes}
    return sorted((cause for cause in shared if shared[cause]), key=lambda cause: -shared[cause])


def causal(cause: str, claim: str = "present", **fields: object) -> Statement:
    """A causal statement; ``claim`` is present unless it is given."""
    return Statement.model_validate({"kind": "causal", "cause": cause, "claim": claim, **fields})


def answer(statements: Sequence[Statement]) -> Reply:
    """Statements as the reply of a model."""
    return Reply(Statements(statements=list(statements)).model_dump_json())


def stems(text: str) -> set[str]:
    """The words of a text, each by its first letters."""
    return {word.removesuffix("s").removesuffix("ing")[: COMMON + 1] for word in words_of(text)}


def words_of(text: str) -> list[str]:
    """The words of a text or an id, folded."""
    return folded(text.replace("_", " ").replace(".", " ")).split()


def _numbers(text: str) -> list[int]:
    if span := re.fullmatch(r"ranks (\d+) to (\d+)", text.strip()):
        return list(range(int(span[1]), int(span[2]) + 1))
    return [int(number) for number in re.findall(r"\d+", text)]
