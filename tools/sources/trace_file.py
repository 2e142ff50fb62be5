"""One trace as every reader of traces returns it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from tools.run.events import EventTable
from tools.run.model import Device, SourceStatus
from tools.run.recorded.counters import CounterRecords, CounterSource


@dataclass(frozen=True)
class TraceMetadata:
    """The parts of a trace's metadata that are of use; missing ones are None or empty."""

    rank: int | None = None
    world_size: int | None = None
    backend: str | None = None
    groups: tuple[dict[str, Any], ...] = ()  # entries of pg_config
    devices: tuple[Device, ...] = ()
    base_ns: int | None = None  # Unix time that the events' times are relative to
    plain: dict[str, str] = field(default_factory=dict)
    host: str = ""


@dataclass(frozen=True)
class TraceFacts:
    """Facts of a trace apart from its events."""

    format: str
    origin_ns: int  # of the earliest event; Unix time when ``epoch``, else on a clock of the trace's own
    epoch: bool
    metadata: TraceMetadata
    status: SourceStatus
    note: str
    bytes: int
    events: int
    groups: dict[str, tuple[str, str, int]] = field(default_factory=dict)  # group -> description, ranks, size
    cut: str = ""  # why an unknown part of its events is missing, "" when none is
    text_bytes: int = 0  # that were read, expanded
    damaged_within: bool = False  # events are missing in the middle
    others: tuple[str, ...] = ()  # digests of the other ranks that the same file holds
    sampled: CounterSource | None = None  # the source of ``TraceFile.samples``


@dataclass(frozen=True)
class TraceFile:
    """One trace, on a time axis that begins with its earliest event."""

    path: Path
    digest: str
    table: EventTable
    facts: TraceFacts
    samples: pd.DataFrame | None = None  # of counters, with ``SAMPLE_COLUMNS``; where ``facts.sampled`` is there
    others: tuple[TraceFile, ...] = ()  # the other ranks that the same file holds, in their order

    @property
    def counters(self) -> CounterRecords | None:
        """The sampled counters of the file; None where it holds none."""
        if self.samples is None or self.facts.sampled is None:
            return None
        return CounterRecords(self.samples, (self.facts.sampled,))
