"""The declaration of W&B run files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import WANDB_FORMAT
from tools.run.recorded.counters import CounterRecords, joined_counters
from tools.sources.decompress import beginning
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

NAMES = re.compile(r".+\.wandb\Z")  # only where the content is out of reach
MAGIC = b":W&B\xe1\xbe"


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """Series, output and samples of all files; one that cannot be used is left out with a note."""
    from tools.run.model import Source, SourceStatus
    from tools.run.recorded.job_log import JobLog
    from tools.sources.tracked_steps import most_steps
    from tools.sources.wandb_file.reader import read_wandb

    logs: list[JobLog] = []
    counters: CounterRecords | None = None
    sources: list[Source] = []
    notes: list[str] = []
    for path in (file for each in found for file in each.files):
        try:
            read = read_wandb(path)
        except InputError as error:
            sources.append(Source(path, WANDB_FORMAT, (), "excluded", str(error)))
            continue
        notes += [f"{path.name}: {note}" for note in read.notes]
        note = "; ".join(read.notes)
        if read.log is None and read.counters is None:
            nothing = note or "it holds no steps, no samples and no output of a training"
            sources.append(Source(path, WANDB_FORMAT, (), "excluded", nothing))
            continue
        events = 0 if read.log is None else len(read.log.steps)
        size = path.stat().st_size
        status: SourceStatus = "partial" if read.partial else "complete"
        sources.append(Source(path, WANDB_FORMAT, (), status, note, bytes=size, events=events))
        logs += [] if read.log is None else [read.log]
        counters = joined_counters(counters, read.counters)
    log, said = most_steps(logs)
    return Contribution(job_log=log, counters=counters, sources=tuple(sources), notes=(*notes, *said))


def _recognises(path: Path) -> bool:
    try:
        return bytes(beginning(path, len(MAGIC)).data) == MAGIC
    except OSError:
        return False


WANDB = RecordFormat(WANDB_FORMAT, NAMES, _read, recognises=_recognises, nested=True)
