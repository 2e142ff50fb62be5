"""Ask a question about a run, or several from standard input as one conversation."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_selection_arguments, log_pattern_of, request_of, settings
from hermes_agent.cli.terminal import TerminalProgress, note, print_json
from hermes_agent.evidence.printable import printable
from hermes_agent.locations.places import PASTED, URL, Place, place
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hermes_agent.session import Answer

SCHEMA = "hermes-dx/answer/1"
UNANSWERED = ("not_understood", "not_measurable")
MOST_QUESTIONS = 100
UNASKED = "why is it slow?"  # of text that was pasted without a question
QUESTION_CHARS = 20_000  # read from standard input at most


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``ask``."""
    words = (
        "files, folders, URLs or a registered name, then the question; without one, or with -, standard input, one per "
        "line; - in place of the run: text from standard input, such as the end of a log"
    )
    parser.add_argument("words", nargs="+", metavar="RUN... [QUESTION]", help=words)
    add_selection_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print the answer with its evidence as JSON")
    parser.add_argument("--no-llm", action="store_true", help="answer from templates even if a model is configured")
    parser.add_argument("--strict", action="store_true", help="exit with 4 when the question was not answered")


def run(args: argparse.Namespace) -> int:
    """Diagnose the run, or take the stored diagnosis, and answer."""
    from hermes_agent.session import Session

    args.run_paths, question = _split(args.words)
    chosen = settings(no_llm=args.no_llm)
    if args.run_paths == [PASTED]:
        from hermes_agent.locations.paste import pasted, question_in, standard_input

        text = standard_input()
        question = question or question_in(text) or UNASKED
        cache_dir = None if args.no_cache else chosen.cache_dir
        args.run_paths = [pasted(text, cache_dir, log_pattern_of(args, chosen))]
    questions = [question] if question else _lines(sys.stdin.read(QUESTION_CHARS))
    if not questions:
        raise UsageError("there is no question; write it after the run or send it to standard input")
    with Session(request_of(args, chosen), chosen) as session, TerminalProgress() as progress:
        session.diagnose(progress)
        answers = [(each, session.ask(each, progress)) for each in questions]
    if args.json:
        replies = [_reply(*each) for each in answers]
        print_json({"schema": SCHEMA, **replies[0]} if len(replies) == 1 else {"schema": SCHEMA, "answers": replies})
    else:
        _print(answers)
    unanswered = any(answer.intent in UNANSWERED for _, answer in answers)
    return ExitCode.INCONCLUSIVE if args.strict and unanswered else ExitCode.OK


def _lines(text: str) -> list[str]:
    """One question per line, without empty lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > MOST_QUESTIONS:
        raise UsageError(f"there are {len(lines)} questions; at most {MOST_QUESTIONS} can be asked at once")
    return lines


def _split(words: list[str]) -> tuple[list[Place], str]:
    """Runs first; the last word is the question unless it is ``-``, a file, folder or URL, or the only one."""
    last = words[-1]
    if len(words) > 1 and last == "-":
        return [place(word) for word in words[:-1]], ""
    try:
        is_run = len(words) == 1 or bool(URL.match(last)) or Path(last).exists()
    except (OSError, ValueError):  # too long, or with a character no path can have
        is_run = False
    runs = words if is_run else words[:-1]
    return [place(word) for word in runs], "" if is_run else last


def _print(answers: Sequence[tuple[str, Answer]]) -> None:
    for number, (question, answer) in enumerate(answers):
        if len(answers) > 1:
            gap = "\n" if number else ""
            print(f"{gap}> {printable(question)}\n")
        print(answer.text)
        for each in answer.notes:
            note(each)


def _reply(question: str, answer: Answer) -> dict[str, object]:
    reply = {"text": answer.text, "by": answer.by, "intent": answer.intent}
    evidence = [each.model_dump(mode="json") for each in answer.evidence]
    return {"question": question, **reply, "evidence": evidence, "notes": list(answer.notes)}
