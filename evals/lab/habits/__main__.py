"""``python -m evals.lab.habits list``, and with ``--out``: ``record ID...``, ``record-all`` and ``labels``."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path

from evals.lab.habits.launch import Launch, launch
from evals.lab.habits.record import RECORDED, complete, label_holds, record, relabel
from evals.lab.habits.table import Entry, chosen
from evals.lab.record import LEAST_SAVING_PCT
from tools.errors import HermesError


def main(arguments: list[str] | None = None, run: Launch = launch) -> int:
    """Run one command; gives the exit code: 1 when a recording failed or its label does not hold."""
    parser = argparse.ArgumentParser(prog="python -m evals.lab.habits", description="Record scripts of other habits.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the entries of the tables")
    some = commands.add_parser("record", help="record entries, again where they exist")
    some.add_argument("id", nargs="+", help="an id from the list")
    everything = commands.add_parser("record-all", help="record what is missing")
    everything.add_argument("--split", choices=("dev", "test"), help="one split only")
    labels = commands.add_parser("labels", help="write the labels of recordings again as the tables have them now")
    for each in (some, everything, labels):
        each.add_argument("--out", type=Path, default=RECORDED, help="folder of the recordings")
    options = parser.parse_args(arguments)
    try:
        match options.command:
            case "list":
                print("\n".join(map(_line, chosen([]))))
                return 0
            case "labels":
                return _relabel(options.out)
            case "record":
                return _record(chosen(options.id), options.out, run)
            case _:
                missing = [each for each in chosen([], options.split) if not complete(options.out / each.id)]
                return _record(missing, options.out, run)
    except HermesError as error:
        print(f"evals.lab.habits: {error}", file=sys.stderr)
        return int(error.exit_code)


def _line(entry: Entry) -> str:
    causes = " + ".join(entry.label.causes) or "healthy"
    return f"{entry.id:28} {entry.split:5} {entry.script:24} {entry.processes} {causes}"


def _relabel(out: Path) -> int:
    for entry in chosen([]):
        if complete(out / entry.id):
            relabel(entry, out / entry.id)
    return 0


def _record(wanted: list[Entry], out: Path, run: Launch) -> int:
    failed = 0
    for entry in wanted:
        if lacking := entry.missing():
            print(f"{entry.id}: skipped, {lacking}", flush=True)
            continue
        try:
            comparison = record(entry, out, lambda text: print(text, file=sys.stderr, flush=True), run)
        except HermesError as error:
            print(f"{entry.id}: FAILED, {error}", flush=True)
            shutil.rmtree(out / entry.id, ignore_errors=True)
            failed += 1
            continue
        if comparison is None:
            print(f"{entry.id}: recorded, healthy", flush=True)
            continue
        print(
            f"{entry.id}: {comparison.before_ms} -> {comparison.after_ms} ms per step, "
            f"speedup {comparison.speedup}, saves {comparison.saving_pct} %",
            flush=True,
        )
        if not label_holds(comparison):
            print(f"{entry.id}: FAILED, fixing saves less than {LEAST_SAVING_PCT:.0f} % or than the noise", flush=True)
            failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that trainings and environment faults are taken down
    sys.exit(main())
