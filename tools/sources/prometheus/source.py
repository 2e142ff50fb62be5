"""The declaration of Prometheus range exports, which are named as traces are; exporters' text is read with the output
of nvidia-smi (``tools/sources/utilisation``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import PROMETHEUS_FORMAT
from tools.run.recorded.counters import CounterRecords, joined_counters
from tools.sources.decompress import begins_object_with
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

NAMES = re.compile(r"(?:prometheus|prom|query_range)[\w.-]*\.json\Z")  # only where the content is out of reach
LOOKED_AT_BYTES = 1024
MARKS = (b'"resultType"', b'"result"')


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The samples of all files; one that cannot be used is left out with a note."""
    from tools.run.model import Source, SourceStatus
    from tools.sources.prometheus.range_export import read_export

    counters: CounterRecords | None = None
    sources: list[Source] = []
    notes: list[str] = []
    for path in (file for each in found for file in each.files):
        try:
            read = read_export(path)
        except InputError as error:
            sources.append(Source(path, PROMETHEUS_FORMAT, (), "excluded", str(error)))
            continue
        note = "; ".join(read.notes)
        if read.counters is None:
            sources.append(Source(path, PROMETHEUS_FORMAT, (), "excluded", note or "it holds no series"))
            continue
        notes += [f"{path.name}: {each}" for each in read.notes]
        status: SourceStatus = "partial" if read.partial else "complete"
        events, size = len(read.counters.samples), path.stat().st_size
        sources.append(Source(path, PROMETHEUS_FORMAT, (), status, note, bytes=size, events=events))
        counters = joined_counters(counters, read.counters)
    return Contribution(counters=counters, sources=tuple(sources), notes=tuple(notes))


def _recognises(path: Path) -> bool:
    return begins_object_with(path, MARKS, LOOKED_AT_BYTES)


PROMETHEUS = RecordFormat(PROMETHEUS_FORMAT, NAMES, _read, recognises=_recognises, nested=True)
