"""The declaration of ``trainer_state.json``, which is named as traces are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import TRAINER_FORMAT
from tools.sources.decompress import begins_object_with
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

NAMES = re.compile(r"trainer_state\.json\Z")  # only where the content is out of reach
LOOKED_AT_BYTES = 4096  # its names are sorted: those before the records are few
MARKS = (b'"log_history"', b'"global_step"')


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The summary of the state with the most steps: each checkpoint holds the state of its step."""
    from tools.run.model import Source
    from tools.run.recorded.job_log import JobLog
    from tools.sources.trainer_state.reader import STEPS, read_state

    logs: list[JobLog] = []
    sources: list[Source] = []
    for path in (file for each in found for file in each.files):
        try:
            log = read_state(path)
        except InputError as error:
            sources.append(Source(path, TRAINER_FORMAT, (), "excluded", str(error)))
            continue
        sources.append(Source(path, TRAINER_FORMAT, (), "complete", bytes=path.stat().st_size, events=1))
        logs.append(log)
    last = max(logs, key=lambda log: log.whole(STEPS) or 0, default=None)
    notes = tuple(source.note for source in sources if source.note)
    return Contribution(job_log=last, sources=tuple(sources), notes=notes)


def _recognises(path: Path) -> bool:
    return begins_object_with(path, MARKS, LOOKED_AT_BYTES)


TRAINER_STATE = RecordFormat(TRAINER_FORMAT, NAMES, _read, recognises=_recognises, nested=True)
