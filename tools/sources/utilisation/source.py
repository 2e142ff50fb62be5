"""The declaration of sampled counters: what nvidia-smi, rocm-smi, npu-smi, sar and their like print."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import COUNTER_FORMAT
from tools.run.recorded.counters import CounterRecords, joined_counters
from tools.sources.decompress import beginning
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

# Only where the content is out of reach; elsewhere the content decides.
LOOKED_AT_BYTES = 4096
NAMES = re.compile(
    r"(?:.*(?:nvidia[-_]?smi|rocm[-_]?smi|npu[-_]?smi|dmon)|(?:sar|pidstat|iostat|vmstat|nstat)\b).*\.(?:csv|txt|log)\Z"
)


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The samples of all files; one without any is listed as excluded."""
    from tools.run.model import Source, SourceStatus
    from tools.run.recorded.reading_order import in_order
    from tools.sources.utilisation.reader import read_counters

    records: CounterRecords | None = None
    sources: list[Source] = []
    notes: list[str] = []
    files = [file for each in found for file in each.files]
    named = Counter(path.name for path in files)
    for path in files:
        called = f"{path.parent.name}/{path.name}" if named[path.name] > 1 else path.name  # a folder for each host
        try:
            read = read_counters(path, called)
        except InputError as error:
            sources.append(Source(path, COUNTER_FORMAT, (), "excluded", str(error)))
            continue
        note = "; ".join(read.notes)
        notes += [f"{called}: {each}" for each in (*read.notes, *read.remarks)]
        if read.records is None:
            sources.append(Source(path, COUNTER_FORMAT, (), "excluded", note or "it holds no samples of counters"))
            continue
        status: SourceStatus = "partial" if note else "complete"
        size = path.stat().st_size
        sources.append(Source(path, COUNTER_FORMAT, (), status, note, bytes=size, events=len(read.records.samples)))
        records = joined_counters(records, read.records)
    if records is not None:
        records, said = in_order(records)
        notes += said
    return Contribution(counters=records, sources=tuple(sources), notes=tuple(notes))


def _read_json(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The figures of all files; one without any is listed as excluded."""
    from tools.run.model import Source
    from tools.sources.utilisation.amd_json import read_amd_json
    from tools.sources.utilisation.reader import counters_of

    records: CounterRecords | None = None
    sources: list[Source] = []
    for path in (file for each in found for file in each.files):
        try:
            own = counters_of(read_amd_json(path), path.name)
        except InputError as error:
            sources.append(Source(path, COUNTER_FORMAT, (), "excluded", str(error)))
            continue
        size, events = path.stat().st_size, len(own.samples)
        sources.append(Source(path, COUNTER_FORMAT, (), "complete", bytes=size, events=events))
        records = joined_counters(records, own)
    return Contribution(counters=records, sources=tuple(sources))


def _is_json(path: Path) -> bool:
    from tools.sources.utilisation.amd_json import MARKS

    try:
        start = bytes(beginning(path, LOOKED_AT_BYTES).data)
    except OSError:
        return False
    return start.lstrip()[:1] in (b"{", b"[") and any(mark in start for mark in MARKS)


def _recognises(path: Path) -> bool:
    from tools.sources.utilisation.reader import is_counters

    return is_counters(path)


UTILISATION = RecordFormat(COUNTER_FORMAT, NAMES, _read, recognises=_recognises)
UTILISATION_JSON = RecordFormat(
    f"{COUNTER_FORMAT} (JSON)",
    re.compile(r"(?:rocm|amd)[-_]?smi.*\.json\Z"),
    _read_json,
    recognises=_is_json,
    nested=True,
)
