"""The declaration of tables of step operations: the Parquet files of ByteDance's straggler study."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import OPERATIONS_FORMAT
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat
from tools.sources.plain_files import open_plain

MAGIC = b"PAR1"
NAMES = re.compile(r".+\.parquet\Z")  # only where the content is out of reach


def _recognises(path: Path) -> bool:
    try:
        with open_plain(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                return False
    except OSError:
        return False
    from tools.sources.straggler_analysis.reader import holds_operations

    return holds_operations(path)


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The first table that can be read; others are of other trials and left out with a note."""
    from tools.run.model import Source
    from tools.run.recorded.operations import StepOperations
    from tools.sources.straggler_analysis.reader import read_operations

    first: StepOperations | None = None
    sources: list[Source] = []
    for path in (file for each in found for file in each.files):
        try:
            if first is not None:
                raise InputError("the table of another trial was read already; give it alone")
            first = StepOperations(read_operations(path))
        except InputError as error:
            sources.append(Source(path, OPERATIONS_FORMAT, (), "excluded", f"{path.name}: {error}"))
            continue
        size = path.stat().st_size
        count = len(first.rows)
        sources.append(Source(path, OPERATIONS_FORMAT, first.ranks, "complete", bytes=size, events=count))
    notes = tuple(f"{each.note}; it was left out" for each in sources if each.note)
    return Contribution(operations=first, sources=tuple(sources), notes=notes)


STEP_OPERATIONS = RecordFormat(OPERATIONS_FORMAT, NAMES, _read, recognises=_recognises)
