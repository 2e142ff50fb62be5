"""How well recall finds, how well it abstains and what it costs: ``python -m evals.retrieval`` writes RESULTS.md."""

from __future__ import annotations

import argparse
from pathlib import Path

from case_library.library import BUNDLED_CASES, load_cases
from evals.retrieval.asked import ask_all
from evals.retrieval.cost import measured, measured_enlarged
from evals.retrieval.library import Library
from evals.retrieval.questions import load_questions
from evals.retrieval.report import report

RESULTS = Path(__file__).parent / "RESULTS.md"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(prog="python -m evals.retrieval", description=__doc__)
    parser.add_argument("--large", type=int, default=20_000, help="cases of the enlarged library; 0 leaves it out")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    asked = ask_all(Library(load_cases()), load_questions())
    timings = [measured(BUNDLED_CASES)]
    if args.large:
        timings.append(measured_enlarged(args.large))
    command = "python -m evals.retrieval" + ("" if args.large == 20_000 else f" --large {args.large}")
    args.out.write_text(report(asked, timings, command), encoding="utf-8")


if __name__ == "__main__":
    main()
