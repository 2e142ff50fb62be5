"""Bring the labels of recordings up to date with the registry; the runs stay as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.lab.fault import label
from evals.lab.healthy import label as healthy_label
from evals.lab.job import Control, Job
from evals.lab.record import write
from tools.errors import InputError

LABEL = "label.json"


@dataclass(frozen=True)
class Relabelled:
    """Names of recordings (``fault/variant``) by what became of their labels."""

    changed: tuple[str, ...]
    same: tuple[str, ...]
    unknown: tuple[str, ...]  # recorded, but not in the registry: left as they are


def relabel(known: Sequence[Job], out: Path) -> Relabelled:
    """Write the label of every recording below ``out`` again; raises InputError where there is none."""
    recorded = sorted(file.parent.relative_to(out).as_posix() for file in out.glob(f"*/*/{LABEL}"))
    if not recorded:
        raise InputError(f"{out} holds no recordings of the lab; name the folder that they were written to")
    jobs = {job.name: job for job in known}
    mine = [name for name in recorded if name in jobs]
    changed = tuple(name for name in mine if _written(jobs[name], out / name / LABEL))
    same = tuple(name for name in mine if name not in changed)
    return Relabelled(changed, same, tuple(name for name in recorded if name not in jobs))


def _written(job: Job, file: Path) -> bool:
    """Whether the label was another one, which it is no more."""
    new = healthy_label(job.run) if isinstance(job, Control) else label(job.fault, job.variant)
    if _read(file) == new:
        return False
    write(file, new)
    return True


def _read(file: Path) -> dict[str, Any] | None:
    """The label as it is; None where it cannot be read, as it is written again in any case."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found
