"""The files of a recorded run by their source: the profiler's traces, the training's log, records of the host."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from evals.suite.case_schema import Sources
from tools.sources.decompress import unpacked_name
from tools.sources.environment import ENVIRONMENT
from tools.sources.inventory import is_trace_file
from tools.sources.monitor.source import MONITOR
from tools.sources.step_log import STEP_LOG

ALONE: tuple[Sources, ...] = ("traces", "log", "records")
NOTES = re.compile(r"(run|label|measured|metadata)\.json\Z")  # about the recording, no part of what a user has


def parts(sources: Sources) -> tuple[Sources, ...]:
    """The single sources of a selection: ``traces+log`` is the traces and the log."""
    return tuple(each for each in ALONE if each in sources.split("+"))


def files_of(run: Path) -> Mapping[Sources, tuple[Path, ...]]:
    """The files of each source, relative to the run folder; monitor records and the environment are ``records``."""
    found: dict[Sources, list[Path]] = {sources: [] for sources in ALONE}
    for file in sorted(run.rglob("*")):
        if file.is_file() and not (file.parent == run and NOTES.match(file.name)):
            found[_source(file.relative_to(run))].append(file.relative_to(run))
    return {sources: tuple(files) for sources, files in found.items()}


def _source(file: Path) -> Sources:
    if file.parent.name == MONITOR.folder or ENVIRONMENT.names.match(unpacked_name(file)):
        return "records"
    return "traces" if is_trace_file(file.name) else "log"


def alone(run: Path) -> tuple[Sources, ...]:
    """The sources by which a run is judged without its others: those that it has, where it has more than one.

    The environment alone says nothing of a run's steps: without monitor records there are no ``records``.
    """
    have = files_of(run)
    present = [sources for sources in ALONE if have[sources]]
    if len(present) < 2:
        return ()
    return tuple(sources for sources in present if sources != "records" or monitored(run))


def selections(run: Path) -> tuple[Sources, ...]:
    """The selections by which a run is judged again: each source alone, and each pair where it has all three."""
    single = alone(run)
    pairs: tuple[Sources, ...] = tuple(each for each in get_args(Sources) if len(parts(each)) == 2)
    return (*single, *pairs) if len(single) == len(ALONE) else single


def monitored(run: Path) -> bool:
    """Return whether monitor records show what the host did: without them nobody saw who else had its cores."""
    return any(file.parent.name == MONITOR.folder for file in files_of(run)["records"])


def step_logged(run: Path) -> bool:
    """Return whether one of the logs has the form that is read: of other logs nothing can be asked."""
    return any(STEP_LOG.names.match(unpacked_name(file)) for file in files_of(run)["log"])


def copy_of(run: Path, sources: Sources, target: Path, linked: bool = False) -> Path:
    """A copy of the run in ``target`` with the files of these sources only.

    ``linked`` makes links to the recorded files instead, which must not be changed then.
    """
    if sources == "all":
        shutil.copytree(run, target, dirs_exist_ok=True)
        return target
    target.mkdir(parents=True, exist_ok=True)
    for file in (file for part in parts(sources) for file in files_of(run)[part]):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        if not (linked and _link(run / file, target / file)):
            shutil.copyfile(run / file, target / file)
    return target


def _link(file: Path, target: Path) -> bool:
    """Return whether a hard link was made; another file system, or files of another user, may not allow it."""
    try:
        os.link(file, target, follow_symlinks=True)
    except OSError:
        return False
    return True
