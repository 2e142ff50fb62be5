"""The declaration of a job's own output: what a training prints, its libraries and its launcher."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools.errors import InputError
from tools.run.kinds import JOB_LOG_FORMAT
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

if TYPE_CHECKING:
    from tools.run.model import Source
    from tools.run.recorded.job_log import JobLog

# Only where the content is out of reach; in a folder the content decides.
NAMES = re.compile(r".+\.(?:log|out|err|stdout|stderr)\Z|slurm-.+|nohup\.out\Z")

NOTHING_STATED = "no line with a step and its time, of NCCL, of a watchdog or of a known table"


BY_NAME = "rank {} is taken from the file's name"


def read_job_logs(found: Sequence[FolderFiles], anchor: Anchor, pattern: str = "") -> Contribution:
    """The record of all files that hold the job's output; a file that holds nothing of it is listed as excluded."""
    from tools.run.model import Source, SourceStatus
    from tools.sources.job_log.file_ranks import UNNAMED, of_rank, ranks_by_name
    from tools.sources.job_log.joined_logs import joined
    from tools.sources.job_log.one_job import of_another_job
    from tools.sources.job_log.reader import read_job_log

    logs: list[JobLog] = []
    places: list[int] = []  # of each log, in the sources
    sources: list[Source] = []
    notes: list[str] = []
    conflicts: list[str] = []
    for path in (file for each in found for file in each.files):
        try:
            read = read_job_log(path, len(logs), pattern)
        except InputError as error:
            sources.append(Source(path, JOB_LOG_FORMAT, (), "excluded", str(error)))
            continue
        notes += [f"{path.name}: {note}" for note in read.notes]
        note = "; ".join(read.notes)
        if read.log is None:
            sources.append(Source(path, JOB_LOG_FORMAT, (), "excluded", note or f"it has {NOTHING_STATED}"))
            continue
        status: SourceStatus = "partial" if read.partial else "complete"
        steps = len(read.log.steps)
        places.append(len(sources))
        sources.append(Source(path, JOB_LOG_FORMAT, read.ranks, status, note, bytes=_size(path), events=steps))
        logs.append(read.log)
    named = ranks_by_name([sources[at].path for at in places], logs)
    for at, rank in named.items():
        source = sources[places[at]]
        logs[at] = of_rank(logs[at], rank)
        sources[places[at]] = replace(source, ranks=(rank,), note=source.note.replace(UNNAMED, BY_NAME.format(rank)))
    if named:
        notes = [each for each in notes if not each.endswith(UNNAMED)]
        notes.append("of logs whose steps name no rank the rank is taken from the file's name")
    others = of_another_job(logs, anchor.world_size)
    for at, reason in others.items():
        source = sources[places[at]]
        left_out = f"it is {reason}, so it is of another run and left out"
        notes = [each for each in notes if not each.startswith(f"{source.path.name}: ")]
        conflicts.append(f"{source.path.name}: {left_out}")
        sources[places[at]] = replace(source, ranks=(), status="excluded", note=left_out)
    log, said = joined([each for at, each in enumerate(logs) if at not in others])
    if log is not None:  # records name a file by its place among all of them
        log = replace(log, files=tuple(name for each in logs for name in each.files))
    said = (*notes, *said)
    return Contribution(job_log=log, sources=tuple(sources), notes=said, conflicts=tuple(conflicts))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _recognises(path: Path, pattern: str = "") -> bool:
    from tools.sources.job_log.recognise import is_job_log

    return is_job_log(path, pattern)


JOB_LOG = RecordFormat(JOB_LOG_FORMAT, NAMES, read_job_logs, recognises=_recognises)


def job_log_by(pattern: str) -> RecordFormat:
    """The same with step lines as the user's pattern describes them."""
    return replace(
        JOB_LOG, read=partial(read_job_logs, pattern=pattern), recognises=partial(_recognises, pattern=pattern)
    )
