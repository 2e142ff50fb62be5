"""Recall, abstention and cost of retrieval, measured: ``python -m evals.retrieval`` writes RESULTS.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from case_library.library import BUNDLED_CASES, load_cases
from case_library.retrieval.asked import asked_lines
from case_library.retrieval.external_embeddings import MiniLmEmbedding
from evals.retrieval.asking import Library, ask_all
from evals.retrieval.cost import measured, measured_enlarged
from evals.retrieval.paraphrases import SETS, ask_lines, ask_set, load_paraphrases
from evals.retrieval.questions import load_questions
from evals.retrieval.report import report

RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m evals.retrieval", description=__doc__)
    parser.add_argument("--large", type=int, default=20_000, help="cases of the enlarged library; 0 leaves it out")
    parser.add_argument("--minilm", type=Path, metavar="FOLDER", help="a folder of MiniLM weights to compare with")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    cases, questions = load_cases(), load_questions()
    library = Library(cases)
    asked = ask_all(library, questions)
    paraphrased = {name: ask_set(library, load_paraphrases(name)) for name in SETS}
    paraphrased["lines, in folds"] = ask_lines(library, asked_lines())
    compared = ask_all(Library(cases, MiniLmEmbedding(args.minilm)), questions) if args.minilm else None
    timings = [measured(BUNDLED_CASES)]
    if args.large:
        timings.append(measured_enlarged(args.large))
    command = "python -m evals.retrieval" + ("" if args.large == 20_000 else f" --large {args.large}")
    command += " --minilm FOLDER" if args.minilm else ""
    args.out.write_text(report(asked, timings, command, compared, paraphrased), encoding="utf-8")


if __name__ == "__main__":
    main()
