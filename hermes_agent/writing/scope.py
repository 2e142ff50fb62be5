"""Whether the ranks and steps that a clause names are those its figure was measured on."""

from __future__ import annotations

import re

from hermes_agent.evidence.clauses import Clause
from hermes_agent.evidence.verifier import PLACES
from hermes_agent.model.diagnosis import EvidenceRecord

RANGE = re.compile(r"(\d+)\s*(?:to|-|–|:)\s*(\d+)")
TOGETHER = re.compile(r"\b(the|all|other|of all) ranks\b|\bcollectives\b", re.IGNORECASE)
LONGEST = ("max", "min")
MOST = 4096  # ranks or steps of one range


def out_of_scope(record: EvidenceRecord, sentence: str, clause: Clause, ranks: int) -> str:
    """What is wrong when the words name a rank or step that the figure is not of; "" when nothing is."""
    named = _named(sentence, clause, "rank")
    of_record = _ranks_of(record)
    own = _numbers(words_of(sentence, clause), "rank")
    together = TOGETHER.search(clause.text)
    if len(own) == 1 and ranks > 1 and of_record is None and record.metric != "step_time_ms" and not together:
        return f"{record.id} is of all ranks together, not of rank {min(own)}"
    if named and of_record is not None and not named & of_record:
        return f"{record.id} is of rank {', '.join(map(str, sorted(of_record)))}, not of {_list(named)}"
    steps = _named(sentence, clause, "step")
    step = record.arguments.get("step")
    if steps and isinstance(step, int) and step not in steps:
        return f"{record.id} is of step {step}, not of {_list(steps)}"
    if steps and step is None and record.arguments.get("statistic") not in LONGEST and len(record.steps) > len(steps):
        return f"{record.id} is over all steps, not of step {_list(steps)}"
    return ""


def _list(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _ranks_of(record: EvidenceRecord) -> set[int] | None:
    """The ranks a figure was asked for; None when for all."""
    for name in ("rank", "last_rank"):
        value = record.arguments.get(name)
        if isinstance(value, int):
            return {value}
    listed = str(record.arguments.get("ranks") or "")
    return {int(part) for part in re.findall(r"\d+", listed)} or None


def _named(sentence: str, clause: Clause, what: str) -> set[int]:
    """Numbers after ``rank`` or ``step`` in the clause; in the sentence before it where the clause names none."""
    return _numbers(words_of(sentence, clause), what) or _numbers(sentence[: len(clause.before)], what)


def words_of(sentence: str, clause: Clause) -> str:
    """The clause as it stands in its sentence, with code and places."""
    begin = len(clause.before)
    figure = clause.figure
    end = (figure.start + len(figure.text) if figure else begin + len(clause.head)) + len(clause.tail)
    return sentence[begin:end]


def _numbers(text: str, what: str) -> set[int]:
    found: set[int] = set()
    for match in PLACES.finditer(text):
        if match["what"].lower().startswith(what):
            found |= {int(number) for number in re.findall(r"\d+", match["list"])}
            for first, last in RANGE.findall(match["list"]):
                found |= set(range(int(first), min(int(last), int(first) + MOST) + 1))
    return found
