"""The declaration of snapshots of PyTorch's allocator (``torch.cuda.memory._dump_snapshot``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import SNAPSHOT_FORMAT
from tools.sources.decompress import beginning
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

LOOKED_AT_BYTES = 64
BEGIN = re.compile(rb"\x80[\x02-\x05].{0,24}segments", re.DOTALL)


def _recognises(path: Path) -> bool:
    try:
        return BEGIN.match(bytes(beginning(path, LOOKED_AT_BYTES).data)) is not None
    except OSError:
        return False


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The snapshots of all files; one that cannot be used is left out with a note."""
    from tools.run.model import Source
    from tools.run.recorded.memory_snapshots import MemorySnapshot
    from tools.sources.memory_snapshot.reader import read_snapshots

    snapshots: list[MemorySnapshot] = []
    sources: list[Source] = []
    for path in (file for each in found for file in each.files):
        try:
            read = read_snapshots(path)
        except InputError as error:
            sources.append(Source(path, SNAPSHOT_FORMAT, (), "excluded", str(error)))
            continue
        snapshots += read
        ranks = tuple(sorted({each.rank for each in read if each.rank >= 0}))
        events = sum(len(each.events) for each in read)
        sources.append(Source(path, SNAPSHOT_FORMAT, ranks, "complete", bytes=path.stat().st_size, events=events))
    notes = tuple(f"{each.note}; it was left out" for each in sources if each.note)
    return Contribution(snapshots=tuple(snapshots), sources=tuple(sources), notes=notes)


MEMORY_SNAPSHOT = RecordFormat(SNAPSHOT_FORMAT, re.compile(r".*snapshot.*\.pickle\Z"), _read, recognises=_recognises)
