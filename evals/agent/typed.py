"""Typed questions answered without a model, scored against facts that were written before the answers.

    python -m evals.agent.typed            # the questions that the code was written with
    python -m evals.agent.typed --held-out # a third of them, held out
    python -m evals.agent.typed --unseen   # a second held-out set, written by others
    python -m evals.agent.typed --engineers  # a third one: a log next to traces, an Ascend folder, a job's output alone
    python -m evals.agent.typed --eight-runs # a fourth one: five questions over each of eight runs

Right: every fact is a statement of the answer's beginning, and most of what stands there is about it. Wrong: another
figure or rank. Missed: neither. Not understood: the program says so, which is never right.
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

from evals.agent.stated import MOST_FIGURES, Figure, Stated, figure_of, stated
from evals.results.tables import table
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.questions.kinds import NOT_UNDERSTOOD
from hermes_agent.session import Session
from tools.documents import parse_yaml

QUESTIONS = Path(__file__).with_name("typed_questions.yaml")
UNSEEN = Path(__file__).with_name("unseen_questions.yaml")
ENGINEERS = Path(__file__).with_name("engineers_questions.yaml")
EIGHT_RUNS = Path(__file__).with_name("eight_runs_questions.yaml")
SHARED = Path(os.environ.get("HERMES_SHARED", Path(__file__).resolve().parents[2].parent / "shared"))
LEAD = 6  # statements in which an answer has to stand, one more for each further fact
LEAST_PRECISION = 1 / 3  # of the statements with a figure of the asked unit, and of the ranks that are named
Outcome = Literal["right", "missed", "not understood", "wrong"]


class Place(BaseModel):
    """The run of a question: the bundled one, or one of the shared folder; ``files`` takes some of its files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = ""
    shared: str = ""
    files: tuple[str, ...] = ()


class Fact(BaseModel):
    """One statement of a right answer: it matches each pattern of ``about`` and holds one of the values, if any."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    about: tuple[str, ...] = ()
    value: str = ""

    @property
    def figures(self) -> list[Figure]:
        """The values that are right."""
        return [figure_of(text) for text in self.value.split("|") if text.strip()]

    def is_about(self, statement: Stated) -> bool:
        """Whether the statement is about the place and quantity of this fact."""
        return all(re.search(pattern, statement.text, re.IGNORECASE) for pattern in self.about)

    def holds(self, statement: Stated) -> bool:
        """Whether the statement says this."""
        figures = self.figures
        if not self.is_about(statement) or len(statement.figures) > MOST_FIGURES:
            return False
        return not figures or any(found.near(wanted) for found in statement.figures for wanted in figures)


class TypedQuestion(BaseModel):
    """One question and what a right answer holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: int
    kind: str
    run: str
    ask: str
    before: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    rank: int | None = None  # the one that it is about
    missing: str = ""  # what the run lacks, where it cannot show it
    unit: str = ""  # of a figure that only a made-up answer could give
    held_out: bool = False
    why: str = ""


class Document(BaseModel):
    """A file of questions."""

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


def questions(file: Path = QUESTIONS) -> Document:
    """The questions and their runs."""
    return TypeAdapter(Document).validate_python(parse_yaml(file.read_text(encoding="utf-8")))


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
    """The outcome of one answer.

    An answer has to stand in its first statements; those that only repeat the question do not count. Wrong is what
    states a figure of the asked unit, or a rank, and not what was asked; what states neither is missed.
    """
    if intent == NOT_UNDERSTOOD:
        return Scored(question, answer, intent, "not understood", ("understanding",))
    repeated = _words(question.ask)
    own = [each for each in stated(answer) if _words(each.text) - repeated]
    lead = own[: LEAD + max(len(question.facts) - 1, 0)]
    if question.missing:
        lacks = [*_made_up(lead, question), *_no_source(lead, question)]
        return Scored(question, answer, intent, "wrong" if lacks else "right", tuple(lacks))
    lacks = [_spoken(fact) for fact in question.facts if not any(fact.holds(each) for each in lead)]
    lacks += _imprecise(lead, question.facts)
    lacks += _of_other_ranks(lead, question.rank)
    asserts = any(_of_asked_unit(each, question.facts) or each.ranks for each in lead)
    return Scored(question, answer, intent, "right" if not lacks else "wrong" if asserts else "missed", tuple(lacks))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.lower()))


