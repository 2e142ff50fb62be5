"""The declaration of what NCCL Inspector writes: JSON lines, one for each collective of a process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.run.kinds import INSPECTOR_FORMAT
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

LOOKED_AT_BYTES = 1 << 14
NAMES = re.compile(r".+-pid\d+\.(?:log|jsonl)\Z")  # only where the content is out of reach


def _recognises(path: Path) -> bool:
    from tools.sources.decompress import beginning

    try:
        start = bytes(beginning(path, LOOKED_AT_BYTES).data)
    except OSError:
        return False
    marks = (b'"header"', b'"n_ranks"', b'"inspector_output_format_version"')
    return start.lstrip().startswith(b"{") and all(mark in start for mark in marks)


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    from tools.sources.nccl_inspector.reader import read_inspector

    return read_inspector(found, anchor)


NCCL_INSPECTOR = RecordFormat(INSPECTOR_FORMAT, NAMES, _read, recognises=_recognises)
