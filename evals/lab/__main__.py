"""``python -m evals.lab list``, ``record FAULT...``, ``record-all`` and ``labels``, the last three with ``--out``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

from evals.lab.job import Job, every_job, jobs, jobs_of_faults, relabel
from evals.lab.launch import Launch, launch
from evals.lab.record import LEAST_SAVING_PCT, Notify, Recorded, complete, record
from tools.errors import HermesError, UsageError


class Sweep:
    """One call of the command: where it writes and what became of its jobs."""

    def __init__(self, out: Path, notify: Notify, run: Launch = launch, measured_steps: int | None = None) -> None:
        self._out, self._notify, self._run, self._steps = out, notify, run, measured_steps
        self.done: list[str] = []
        self.kept: list[str] = []
        self.skipped: list[str] = []
        self.failures: list[str] = []

    @property
    def failed(self) -> bool:
        """Return whether anything failed, or nothing at all was recorded or there already."""
        return bool(self.failures) or not (self.done or self.kept)

    def do(self, job: Job, again: bool) -> str:
        """Record one job unless it is complete; gives its report."""
        if not again and complete(self._out / job.name):
            self.kept.append(job.name)
            return f"{job.name}: complete already"
        lacking = missing(job)
        if lacking:
            self.skipped.append(job.name)
            return f"{job.name}: skipped, {lacking}"
        try:
            return self._recorded(job)
        except HermesError as error:
            self.failures.append(job.name)
            shutil.rmtree(self._out / job.name, ignore_errors=True)
            return f"{job.name}: FAILED, {error}"

    def summary(self) -> str:
        """Counts and the names of what failed."""
        counts = f"{len(self.done)} recorded, {len(self.kept)} complete already, {len(self.skipped)} skipped"
        return f"{counts}, {len(self.failures)} failed" + "".join(f"\n  failed: {name}" for name in self.failures)

    def _recorded(self, job: Job) -> str:
        if importlib.util.find_spec("torch") is None and self._run is launch:
            raise UsageError("recording needs PyTorch, which is not installed; install the extra: pip install '.[lab]'")
        recorded = record(job, self._out, self._notify, self._steps, self._run)
        (self.done if recorded is None or recorded.label_holds else self.failures).append(job.name)
        lines = [f"{job.name}: recorded, healthy"] if recorded is None else _lines(job, recorded)
        return "\n".join([*lines, f"written {self._out / job.name}"])


def missing(job: Job) -> str:
    """Return why this machine cannot record it; nothing when it can."""
    if "gpu" in job.needs and not has_gpu():
        return "this machine has no GPU that PyTorch can use"
    if "compiler" in job.needs and shutil.which("g++") is None:
        return "g++ is not installed"
    return next(filter(None, (scenario.missing() for scenario in job.scenarios.values())), "")


def has_gpu() -> bool:
    """Return whether PyTorch is there and sees a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _lines(job: Job, recorded: Recorded) -> list[str]:
    """The measurement of a pair, and the right answer; all of it is in ``measured.json`` and ``label.json``."""
    comparison, label = recorded.comparison, job.label
    cause = "/".join(filter(None, (label["cause"], label["mechanism"])))
    others = "".join(f", or {each['cause']}" for each in label["also_right"])
    lines = [
        job.name,
        f"before  {comparison.before_ms} ms per step ({job.fault.statistic if job.fault else 'median'})",
        f"after   {comparison.after_ms} ms per step",
        f"speedup {comparison.speedup}, saves {comparison.saving_pct} % of the step",
        f"label   {cause}{others}; ranks {label['ranks']}; the answer must name {', '.join(label['must_name'])}",
    ]
    if not recorded.losses_agree:
        lines.insert(1, "FAILED: both scenarios should compute the same, and their losses differ")
    elif not recorded.label_holds:
        lines.insert(1, f"FAILED: fixing saves less than {LEAST_SAVING_PCT:.0f} % or than the noise; strengthen it")
    return lines


BUSY_SHARE = 0.25  # of the cores, over the last minute


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the exit code: 1 when any recording failed or a label does not hold."""
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
    options = parser.parse_args(arguments)
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


def _list() -> int:
    names: dict[str, list[str]] = {}
    for job in every_job():
        names.setdefault(job.kind, []).append(job.variant)
    for known in {job.kind: job.fault for job in every_job()}.values():
        if known is not None:
            cause = "/".join(filter(None, (known.cause, known.mechanism)))
            needs = f" (needs {', '.join(known.needs)})" if known.needs else ""
            print(f"{known.id:24} {cause:44} {' '.join(names[known.id])}{needs}")
    return 0


def _relabel(out: Path) -> int:
    found = relabel(out)
    texts = {"changed": "label written again", "unknown": "not in the registry, left as it is"}
    for name, became in found.items():
        if became in texts:
            print(f"{name}: {texts[became]}")
    counts = Counter(found.values())
    print(f"{counts['changed']} changed, {counts['same']} as they were, {counts['unknown']} unknown")
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
