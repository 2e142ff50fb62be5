"""Files of a report: written whole or not at all, and never over the run that they report on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hermes_agent.locations.reading import read_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from tools.errors import UsageError
from tools.knowledge.thresholds import Thresholds
from tools.leftovers import write_whole
from tools.sources.options import Silent
from tools.views.profile import Profile


def profile_behind(request: Request, diagnosis: Diagnosis) -> Profile:
    """The run of a diagnosis, read again; of many ranks those that were read in full."""
    ranks = request.ranks if diagnosis.run.screening is None else tuple(diagnosis.run.ranks)
    return Profile(read_run(replace(request, ranks=ranks), Silent()), Thresholds(dict(request.thresholds)))


def write_report(target: Path, content: bytes, sources: Sequence[Path]) -> None:
    """Write a file so that it is never seen half; UsageError where it is one of the run's or cannot be written."""
    if any(target.resolve() == source.resolve() for source in sources):
        raise UsageError(f"{target} is a file of this run, which is never overwritten; name another file")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is no plain file; name another one")
    if not write_whole(target.resolve(), [content]):
        raise UsageError(f"{target}: cannot be written; choose another place, or free some space")
