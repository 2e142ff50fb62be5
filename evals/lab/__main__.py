"""``python -m evals.lab list`` and ``python -m evals.lab record FAULT --out FOLDER``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from evals.lab.faults import FAULTS, fault
from evals.lab.measure import Interval
from evals.lab.record import label, record
from tools.errors import HermesError, UsageError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "list":
                _list()
            case _:
                _record(options.fault, options.out)
    except HermesError as error:
        print(f"evals.lab: {error}", file=sys.stderr)
        return int(error.exit_code)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals.lab", description="Record real trainings with known faults.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the faults that can be recorded")
    recording = commands.add_parser("record", help="record a fault and its mended twin")
    recording.add_argument("fault", help="an id from the list")
    recording.add_argument("--out", type=Path, default=Path("results/lab"), help="folder to write to")
    return parser


def _list() -> None:
    for known in FAULTS:
        print(f"{known.id:24} {known.cause}/{known.mechanism}, ranks {list(known.ranks)}")


def _record(fault_id: str, out: Path) -> None:
    chosen = fault(fault_id)
    if importlib.util.find_spec("torch") is None:
        raise UsageError("recording needs PyTorch, which is not installed; install the extra: pip install '.[lab]'")
    recorded = record(chosen, out, tell=lambda text: print(text, file=sys.stderr))
    print(f"before  {_text(recorded.comparison.before_ms)} ms per step")
    print(f"after   {_text(recorded.comparison.after_ms)} ms per step")
    print(f"speedup {_text(recorded.comparison.speedup)}")
    print(f"label   {json.dumps(label(chosen))}")
    print(f"written {recorded.folder}")


def _text(interval: Interval) -> str:
    return f"{interval.median:.2f} [{interval.low:.2f}, {interval.high:.2f}]"


if __name__ == "__main__":
    sys.exit(main())
