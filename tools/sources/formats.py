"""The declaration of a format of source files: names of its files, its reader, and the part of a run that it fills.

Declarations import their readers only when they read: the cached path of a diagnosis lists files without pandas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tools.run.recorded.collective_records import joined_collectives
from tools.run.recorded.counters import joined_counters
from tools.run.recorded.job_log import joined_logs
from tools.sources.decompress import Readable
from tools.sources.options import LoadOptions

if TYPE_CHECKING:
    import pandas as pd

    from tools.run.model import Source
    from tools.run.recorded.ascend import AscendTables
    from tools.run.recorded.collective_records import CollectiveRecords
    from tools.run.recorded.counters import CounterRecords
    from tools.run.recorded.environment import HostEnvironment
    from tools.run.recorded.host_stacks import HostStacks
    from tools.run.recorded.job_log import JobLog
    from tools.run.recorded.memory_snapshots import MemorySnapshot
    from tools.run.recorded.operations import StepOperations
    from tools.run.recorded.records import MonitorRecords
    from tools.sources.trace_file import TraceFile

Heard = Callable[[int, int], None]  # called with the bytes read and the size of the file


@dataclass(frozen=True)
class TraceFormat:
    """Files of events, one or several for each rank; they fill ``Run.ranks``."""

    name: str  # as a run lists its sources
    names: re.Pattern[str]  # of its files, before they were compressed
    recognises: Callable[[bytes], bool]  # from the first bytes of a file, of whatever name
    read: Callable[[Readable, str, LoadOptions, Heard | None], TraceFile]  # path, digest; InputError where it cannot
    # Of a file in a folder that only bears such a name: whether it holds events. Without it the name decides.
    holds: Callable[[Path], bool] | None = None


@dataclass(frozen=True)
class Anchor:
    """Facts of the run from its traces; no ranks where there are none."""

    ranks: tuple[int, ...] = ()
    world_size: int | None = None
    origin_unix_ns: int | None = None


@dataclass(frozen=True)
class Contribution:
    """The part of a run that one format fills; damaged files, or those of another run, are left out with a note."""

    records: MonitorRecords | None = None
    step_log: pd.DataFrame | None = None
    job_log: JobLog | None = None
    ascend: AscendTables | None = None
    counters: CounterRecords | None = None
    operations: StepOperations | None = None
    collectives: CollectiveRecords | None = None
    host_stacks: HostStacks | None = None
    snapshots: tuple[MemorySnapshot, ...] = ()
    environments: tuple[HostEnvironment, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()  # notes on files of another run

    def joined(self, other: Contribution) -> Contribution:
        """The two together; of what both fill this one's is used, of variables the other's, of counters both, of job
        logs this one's with the other's steps where it has none."""
        return Contribution(
            records=other.records if self.records is None else self.records,
            step_log=other.step_log if self.step_log is None else self.step_log,
            job_log=joined_logs(self.job_log, other.job_log),
            ascend=other.ascend if self.ascend is None else self.ascend,
            counters=joined_counters(self.counters, other.counters),
            operations=other.operations if self.operations is None else self.operations,
            collectives=joined_collectives(self.collectives, other.collectives),
            host_stacks=_joined_stacks(self.host_stacks, other.host_stacks),
            snapshots=(*self.snapshots, *other.snapshots),
            environments=(*self.environments, *other.environments),
            variables={**self.variables, **other.variables},
            sources=(*self.sources, *other.sources),
            notes=(*self.notes, *other.notes),
            conflicts=(*self.conflicts, *other.conflicts),
        )


def _joined_stacks(first: HostStacks | None, second: HostStacks | None) -> HostStacks | None:
    if first is None or second is None:
        return first or second
    from tools.run.recorded.host_stacks import joined_stacks

    return joined_stacks([first, second])


@dataclass(frozen=True)
class RecordFormat:
    """Files about a whole run that lie in its folder, next to the traces or instead of them."""

    name: str  # as a run lists its sources
    names: re.Pattern[str]  # of its files, before they were compressed
    read: Callable[[Sequence[FolderFiles], Anchor], Contribution]
    folder: str = ""  # inside the run folder
    needed: re.Pattern[str] | None = None  # without one of these the other files are not read
    makes_run: bool = True  # a folder that holds nothing else can be diagnosed
    with_capture: bool = False  # of a capture inside the run folder the files lie in the capture's own folder
    # Of files that no other format claims: whether the content is of this one, whatever the name. ``names`` is then
    # asked only where the content is out of reach, such as of a list of files behind a URL.
    recognises: Callable[[Path], bool] | None = None
    # Its files lie in folders further below, where traces are looked for, and may be named like traces: those that it
    # recognises are none.
    nested: bool = False


@dataclass(frozen=True)
class FolderFiles:
    """The files of one format in one run folder, in a stable order."""

    format: RecordFormat
    folder: Path  # the run folder
    files: tuple[Path, ...]
