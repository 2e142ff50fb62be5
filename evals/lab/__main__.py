"""``python -m evals.lab list``, ``record FAULT...``, ``record-all`` and ``labels``, the last three with ``--out``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from evals.lab.fault import faults
from evals.lab.job import Job, every_job, jobs, jobs_of_faults
from evals.lab.relabel import relabel
from evals.lab.sweep import Sweep
from tools.errors import HermesError

BUSY_SHARE = 0.25  # of the cores, over the last minute


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit code: 1 when any recording failed or a label does not hold."""
    options = _parser().parse_args(arguments)
    try:
        match options.command:
            case "list":
                return _list()
            case "record":
                return _record(jobs_of_faults(options.fault, options.variant), options.out, again=True)
            case "labels":
                return _relabel(options.out)
            case _:
                return _record(jobs(options.split, options.jobs_file), options.out, again=False)
    except HermesError as error:
        print(f"evals.lab: {error}", file=sys.stderr)
        return int(error.exit_code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals.lab", description="Record real trainings with known faults.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the faults that can be recorded")
    some = commands.add_parser("record", help="record faults and their fixed twins, again where they exist")
    some.add_argument("fault", nargs="+", help="an id from the list, or healthy")
    some.add_argument("--variant", help="one variant only, such as images-strong (default: all)")
    everything = commands.add_parser("record-all", help="record what is missing of the whole lab")
    everything.add_argument("--split", choices=("dev", "test"), help="one split only")
    everything.add_argument("--jobs-file", type=Path, help="a file with one FAULT/VARIANT a line instead of all")
    labels = commands.add_parser("labels", help="write the labels of recordings again as the registry has them now")
    for each in (some, everything, labels):
        each.add_argument("--out", type=Path, default=Path("results/lab"), help="folder of the recordings")
    return parser


def _list() -> int:
    for known in faults():
        names = " ".join(each.name for each in known.variants)
        cause = "/".join(filter(None, (known.cause, known.mechanism)))
        needs = f" (needs {', '.join(known.needs)})" if known.needs else ""
        print(f"{known.id:24} {cause:44} {names}{needs}")
    return 0


def _relabel(out: Path) -> int:
    done = relabel(every_job(), out)
    for name in done.changed:
        print(f"{name}: label written again")
    for name in done.unknown:
        print(f"{name}: not in the registry, left as it is")
    print(f"{len(done.changed)} changed, {len(done.same)} as they were, {len(done.unknown)} unknown")
    return 0


def _record(wanted: list[Job], out: Path, again: bool) -> int:
    busy = os.getloadavg()[0]
    if busy > BUSY_SHARE * (os.cpu_count() or 1):
        print(f"evals.lab: other programs keep this machine busy (load {busy:.1f}); what is recorded now holds their"
              " work as well, and labels may not hold", file=sys.stderr)  # fmt: skip
    sweep = Sweep(out, lambda text: print(text, file=sys.stderr, flush=True))
    for job in wanted:
        print(sweep.do(job, again), flush=True)
    print(sweep.summary())
    return int(sweep.failed)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that trainings and environment faults are taken down
    sys.exit(main())
