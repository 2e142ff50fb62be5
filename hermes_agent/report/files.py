"""Files made of a run: written whole or not at all, and never over a file of the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hermes_agent.locations.reading import read_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from tools.errors import UsageError
from tools.knowledge.thresholds import Thresholds
from tools.leftovers import write_whole
from tools.sources.inventory import take_inventory
from tools.sources.options import Limits, Silent
from tools.views.profile import Profile


def profile_behind(request: Request, diagnosis: Diagnosis) -> Profile:
    """The run of a diagnosis, read again; of many ranks those that were read in full."""
    ranks = request.ranks if diagnosis.run.screening is None else tuple(diagnosis.run.ranks)
    return Profile(read_run(replace(request, ranks=ranks), Silent()), Thresholds(dict(request.thresholds)))


def _files_of(request: Request) -> set[Path]:
    """The files of all ranks, records and the baseline, whatever part of them was asked for."""
    runs = [each for each in (request.paths, request.baseline) if each]
    return {file.resolve() for paths in runs for file in take_inventory(paths, Limits()).files}


def write_report(target: Path, content: bytes, request: Request) -> None:
    """Write a file so that it is never seen half; UsageError where it is one of the run's or cannot be written."""
    if target.exists() and target.resolve() in _files_of(request):
        raise UsageError(f"{target} is a file of this run, which is never overwritten; name another file")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is no plain file; name another one")
    if not write_whole(target.resolve(), [content]):
        raise UsageError(f"{target}: cannot be written; choose another place, or free some space")
