"""The run model: what every source is read into and every analyzer reads from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pandas as pd

from tools.errors import CutError, UsageError
from tools.run.events import EventTable
from tools.run.kinds import ASCEND_FORMAT as ASCEND_FORMAT
from tools.run.kinds import COLLECT_ENV_FORMAT as COLLECT_ENV_FORMAT
from tools.run.kinds import COUNTER_FORMAT as COUNTER_FORMAT
from tools.run.kinds import JOB_LOG_FORMAT as JOB_LOG_FORMAT
from tools.run.kinds import MONITOR_FORMAT as MONITOR_FORMAT
from tools.run.kinds import OPERATIONS_FORMAT as OPERATIONS_FORMAT
from tools.run.kinds import SNAPSHOT_FORMAT as SNAPSHOT_FORMAT
from tools.run.kinds import STACKS_FORMAT as STACKS_FORMAT
from tools.run.kinds import STEP_LOG_FORMAT as STEP_LOG_FORMAT
from tools.run.recorded.ascend import AscendTables
from tools.run.recorded.collective_records import CollectiveRecords
from tools.run.recorded.counters import CounterRecords
from tools.run.recorded.environment import HostEnvironment
from tools.run.recorded.host_stacks import HostStacks
from tools.run.recorded.job_log import JobLog
from tools.run.recorded.memory_snapshots import MemorySnapshot
from tools.run.recorded.operations import StepOperations
from tools.run.recorded.records import MonitorRecords
from tools.run.screening import Screening
from tools.run.source_clock import SourceClock

COUNTER_RANGES = "counter_ranges"  # of a rank's metadata: how many ranges of a counter profiler its trace holds
UNREADABLE = "unknown"  # the format of a trace file that could not be read
SourceStatus = Literal["complete", "partial", "excluded"]
RankOrigin = Literal["recorded", "file_name", "order"]
StepOrigin = Literal["profiler_step", "annotation", "optimizer", "window"]


@dataclass(frozen=True)
class Source:
    """One file that was read, and how much of it."""

    path: Path
    format: str
    ranks: tuple[int, ...]
    status: SourceStatus
    note: str = ""  # one sentence when status is not complete, or when something was assumed
    bytes: int = 0
    events: int = 0
    digest: str = ""  # of the file's bytes


@dataclass(frozen=True)
class CutTrace:
    """A trace of which an unknown part is missing: what it lacks would be missing from every figure."""

    path: Path
    rank: int
    reason: str
    events: int  # that were read
    text_bytes: int  # that they were read from
    within: bool = False  # it is damaged in the middle, and not only cut off


@dataclass(frozen=True)
class Device:
    """One accelerator as the trace describes it; None where it does not."""

    index: int
    name: str
    memory_bytes: int | None = None
    compute_capability: str | None = None
    multiprocessors: int | None = None
    possible: bool = False  # only the name of a process that may be a device: nothing of it was read as its work


@dataclass(frozen=True)
class ProcessGroup:
    """One communication group."""

    name: str
    description: str
    backend: str
    ranks: tuple[int, ...]  # () when only the size is known
    size: int


@dataclass(frozen=True)
class Layout:
    """The parallel layout of the job, as far as the sources say; None is unknown, never 1."""

    world_size: int | None = None
    backend: str | None = None
    data_parallel: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    expert_parallel: int | None = None
    groups: tuple[ProcessGroup, ...] = ()


@dataclass(frozen=True)
class Step:
    """One training step of one rank. Steps of a rank do not overlap."""

    number: int
    start_ns: int
    end_ns: int

    @property
    def wall_ns(self) -> int:
        """Duration of the step."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class ClockOffset:
    """The offset added to a rank's clock to align it, and its uncertainty."""

    offset_ns: int = 0
    uncertainty_ns: int | None = None  # None: could not be estimated
    method: str = "none"


@dataclass(frozen=True)
class Rank:
    """Everything one rank left behind."""

    rank: int
    rank_origin: RankOrigin
    events: EventTable
    steps: tuple[Step, ...]
    step_origin: StepOrigin
    devices: tuple[Device, ...]
    host: str = ""
    clock: ClockOffset = ClockOffset()
    metadata: dict[str, str] = field(default_factory=dict)  # with_stack, record_shapes, profile_memory, versions
    marks: tuple[Step, ...] = ()  # the host's steps, where it runs ahead of the device and ``steps`` are the device's

    @property
    def has_device(self) -> bool:
        """True when any work ran on an accelerator."""
        return bool(len(self.events.device_tracks()))

    def step(self, number: int) -> Step:
        """The step of that number."""
        for step in self.steps:
            if step.number == number:
                return step
        have = f"{self.steps[0].number} to {self.steps[-1].number}" if self.steps else "none"
        raise UsageError(f"rank {self.rank} has no step {number}; its steps are {have}")

    def window(self) -> tuple[int, int]:
        """Start of the first and end of the last step."""
        return self.steps[0].start_ns, self.steps[-1].end_ns


