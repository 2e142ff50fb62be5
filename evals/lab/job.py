"""What is to be recorded: variants of faults, and healthy runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.lab.fault import Fault, Split, Variant, fault, faults, variant
from evals.lab.healthy import RUNS, Healthy
from tools.errors import InputError, UsageError

HEALTHY = "healthy"


@dataclass(frozen=True)
class Pair:
    """One variant of a fault and its fixed twin."""

    fault: Fault
    variant: Variant

    @property
    def name(self) -> str:
        """Its folder."""
        return f"{self.fault.id}/{self.variant.name}"

    @property
    def split(self) -> Split:
        """Development or test."""
        return self.variant.split


@dataclass(frozen=True)
class Control:
    """One healthy run."""

    run: Healthy

    @property
    def name(self) -> str:
        """Its folder."""
        return f"{HEALTHY}/{self.run.name}"

    @property
    def split(self) -> Split:
        """Development or test."""
        return self.run.split


Job = Pair | Control


def every_job() -> list[Job]:
    """The whole lab."""
    return [*(Pair(each, one) for each in faults() for one in each.variants), *(Control(run) for run in RUNS)]


def jobs(split: Split | None, names_file: Path | None = None) -> list[Job]:
    """The jobs of a split, or those that a file names one a line; raises UsageError for a name without a job."""
    known = {job.name: job for job in every_job()}
    if names_file is not None:
        try:
            names = [line.strip() for line in names_file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except OSError as error:
            raise InputError(f"{names_file} cannot be read ({error.strerror}); name a file of jobs") from error
        unknown = [name for name in names if name not in known]
        if unknown:
            raise UsageError(f"the lab has no job {unknown[0]!r}; a job is FAULT/VARIANT, see the command list")
        known = {name: known[name] for name in names}
    found = [job for job in known.values() if split in (None, job.split)]
    if not found:
        raise UsageError("nothing is to be recorded; name at least one job")
    return found


def jobs_of_faults(fault_ids: Sequence[str], variant_name: str | None) -> list[Job]:
    """All variants of these faults or the named one; ``healthy`` stands for the healthy runs."""
    found: list[Job] = []
    for fault_id in fault_ids:
        if fault_id == HEALTHY:
            found += [Control(run) for run in RUNS if variant_name in (None, run.name)]
            continue
        known = fault(fault_id)
        chosen = known.variants if variant_name is None else (variant(known, variant_name),)
        found += [Pair(known, each) for each in chosen]
    if not found:
        raise UsageError(f"no healthy run is called {variant_name!r}")
    return found
