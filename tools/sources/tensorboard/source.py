"""The declaration of TensorBoard event files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import TENSORBOARD_FORMAT
from tools.sources.decompress import beginning
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

NAMES = re.compile(r".*tfevents.*")  # only where the content is out of reach
START_BYTES = 16


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The series of the file with the most steps; one that cannot be used is left out with a note."""
    from tools.run.model import Source, SourceStatus
    from tools.run.recorded.job_log import JobLog
    from tools.sources.tensorboard.reader import read_events
    from tools.sources.tracked_steps import most_steps

    logs: list[JobLog] = []
    sources: list[Source] = []
    notes: list[str] = []
    for path in (file for each in found for file in each.files):
        try:
            read = read_events(path)
        except InputError as error:
            sources.append(Source(path, TENSORBOARD_FORMAT, (), "excluded", str(error)))
            continue
        note = "; ".join(read.notes)
        if read.log is None:
            sources.append(Source(path, TENSORBOARD_FORMAT, (), "excluded", note or "it holds no scalars"))
            continue
        notes += [f"{path.name}: {each}" for each in read.notes]
        status: SourceStatus = "partial" if read.partial else "complete"
        size = path.stat().st_size
        sources.append(Source(path, TENSORBOARD_FORMAT, (), status, note, bytes=size, events=read.scalars))
        logs.append(read.log)
    log, said = most_steps(logs)
    return Contribution(job_log=log, sources=tuple(sources), notes=(*notes, *said))


def _recognises(path: Path) -> bool:
    from tools.sources.tensorboard.events import is_event_file

    try:
        return is_event_file(bytes(beginning(path, START_BYTES).data))
    except OSError:
        return False


TENSORBOARD = RecordFormat(TENSORBOARD_FORMAT, NAMES, _read, recognises=_recognises, nested=True)