@dataclass(frozen=True)
class Run:
    """A training run: its traced ranks (none where there are only records), and what is covered."""

    ranks: tuple[Rank, ...]
    sources: tuple[Source, ...]
    layout: Layout
    origin_unix_ns: int | None  # wall-clock time of 0 on the run's time axis, when known
    notes: tuple[str, ...] = ()  # what was assumed or excluded, one sentence each
    unread: str = ""  # the one of the notes that names files which look like a profile or a log
    conflicts: tuple[str, ...] = ()  # those of the notes that say where sources disagree, or are of another run
    records: MonitorRecords | None = None  # of the live monitor: one start of each rank, also of ranks without a trace
    step_log: pd.DataFrame | None = None  # rank, step (int64), wall_ms, samples, tokens, loss (NaN where missing)
    job_log: JobLog | None = None  # of the job's own output
    ascend: AscendTables | None = None  # of an Ascend profiler's folders
    collectives: CollectiveRecords | None = None  # of a flight recorder, NCCL Inspector, NCCL RAS
    counters: CounterRecords | None = None  # sampled by nvidia-smi, sar and their like, trackers, exporters
    operations: StepOperations | None = None  # of a straggler study's table
    host_stacks: HostStacks | None = None  # of py-spy
    snapshots: tuple[MemorySnapshot, ...] = ()  # of PyTorch's allocator
    environments: tuple[HostEnvironment, ...] = ()  # of env.json and collect_env
    variables: Mapping[str, str] = field(default_factory=dict)  # of env.json where no rank of a trace holds them
    cut: tuple[CutTrace, ...] = ()  # traces that are in none of ``ranks``, for a part of them is missing
    read: tuple[Rank, ...] = ()  # all ranks and steps of the traces, where ``ranks`` are a choice of them
    screening: Screening | None = None  # of many traced ranks: those compared by summary, of which ``ranks`` were read
    clocks: tuple[SourceClock, ...] = ()  # of the sources with steps or samples, where there are several
    transient: bool = False  # a trace was left out for a reason that may be gone the next time

    def rank(self, number: int) -> Rank:
        """The rank of that number."""
        for rank in self.ranks:
            if rank.rank == number:
                return rank
        have = f"it has {', '.join(str(r.rank) for r in self.ranks)}" if self.ranks else "no trace was read"
        if any(each.rank == number for each in self.cut):
            error = UsageError if self.ranks else CutError
            raise error(f"the trace of rank {number} is cut, so nothing is measured on it; {have}")
        if self.screening is not None and number in self.screening.waiting.index:
            raise UsageError(f"rank {number} was compared by summary and not read in full; add --ranks {number}")
        raise UsageError(f"the run has no rank {number}; {have}" if self.ranks else "no trace was read")

    @property
    def rank_numbers(self) -> tuple[int, ...]:
        """All rank numbers, ascending."""
        return tuple(rank.rank for rank in self.ranks)

    @property
    def traced_count(self) -> int:
        """The number of ranks whose traces were compared, by summary or in full."""
        return len(self.ranks) if self.screening is None else self.screening.summarized

    @property
    def has_device(self) -> bool:
        """True when any rank used an accelerator."""
        return any(rank.has_device for rank in self.ranks)

    @property
    def lacks_traces(self) -> bool:
        """True when a trace could not be read that no other of its rank makes up for, as far as file names tell."""
        if self.screening is not None:
            return bool(self.screening.unread)
        unread = [each for each in self.sources if each.status == "excluded" and each.format == UNREADABLE]
        return not {rank for each in unread for rank in each.ranks} <= {each.rank for each in self.profiled_ranks}

    @property
    def profiled_ranks(self) -> tuple[Rank, ...]:
        """The ranks with every step that a trace holds, whichever of them were chosen."""
        return self.read or self.ranks

    def select(self, ranks: Sequence[int] | None = None, steps: tuple[int, int] | None = None) -> Run:
        """The run restricted to some ranks and to the steps first..last (inclusive); events stay whole."""
        if not self.ranks and (ranks or steps is not None):
            raise UsageError("the run holds no trace, so there are no traced ranks or steps to choose from")
        chosen = [self.rank(number) for number in ranks] if ranks else list(self.ranks)
        if steps is None:
            return replace(self, ranks=tuple(chosen), read=self.profiled_ranks)
        first, last = steps
        narrowed = [
            replace(rank, steps=_between(rank.steps, first, last), marks=_between(rank.marks, first, last))
            for rank in chosen
        ]
        if not any(rank.steps for rank in narrowed):
            have = sorted({step.number for rank in chosen for step in rank.steps})
            raise UsageError(f"no step in {first}:{last}; the run has steps {have[0]} to {have[-1]}")
        return replace(self, ranks=tuple(rank for rank in narrowed if rank.steps), read=self.profiled_ranks)


def has_steps(run: Run) -> bool:
    """Whether steps were found; else the whole recording counts as one step. Records hold whole steps."""
    return not run.ranks or any(rank.step_origin != "window" for rank in run.ranks)


def _between(steps: Sequence[Step], first: int, last: int) -> tuple[Step, ...]:
    return tuple(step for step in steps if first <= step.number <= last)


def step_frame(steps: Sequence[Step]) -> pd.DataFrame:
    """Steps as columns number, start_ns, end_ns."""
    rows = [(step.number, step.start_ns, step.end_ns) for step in steps]
    return pd.DataFrame(rows, columns=["number", "start_ns", "end_ns"]).astype("int64")
