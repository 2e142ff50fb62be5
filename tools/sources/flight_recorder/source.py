"""The declaration of the dumps of PyTorch's flight recorder: one file of each rank."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.run.kinds import FLIGHT_FORMAT
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

# Only where the content is out of reach; elsewhere the content decides.
NAMES = re.compile(r"(?:nccl_trace_rank_|\w*_dump_)\d+(?:\.\w+)?\Z")


def _recognises(path: Path) -> bool:
    from tools.sources.flight_recorder.recognise import is_dump

    return is_dump(path)


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    from tools.sources.flight_recorder.reader import read_flight_recorder

    return read_flight_recorder(found, anchor)


FLIGHT_RECORDER = RecordFormat(FLIGHT_FORMAT, NAMES, _read, recognises=_recognises, nested=True)
