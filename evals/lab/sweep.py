"""Do one recording after another: skip what is complete or impossible, go on after failures, count all of it."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

from evals.lab.fault import label
from evals.lab.healthy import record_healthy
from evals.lab.job import Control, Job, Pair
from evals.lab.launch import Launch, launch
from evals.lab.measure import Interval
from evals.lab.record import LEAST_SAVING_PCT, Notify, Recorded, record
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
        """Whether anything failed, or nothing at all was recorded or there already."""
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
        if isinstance(job, Control):
            folder = record_healthy(job.run, self._out, self._notify, by=self._run)
            self.done.append(job.name)
            return f"{job.name}: recorded, healthy\nwritten {folder}"
        recorded = record(job.fault, job.variant, self._out, self._notify, self._steps, self._run)
        (self.done if recorded.label_holds else self.failures).append(job.name)
        return _told(job, recorded)


def complete(folder: Path) -> bool:
    """Whether a recording ended: its last file is there, its runs are, and its label holds."""
    try:
        measured: dict[str, Any] = json.loads((folder / "measured.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    runs = ("run",) if measured.get("schema") == "hermes-dx/lab-healthy/1" else ("slow", "fixed")
    whole = all((folder / run / "run.json").is_file() for run in runs) and (folder / "label.json").is_file()
    return whole and bool(measured.get("label_holds", True))


def missing(job: Job) -> str:
    """Why this machine cannot record it; nothing when it can."""
    if isinstance(job, Control):
        return job.run.scenario.missing()
    if "gpu" in job.fault.needs and not has_gpu():
        return "this machine has no GPU that PyTorch can use"
    if "compiler" in job.fault.needs and shutil.which("g++") is None:
        return "g++ is not installed"
    return job.variant.slow.missing() or job.variant.fixed.missing()


def has_gpu() -> bool:
    """Whether PyTorch is there and sees a CUDA device."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


def _told(job: Pair, recorded: Recorded) -> str:
    comparison = recorded.comparison
    lines = [
        f"before  {_text(comparison.before_ms)} ms per step ({job.fault.statistic})",
        f"after   {_text(comparison.after_ms)} ms per step",
        f"speedup {_text(comparison.speedup)}, saves {_text(comparison.saving_pct)} % of the step",
        f"label   {_label_text(label(job.fault, job.variant))}",
        f"written {recorded.folder}",
    ]
    if not recorded.losses_agree:
        lines.insert(0, "FAILED: both scenarios should compute the same, and their losses differ")
    elif not recorded.label_holds:
        lines.insert(0, f"FAILED: fixing saves less than {LEAST_SAVING_PCT:.0f} % or than the noise; strengthen it")
    return "\n".join([job.name, *lines])


def _label_text(label: dict[str, Any]) -> str:
    """The right answer in a line; all of it is in ``label.json``."""
    cause = "/".join(filter(None, (label["cause"], label["mechanism"])))
    others = "".join(f", or {each['cause']}" for each in label["also_right"])
    return f"{cause}{others}; ranks {label['ranks']}; the answer must name {', '.join(label['must_name'])}"


def _text(interval: Interval) -> str:
    return f"{interval.median:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
