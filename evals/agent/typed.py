"""Typed questions answered without a model, scored against facts that were written before: right, missed or wrong.

    python -m evals.agent.typed            # the questions that the code was written with
    python -m evals.agent.typed --held-out # the others

Right: every figure and pattern of the question is in the answer. Missed: the answer says that it was not understood.
Wrong: anything else, thus also the answer to another question.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from evals.tables import table
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.questions.intents import NOT_UNDERSTOOD
from hermes_agent.session import Session
from tools.documents import parse_yaml

QUESTIONS = Path(__file__).with_name("typed_questions.yaml")
SHARED = Path(os.environ.get("HERMES_SHARED", Path(__file__).resolve().parents[2].parent / "shared"))
NEAR = 0.015  # relative difference up to which two figures are the same
FIGURE = re.compile(r"(?<![\w.])(\d+(?:,\d{3})*(?:\.\d+)?) ?(ms|us|s|%|x)(?![\w/])")
CELL = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?![\w.])")
IN_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
REFUSAL = re.compile(
    r"not (assessable|recorded|known|predicted|measured)|cannot|no trace|what it needs|was recorded;",
    re.IGNORECASE,
)
Outcome = Literal["right", "missed", "wrong"]


class Place(BaseModel):
    """The run of a question: the bundled one, or one of the shared folder; ``files`` takes some of its files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = ""
    shared: str = ""
    files: tuple[str, ...] = ()


class TypedQuestion(BaseModel):
    """One question and what a right answer holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: int
    kind: str
    run: str
    ask: str
    before: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    refuses: bool = False
    held_out: bool = False
    why: str = ""


class Document(BaseModel):
    """The file of questions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: dict[str, Place]
    questions: tuple[TypedQuestion, ...]


@dataclass(frozen=True)
class Scored:
    """One question, its answer, and what is missing in it."""

    question: TypedQuestion
    answer: str
    intent: str
    outcome: Outcome
    lacks: tuple[str, ...]


def questions() -> Document:
    """The questions and their runs."""
    return TypeAdapter(Document).validate_python(parse_yaml(QUESTIONS.read_text(encoding="utf-8")))


def place_of(place: Place, folder: Path) -> Path | None:
    """Where the run lies; None where the shared folder lacks it."""
    path = SHARED / place.shared if place.shared else demo_run()
    if not path.exists():
        return None
    if not place.files:
        return path
    target = folder / "some_files"
    target.mkdir(exist_ok=True)
    for name in place.files:
        shutil.copy(path / name, target)
    return target


def scored(question: TypedQuestion, answer: str, intent: str) -> Scored:
    """The outcome of one answer."""
    lacks = [figure for figure in question.figures if not holds(answer, figure)]
    lacks += [pattern for pattern in question.says if not re.search(pattern, answer, re.IGNORECASE)]
    if question.refuses and not REFUSAL.search(answer):
        lacks.append("a refusal")
    outcome: Outcome = "right" if not lacks else "missed" if intent == NOT_UNDERSTOOD else "wrong"
    return Scored(question, answer, intent, outcome, tuple(lacks))


def holds(answer: str, figure: str) -> bool:
    """Whether one of the alternatives of a figure stands in the answer; in a table the column has its unit."""
    found = [(float(number.replace(",", "")), unit) for number, unit in FIGURE.findall(answer)]
    cells = [float(text) for line in answer.splitlines() if line.startswith("|") for text in CELL.findall(line)]
    for text in figure.split("|"):
        number, unit = text.split()
        value = float(number) * IN_MS.get(unit, 1.0)
        same = [each * IN_MS.get(other, 1.0) for each, other in found if (other in IN_MS) == (unit in IN_MS)]
        same += cells if unit in ("ms", "%") else []
        if any(abs(each - value) <= NEAR * value for each in same):
            return True
    return False


def ask_all(chosen: Sequence[TypedQuestion], runs: dict[str, Place]) -> tuple[list[Scored], list[str]]:
    """Every question answered in a conversation of its own; and the runs that are not here."""
    found, absent = [], []
    with tempfile.TemporaryDirectory() as folder:
        for name, place in runs.items():
            own = [each for each in chosen if each.run == name]
            path = place_of(place, Path(folder))
            if path is None:
                absent.append(name)
            if path is None or not own:
                continue
            cache = Path(folder) / "cache"
            for each in own:
                with Session(Request((path,), cache_dir=cache), Settings(cache_dir=cache)) as session:
                    session.diagnose(ignore)
                    for earlier in each.before:
                        session.ask(earlier, ignore)
                    answer = session.ask(each.ask, ignore)
                found.append(scored(each, answer.text, answer.intent))
    return sorted(found, key=lambda each: each.question.id), absent


def report(results: Sequence[Scored]) -> str:
    """The table per kind, and what is missing in every answer that is not right."""
    kinds = dict.fromkeys(each.question.kind for each in results)
    outcomes: tuple[Outcome, ...] = ("right", "missed", "wrong")
    rows = []
    for kind in (*kinds, "all"):
        own = [each for each in results if kind in ("all", each.question.kind)]
        rows.append([kind, len(own), *(sum(each.outcome == outcome for each in own) for outcome in outcomes)])
    lines = table(("kind", "questions", *outcomes), rows)
    for each in results:
        if each.outcome != "right":
            lacks = "; ".join(each.lacks)
            lines.append(f"{each.question.id} {each.outcome} ({each.intent}): {each.question.ask!r} lacks {lacks}")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Score typed questions answered without a model.")
    parser.add_argument("--held-out", action="store_true", help="the questions that the code was not written with")
    parser.add_argument("--all", action="store_true", help="all questions")
    parser.add_argument("--answers", action="store_true", help="print the answers as well")
    args = parser.parse_args()
    document = questions()
    chosen = [each for each in document.questions if args.all or each.held_out == args.held_out]
    results, absent = ask_all(chosen, document.runs)
    if args.answers:
        for each in results:
            print(f"## {each.question.id} {each.question.ask} ({each.outcome})\n\n{each.answer}\n")
    print(report(results))
    if absent:
        print(f"Not here, so not asked: {', '.join(absent)} (set HERMES_SHARED)")


if __name__ == "__main__":
    main()
