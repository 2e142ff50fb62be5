"""The declaration of NCCL RAS: what ``ncclras -f json`` prints, one file for each time it was asked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.run.kinds import RAS_FORMAT
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat
from tools.sources.plain_files import open_plain

LOOKED_AT_BYTES = 1 << 14
NAMES = re.compile(r"(?:nccl)?ras[\w.-]*\.json\Z")  # only where the content is out of reach
MARKS = (b'"nccl_version"', b'"communicators"')


def _recognises(path: Path) -> bool:
    try:
        with open_plain(path) as file:
            start = file.read(LOOKED_AT_BYTES)
    except OSError:
        return False
    return start.lstrip().startswith(b"{") and all(mark in start for mark in MARKS)


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    from tools.sources.nccl_ras.reader import read_ras

    return read_ras(found, anchor)


NCCL_RAS = RecordFormat(RAS_FORMAT, NAMES, _read, recognises=_recognises, nested=True)