def _spoken(fact: Fact) -> str:
    return " ".join(part for part in (fact.value, *fact.about) if part)


def _of_asked_unit(statement: Stated, facts: Sequence[Fact]) -> bool:
    wanted = {figure.dimension for fact in facts for figure in fact.figures} or {"time", "share"}
    return any(figure.dimension in wanted for figure in statement.figures)


def _imprecise(lead: Sequence[Stated], facts: Sequence[Fact]) -> list[str]:
    """What an answer lacks that says too much: up to the last fact most figures are of something else."""
    valued = [fact for fact in facts if fact.value]
    places = [place for place, each in enumerate(lead, 1) if any(fact.holds(each) for fact in valued)]
    given = [each for each in lead[: max(places, default=0)] if _of_asked_unit(each, valued)]
    fitting = sum(any(fact.is_about(each) for fact in valued) for each in given)
    return ["precision"] if given and fitting < LEAST_PRECISION * len(given) else []


def _of_other_ranks(lead: Sequence[Stated], rank: int | None) -> list[str]:
    """What an answer about one rank lacks: that rank first, and not a list of ranks."""
    named = list(dict.fromkeys(rank for each in lead for rank in each.ranks))
    if rank is None or not named:
        return []
    return [] if named[0] == rank and len(named) <= 1 / LEAST_PRECISION else [f"rank {rank} alone"]


def _made_up(lead: Sequence[Stated], question: TypedQuestion) -> list[str]:
    if not question.unit:
        return []
    dimension = figure_of(f"1 {question.unit}").dimension
    return [f"no figure in {question.unit}"] if any(f.dimension == dimension for s in lead for f in s.figures) else []


def _no_source(lead: Sequence[Stated], question: TypedQuestion) -> list[str]:
    """The source that an answer does not name; one that names many of the sources of all questions names none."""
    known = {each.missing for file in (QUESTIONS, UNSEEN) for each in questions(file).questions if each.missing}
    text = " ".join(each.text for each in lead)
    named = [pattern for pattern in known if re.search(pattern, text, re.IGNORECASE)]
    states = any(re.search(question.missing, each.text, re.IGNORECASE) for each in lead)
    return [] if states and len(named) <= 1 / LEAST_PRECISION else [f"the missing source {question.missing}"]


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
    outcomes: tuple[Outcome, ...] = ("right", "missed", "not understood", "wrong")
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
    parser.add_argument("--unseen", action="store_true", help=f"the second held-out set, {UNSEEN.name}")
    parser.add_argument("--engineers", action="store_true", help=f"the third set, {ENGINEERS.name}")
    parser.add_argument("--eight-runs", action="store_true", help=f"the fourth set, {EIGHT_RUNS.name}")
    parser.add_argument("--all", action="store_true", help="all questions of the first file")
    parser.add_argument("--answers", action="store_true", help="print the answers as well")
    args = parser.parse_args()
    others = {UNSEEN: args.unseen, ENGINEERS: args.engineers, EIGHT_RUNS: args.eight_runs}
    chosen_file = next((file for file, wanted in others.items() if wanted), QUESTIONS)
    document = questions(chosen_file)
    everything = args.all or chosen_file != QUESTIONS
    chosen = [each for each in document.questions if everything or each.held_out == args.held_out]
    results, absent = ask_all(chosen, document.runs)
    if args.answers:
        for each in results:
            print(f"## {each.question.id} {each.question.ask} ({each.outcome})\n\n{each.answer}\n")
    print(report(results))
    if absent:
        print(f"Not here, so not asked: {', '.join(absent)} (set HERMES_SHARED)")


if __name__ == "__main__":
    main()
