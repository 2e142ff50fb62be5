"""The run in the JSON contract: its files, ranks, steps and clocks, and by what many ranks were compared."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hermes_agent.model.record import Record


class SourceRecord(Record):
    """One file and how much of it was read."""

    path: str
    format: str
    ranks: list[int]
    status: Literal["complete", "partial", "excluded"]
    note: str = ""


class RecordedRecord(Record):
    """Ranks, steps (spans, both ends) and hosts of monitor records and step logs, traced or not."""

    ranks: list[int] = Field(default_factory=list)
    ranks_stated: bool = Field(True, description="false: no line names a rank, the steps of the job stand under rank 0")
    workers: str = Field("", description="what a rank of a table of operations stands for, by its columns")
    least_ranks: int | None = Field(None, description="of the job, by NCCL's largest communicator in its output")
    steps: list[tuple[int, int]] = Field(default_factory=list)
    steps_not_listed: int = Field(0, description="before the last span: of more spans than are kept")
    epochs: int = Field(0, description="of which each counts its steps, where no line states how many it has")
    between_lines: bool = Field(False, description="the steps are those at the end of intervals between two lines")
    hosts: list[str] = Field(default_factory=list)


class DifferenceRecord(Record):
    """A part of the step in which ranks differ from their peers; medians over ranks, ms per step."""

    part: str
    median_ms: float
    peers_ms: float


class RankGroupRecord(Record):
    """Ranks that look alike by their summaries (spans, both ends); without ``differs`` the usual ones of the stage.

    ``medians_ms``: ``wall`` and the parts of a step; ``read``: the ranks of the group that were read in full.
    """

    ranks: list[tuple[int, int]]
    count: int
    read: list[int]
    stage: int | None
    differs: list[DifferenceRecord]
    medians_ms: dict[str, float]


class ReadRankRecord(Record):
    """A rank that was read in full, and why it was chosen."""

    rank: int
    why: str


class WaitedForRecord(Record):
    """A rank that others wait for in collectives: its share of all such waiting, and the steps where it is first."""

    rank: int
    share: float
    steps: int


class UnreadRecord(Record):
    """A trace that could not be summarized, and why."""

    name: str
    reason: str


class ScreeningRecord(Record):
    """Many traced ranks: all were compared by summary, some were read in full.

    ``found`` counts a trace that cannot be read as one rank. Lists are bounded; ``found`` less ``summarized`` ranks
    could not be read, and ``more_groups`` groups are not listed.
    """

    found: int
    summarized: int
    read_in_full: list[ReadRankRecord]
    groups: list[RankGroupRecord]
    more_groups: int = 0
    waited_for: list[WaitedForRecord]
    unread: list[UnreadRecord] = Field(default_factory=list)


class StepTimeRecord(Record):
    """The median step by one source; the first of several is used for steps without a profiler."""

    source: Literal["monitor", "step_log", "job_log", "tracker", "traces"]
    median_ms: float
    steps: int
    what: str


class SourceClockRecord(Record):
    """How one source was placed on the time of day of another: ``offset_ms`` is added to its times, which may then be
    off by ``residual_ms``, and ``step_shift`` to its step numbers. Null where that is not known, with the reason."""

    source: str
    method: Literal["reference", "steps", "stamps", "none"]
    to: str
    offset_ms: float | None
    residual_ms: float | None
    steps: int  # that were compared
    step_shift: int | None
    why: str


class RunRecord(Record):
    """The run; ``ranks`` and ``steps`` are the traced ones. Nothing is measured on the traces of ``cut_ranks``.

    Where many ranks were traced, ``ranks`` are those read in full, and ``screening`` says what all were compared by.
    """

    sources: list[SourceRecord]
    ranks: list[int]
    cut_ranks: list[int] = Field(default_factory=list)
    steps: list[int]
    step_origin: str
    devices: list[str]
    hosts: list[str] = Field(default_factory=list, description="of the traced ranks and in the job's output")
    layout: dict[str, int | str | None]
    clock: list[dict[str, int | str | None]] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    conflicts: list[str] = Field(
        default_factory=list, description="those of the notes that say where sources disagree, or are of another run"
    )
    unread: str = Field("", description="the one of the notes that names files that look like a profile or a log")
    step_times: list[StepTimeRecord] = Field(default_factory=list, description="of each source, the better one first")
    source_clocks: list[SourceClockRecord] = Field(
        default_factory=list, description="of sources with steps or samples, the reference first"
    )
    recorded: RecordedRecord | None = None
    screening: ScreeningRecord | None = None
