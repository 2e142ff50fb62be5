"""Records of a job's own output: step figures, timers, communicators, timed-out collectives, tables and warnings.

Every record names the line it was read from, counted by line feeds as ``sed -n LINEp`` counts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from tools.run.recorded.counters import SampleClock

if TYPE_CHECKING:
    import pandas as pd

STEP_COLUMNS = {
    **dict.fromkeys(("rank", "step", "span", "line", "file"), "int64"),
    **dict.fromkeys(("wall_ms", "samples", "loss_scale", "skipped", "tokens_per_s", "tflops", "mfu_pct"), "float64"),
    **dict.fromkeys(("written_ns", "data_wait_ms", "skipped_so_far"), "float64"),
}
RATE_COLUMNS = {**dict.fromkeys(("rank", "step", "span", "line", "file"), "int64"), "per_s": "float64"}
TIMER_COLUMNS = {
    **dict.fromkeys(("rank", "step", "line", "file"), "int64"),
    **{"name": "str", "min_ms": "float64", "max_ms": "float64"},
}
RANK_TIMER_COLUMNS = {
    **dict.fromkeys(("rank", "step", "line", "file"), "int64"),
    **{"name": "str", "time_ms": "float64"},
}
RANK_REPORT_COLUMNS = {
    **dict.fromkeys(("line", "file", "rank"), "int64"),
    **{"figure": "str", "most": "bool", "value": "float64"},
}
NO_HEAD = "no head"  # the collective of rows of nccl-tests that stand without the head of their table
COMM_TEST_COLUMNS = {
    **dict.fromkeys(("line", "file", "size_bytes", "elements"), "int64"),
    **{"kind": "str", "in_place": "bool", "time_us": "float64", "algbw_gb_per_s": "float64"},
    **{"busbw_gb_per_s": "float64"},
}
ACTION_COLUMNS = {
    **dict.fromkeys(("line", "file"), "int64"),
    **{"table": "str", "action": "str", "calls": "float64", "total_ms": "float64", "mean_ms": "float64"},
    "share_pct": "float64",
}
# What the time of a step line is of:
# "step"      this very step
# "unstated"  this step or several: the program is not known, and its line does not state it
# "sum"       timers of parts of this step, added up here: a step takes at least as long
# "mean"      the mean over the steps since the line that the program printed before it
# "window"    a mean over some of the last steps; the line does not state over how many
# "epoch"     the mean over all steps of the epoch that the line ends
# "block"     the time since the line before it, divided here by the steps between
# "unwound"   a running mean, from which the mean of the steps between two lines is computed here
# "bar"       the time between two updates of a progress bar, divided here by the steps between
# "smoothed"  the rate that a progress bar shows, smoothed over its last updates
# "running"   a running mean over more steps than those since the line before, which cannot be taken apart
# "stamps"    the difference of the time stamps of two lines, divided here by the steps between
StepTime = Literal[
    "step", "unstated", "sum", "mean", "window", "epoch", "block", "unwound", "bar", "smoothed", "running", "stamps"
]
SINGLE: tuple[StepTime, ...] = ("step", "unstated", "sum")  # a line is of one step as far as is known
MEANS: tuple[StepTime, ...] = ("mean", "window", "epoch", "block", "unwound", "bar")  # over the ``span`` of their row
DIFFERENCES: tuple[StepTime, ...] = ("stamps", "block")  # a row is of the time between two lines
WarningKind = Literal[
    "allocator_flush",
    "fp16_overflow",
    "recompile_limit",
    "few_loader_workers",
    "accumulation_warning",
    "out_of_memory",
    "many_loader_workers",
    "trains_on_cpu",
    "operator_on_cpu",
    "accelerator_unused",
    "job_restart",
    "not_finite_loss",
    "device_libraries",
    "uncompiled",
    "stuck_watchdog",
    "slow_callback",
    "loader_killed",
    "loader_shared_memory",
    "oom_kill",
    "slow_compile",
    "unnamed_timeout",
    "time_limit",
    "terminated",
    "slow_tensors",
    "unfused_softmax",
    "float32_precision",
    "cache_off",
]


MEMORY_PARTS = ("asked", "total", "free", "others", "own", "allocated", "reserved", "unused")  # unused: not allocated


@dataclass(frozen=True)
class Cited:
    """A value as the log states it, and its line."""

    value: str
    line: int
    file: int = 0


# "device": of which kind is not said; "unnamed": whether it is of the device is not said either.
PeakKind = Literal["allocated", "reserved", "device", "unnamed"]


@dataclass(frozen=True)
class PeakMemory(Cited):
    """The most memory that a process held by its own line, in bytes; ``unit`` is the printed one.

    ``of_steps``: it is known to be of steps that are done, even where no line of a step stands before it.
    """

    kind: PeakKind = "allocated"
    unit: str = "B"
    of_steps: bool = False


@dataclass(frozen=True)
class StepNote(Cited):
    """A line that says what is done next to training, with the step that it names."""

    step: int | None = None


@dataclass(frozen=True)
class EvaluationTime(Cited):
    """The seconds of a whole evaluation by a line, by the stamps of this line and of ``begin_line``, or by a finished
    progress bar."""

    begin_line: int = 0
    by_bar: bool = False


# "took_s" and "left_s": what the training took as a whole, and what is left of it; "passed_s": by a step line, without
# what the program leaves out; "steps": how many the training has.
WholeRunKind = Literal["took_s", "left_s", "passed_s", "steps"]


@dataclass(frozen=True)
class OfWholeRun(Cited):
    """What a line states of the whole training, in seconds or steps, and the step that the line names."""

    step: int | None = None


@dataclass(frozen=True)
class InferenceTime(Cited):
    """The seconds of the inference of an evaluation; ``whole_s`` is that of all of it by the times of its first line
    and of ``end_line``, with its results."""

    whole_s: float | None = None
    end_line: int = 0


@dataclass(frozen=True)
class EpochTime:
    """The time of a whole epoch as a line states it, of one rank where it names one.

    ``parts`` are named parts of it in ms. ``items`` are what a bar counts in it, steps or samples; ``expected``: the
    time is that of the items so far, for all of them. ``count``: how many epochs there are by the line.
    """

    wall_ms: float
    line: int
    file: int = 0
    epoch: int | None = None
    rank: int | None = None
    parts: tuple[tuple[str, float], ...] = ()
    items: int | None = None
    expected: bool = False
    count: int | None = None


@dataclass(frozen=True)
class NamedTime:
    """The time of a piece of work that a line names in a sentence: "forward took 0.3 s"."""

    name: str
    wall_ms: float
    line: int
    file: int = 0


@dataclass(frozen=True)
class Connected:
    """Connections over one transport (``NET/IB``, ``NET/IB/GDRDMA``, ``NET/Socket``, ``P2P``, ``SHM``) in one file:
    their first line, and how many of them another file of the job holds and counts."""

    transport: str
    count: int
    line: int
    file: int = 0
    known: int = 0


@dataclass(frozen=True)
class Communicator:
    """One NCCL communicator, joined over its ranks and the files of the job by commId, else by its size.

    ``channels`` is None where the log does not state it. ``open_ends`` are connections of which the file holds one end,
    as ``tools.sources.job_log.nccl`` counts them; empty once the files are joined.
    """

    key: str
    ranks: tuple[int, ...]
    size: int
    line: int  # of the first "Init COMPLETE", else of what was seen first
    file: int = 0
    channels: int | None = None
    channels_line: int = 0
    channels_file: int = 0
    connections: tuple[Connected, ...] = ()
    init_s: float | None = None
    links: frozenset[str] = frozenset()  # how its graphs join devices of a host: "NVL", "PIX", "SYS"
    processes: frozenset[tuple[str, str, str]] = frozenset()  # host, process and device
    open_ends: dict[str, dict[int, int]] = field(default_factory=dict, repr=False)

    @property
    def transports(self) -> dict[str, int]:
        """The connections by transport; what two files hold counts once."""
        found = dict.fromkeys((each.transport for each in self.connections), 0)
        for each in self.connections:
            found[each.transport] += each.count - each.known
        return found

    @property
    def transport_lines(self) -> dict[str, int]:
        """The first line of each transport, in the first file that has it."""
        return {each.transport: each.line for each in reversed(self.connections)}


@dataclass(frozen=True)
class RepeatedLine:
    """Lines that differ in numbers and addresses alone, and how often; the text is that of the first.

    ``stamped`` of them state a time, the first and the last one ``span_s`` apart on the log's clock.
    """

    text: str
    count: int
    first_line: int
    last_line: int
    file: int = 0
    stamped: int = 0
    begin_s: float = 0.0
    end_s: float = 0.0
    kind: str = ""  # the text without its numbers, by which lines of several files are the same

    @property
    def span_s(self) -> float:
        """The time from the first to the last line that states one."""
        return self.end_s - self.begin_s

    def again(self, line: int, at_s: float | None) -> RepeatedLine:
        """The same with one more line; a time before the last one is of a clock that was set back, and is left out."""
        known = replace(self, count=self.count + 1, last_line=line)
        if at_s is None or (self.stamped and at_s < self.end_s):
            return known
        begin_s = self.begin_s if self.stamped else at_s
        return replace(known, stamped=self.stamped + 1, begin_s=begin_s, end_s=at_s)


@dataclass(frozen=True)
class RankPlace:
    """Where a member of a communicator runs, by the line in which NCCL states that it joined.

    ``seen`` is the device's number in the process, ``listed`` that of the machine as NVML counts (None and -1 where
    the line does not state them), ``bus`` its PCI address as a number (domain, bus, device and function).
    """

    rank: int
    size: int
    host: str
    process: str
    seen: int
    listed: int | None = None
    bus: int = -1


@dataclass(frozen=True)
class NcclFacts:
    """The facts of NCCL's own output about the whole job."""

    version: Cited | None = None
    network: tuple[Cited, ...] = ()  # what "Using network" names: IB, Socket, AWS Libfabric; each once
    interfaces: tuple[Cited, ...] = ()  # of NET/IB : Using and NET/Socket : Using; each once
    settings: dict[str, Cited] = field(default_factory=dict)  # NCCL_... set by environment
    gpu_direct_off: tuple[Cited, ...] = ()  # the adapters for which GPUDirect RDMA is disabled
    gpu_direct_on: tuple[Cited, ...] = ()
    fallbacks: tuple[Cited, ...] = ()  # adapters or plug-ins that NCCL tried and could not use; each reason once
    unread_topology: tuple[Cited, ...] = ()  # topology files that could not be opened; each once
    hosts: tuple[str, ...] = ()
    path_bandwidths: tuple[Cited, ...] = ()  # GB/s, the most of a path that NCCL found in the machine; one of each host
    lines: int = 0  # those that were looked at
    communicators: tuple[Communicator, ...] = ()
    places: tuple[RankPlace, ...] = ()  # of the ranks of the largest ones, in the order of the lines
    warnings: tuple[RepeatedLine, ...] = ()  # NCCL WARN, by text without its numbers
    unjoined: Communicator | None = None  # connections whose communicator the output does not name, as an excerpt

    @property
    def connected(self) -> tuple[Communicator, ...]:
        """Whatever connections are known of, also those without a name of their communicator."""
        return self.communicators if self.unjoined is None else (*self.communicators, self.unjoined)


@dataclass(frozen=True)
class CollectiveTimeout:
    """A collective that the watchdog of PyTorch reported on one rank of the job; None where the line lacks it."""

    rank: int
    sequence: int
    operation: str
    timeout_ms: int
    line: int
    file: int = 0
    ran_ms: int | None = None
    written: tuple[int, int, int] | None = None  # month, day and seconds of the day, in the time of the host
    group: str = ""
    last_enqueued: int | None = None
    last_completed: int | None = None


@dataclass(frozen=True)
class WatchdogStatus:
    """The last works that a rank enqueued and completed in a group, as its watchdog wrote when a collective failed.

    ``at`` is the work that failed on this rank, None where another rank's time-out made it write; -1 is no work.
    """

    rank: int
    group: str
    at: int | None
    enqueued: int
    completed: int
    line: int
    file: int = 0


@dataclass(frozen=True)
class CollectiveReport:
    """Ranks that a report in the output sets apart: "not_joined", "started", "mismatch", "behind" or "ahead".

    ``count`` ranks, of which ``ranks`` are named; the ``number`` of the collective, the last one ``reached``, and of a
    mismatch what was ``wanted`` and what is ``differing``, each "" where the report does not state it.
    """

    kind: str
    ranks: tuple[int, ...]
    count: int
    operation: str
    number: str
    line: int
    file: int = 0
    reached: str = ""
    wanted: str = ""
    differing: str = ""


@dataclass(frozen=True)
class LogWarning:
    """One kind of warning that carries a cause: how often, and its first and last line."""

    kind: WarningKind
    count: int
    first_line: int
    last_line: int
    file: int = 0
    amount: float = 0.0  # the sum of what the lines state: allocator flushes, else their number
    to_the_end: bool = True  # of losses that are no finite number: every later step line states one


@dataclass(frozen=True)
class Recompilation:
    """A function that torch.compile compiled again ``count`` times by its log, or whose limit of that ``limits`` lines
    state; the ``reason`` is the first that is given, "" where none is."""

    function: str
    place: str
    count: int
    limits: int
    first_line: int
    last_line: int
    file: int = 0
    reason: str = ""


@dataclass(frozen=True)
class ReportedError:
    """An error that a driver reported, and how often: ``code`` as "Xid 79" or "EI0002"."""

    code: str
    place: str  # the device's address on PCI; "" where the line names none
    remote: tuple[int, ...]  # the ranks that were waited for, as far as the line names them
    count: int
    first_line: int
    last_line: int
    file: int = 0
    times: RepeatedLine | None = None  # when, as far as the lines state it
    waiting: tuple[int, ...] = ()  # the ranks that wrote it, as far as other lines of their processes name them


@dataclass(frozen=True)
class Restart:
    """A place at which the step number of the output falls: the last step before, the first one after, which ``line``
    states, and the time between the two lines, None where they do not state it."""

    line: int
    reached: int
    again_from: int
    down_s: float | None = None
    file: int = 0


@dataclass(frozen=True)
class Epochs:
    """Epochs of which step lines count the steps from their own start: the ``first`` one that a line names, how many,
    and whether the lines state how many steps an epoch has, so that the numbers of later steps are known."""

    first: int
    count: int
    length_stated: bool


@dataclass(frozen=True)
class BarUpdate:
    """The only update of a progress bar: steps done, and ms of one by its clock; of the first step, or where steps
    before a checkpoint may be counted (``smoothed``), as its rate."""

    steps: int
    step_ms: float
    line: int
    file: int = 0
    smoothed: bool = False


@dataclass(frozen=True)
class BarsApart:
    """Updates of two interleaved bars after the same time, at different steps: ``ahead`` in an earlier line."""

    ahead: int
    ahead_line: int
    behind: int
    behind_line: int
    elapsed_s: float
    file: int = 0


def _none_of(columns: dict[str, str]) -> pd.DataFrame:
    from tools.run.events import empty_table

    return empty_table(columns)


@dataclass(frozen=True, eq=False)
class Throughput:
    """What step lines without a time count per second, by step (``RATE_COLUMNS``): samples, tokens, as they name it;
    of the longest of so many ``starts`` of the job."""

    table: pd.DataFrame
    unit: str
    starts: int = 1


@dataclass(frozen=True, eq=False)
class OtherSteps:
    """The same steps by another source of the job, of which a better one is used: ``STEP_COLUMNS``."""

    name: str
    steps: pd.DataFrame
    step_time: StepTime


@dataclass(frozen=True, eq=False)
class LinesApart:
    """Step lines of another form than those that are used, all before or all behind them in the same text: ``steps``
    as ``STEP_COLUMNS``."""

    grammar: str
    steps: pd.DataFrame
    samples: bool = False  # single steps of those that are used, which are sums over all of them
    training: bool = False  # they are known to be of another training

    @property
    def first_line(self) -> int:
        """The first of the lines."""
        return int(self.steps["line"].min())

    @property
    def last_line(self) -> int:
        """The last of the lines."""
        return int(self.steps["line"].max())


Topic = Literal["evaluation", "memory", "length", "batch", "precision", "save"]


@dataclass(frozen=True)
class NamedLine:
    """The first line that has words of a topic, understood or not: where to look, and the source of no figure."""

    topic: Topic
    words: str
    line: int
    file: int = 0


@dataclass(frozen=True, eq=False)
class JobLog:
    """What the output of one job holds, over all its files (``files``; ``file`` counts them from 0).

    steps:      ``STEP_COLUMNS``: wall_ms over ``span`` steps that end with ``step``; NaN where a line lacks a figure;
                written_ns is when the line was written, on ``clock``; data_wait_ms of a step, as the line states it;
                skipped are the skipped ones of the span, skipped_so_far since the job began where stated
    timers:     ``TIMER_COLUMNS``: named parts of a step in ms, least and most over ranks (equal where one is stated)
    rank_timers: ``RANK_TIMER_COLUMNS``: the same of each ``rank`` of the job, where the output lists them
    rank_reports: ``RANK_REPORT_COLUMNS``: which rank has the least or the ``most`` of a figure by Megatron-LM's
                straggler report: ms of the timed work per step, W, C, %, MHz, TFLOP/s
    comm_tests: ``COMM_TEST_COLUMNS``: rows of an nccl-tests table
    actions:    ``ACTION_COLUMNS``: rows of a profiler's table in the output
    """

    steps: pd.DataFrame
    timers: pd.DataFrame
    comm_tests: pd.DataFrame
    actions: pd.DataFrame
    files: tuple[str, ...] = ()
    rank_timers: pd.DataFrame = field(default_factory=lambda: _none_of(RANK_TIMER_COLUMNS))
    rank_reports: pd.DataFrame = field(default_factory=lambda: _none_of(RANK_REPORT_COLUMNS))
    step_time: StepTime = "step"
    clock: SampleClock = "none"  # of the times at which step lines were written; none where these hold no date
    grammars: tuple[str, ...] = ()
    nccl: NcclFacts = field(default_factory=NcclFacts)
    timeouts: tuple[CollectiveTimeout, ...] = ()
    statuses: tuple[WatchdogStatus, ...] = ()  # of ranks that report no time-out
    warnings: tuple[LogWarning, ...] = ()
    reports: tuple[CollectiveReport, ...] = ()
    errors: tuple[ReportedError, ...] = ()
    memory: dict[str, Cited] = field(
        default_factory=dict
    )  # bytes of the first report of exhausted memory, ``MEMORY_PARTS``
    # Of torch.cuda.memory_summary(): "ooms", "retries"; bytes "allocated", "reserved", "unreleasable", "peak_..."
    memory_summary: dict[str, Cited] = field(default_factory=dict)
    peak_memory: tuple[PeakMemory, ...] = ()  # that the program prints, of each kind the largest
    epoch_times: tuple[EpochTime, ...] = ()  # of programs that state the time of an epoch
    saves: tuple[StepNote, ...] = ()  # lines that say that a checkpoint or another state is saved
    evaluation_times: tuple[EvaluationTime, ...] = ()  # of whole evaluations, by lines that name them
    inference_times: tuple[InferenceTime, ...] = ()  # of evaluations, by lines that state no time of the whole
    evaluations: tuple[StepNote, ...] = ()  # lines that say that the model is evaluated, or how well it does then
    whole_run: dict[WholeRunKind, OfWholeRun] = field(default_factory=dict)  # that lines state of the whole training
    ranks: tuple[int, ...] = ()  # those that launchers name before lines
    settings: dict[str, Cited] = field(default_factory=dict)  # arguments of the job by name, such as micro_batch_size
    bars: tuple[BarUpdate, ...] = ()  # where no other steps are known and several bars show one update each
    bars_apart: tuple[BarsApart, ...] = ()  # progress bars of processes that are not at the same step
    restarts: tuple[Restart, ...] = ()  # of the lowest rank whose steps are known
    named_lines: tuple[NamedLine, ...] = ()  # of each topic the first in the text
    named_times: tuple[NamedTime, ...] = ()  # of work that lines name in a sentence
    failed_starts: tuple[Cited, ...] = ()  # the errors of starts behind which another one begins
    trainings: int = 1  # below each other in the text of the steps, as headers of their epochs show
    tokens_per_step: Cited | None = None  # by which times of steps follow from tokens per second
    generated: Cited | None = None  # the first line with the length of texts that steps generate
    begins: int = 0  # places at which the step number begins again, other than ``restarts``
    unnamed_bar: bool = False  # the steps are those of a progress bar that does not name its work
    validated: bool = False  # the time of a step line holds a validation, whose figures it states
    epochs: Epochs | None = None  # of the step lines that are used; None where they name none
    bar_total: int = 0  # what the bar counts to whose steps are used, if these may be the epochs of the job
    rounding: float = 0.0  # share of the time of a row that the whole seconds of a progress bar do not show
    throughput: Throughput | None = None  # where the lines state it and no time
    recompilations: tuple[Recompilation, ...] = ()  # by torch.compile's log
    test_starts: tuple[
        Cited, ...
    ] = ()  # hosts of which each runs a test of its own at the same time, by nccl-tests' lists of ranks
    single_rates: Throughput | None = None  # of single steps, next to times that are means of several
    lines_apart: tuple[LinesApart, ...] = ()  # as of another program in the same text
    ranks_stated: bool = True  # False: the steps are those of the job, of which no line names a rank
    used: tuple[str, ...] = ()  # the files whose steps are used, where others hold steps of the same ranks: ``unused``
    unused: tuple[str, ...] = ()
    other_steps: tuple[OtherSteps, ...] = ()  # of sources that state the steps as well, and not as well

    def whole(self, name: str) -> int | None:
        """An argument of the job as a whole number; None where the log does not state it as one."""
        stated = self.settings.get(name)
        return int(stated.value) if stated is not None and stated.value.isdecimal() else None

    @property
    def span(self) -> int:
        """The steps that a figure of ``steps`` usually stands for; 1 where there are none."""
        return 1 if self.steps.empty else int(self.steps["span"].median())


def with_steps_of(first: JobLog, second: JobLog, steps: bool = True) -> JobLog:
    """The first record with the steps of the second (without ``steps`` with its own), and the settings of both; the
    steps that are not used stay as those of another source."""
    before = len(first.files)
    further = {name: replace(each, file=each.file + before) for name, each in second.settings.items()}
    others = (*first.other_steps, *second.other_steps, *_as_other(first if steps else second))
    whole = replace(
        first, files=(*first.files, *second.files), settings={**further, **first.settings}, other_steps=others
    )
    if not steps:
        return whole
    moved = second.steps.assign(file=second.steps["file"] + before)
    own = replace(whole, steps=moved, step_time=second.step_time, clock=second.clock, grammars=second.grammars)
    return replace(own, ranks_stated=second.ranks_stated, epochs=second.epochs)


def joined_logs(first: JobLog | None, second: JobLog | None) -> JobLog | None:
    """The records of two sources: the first, with the steps of the second where it has none or states them worse."""
    if first is None or second is None:
        return first or second
    better = not second.steps.empty and _worth(second) < _worth(first)
    return with_steps_of(first, second, steps=first.steps.empty or better)


def _as_other(log: JobLog) -> tuple[OtherSteps, ...]:
    if log.steps.empty:
        return ()
    place = int(log.steps["file"].iloc[0])
    return (OtherSteps(log.files[place] if place < len(log.files) else log.files[0], log.steps, log.step_time),)


def _worth(log: JobLog) -> int:
    """The place of the log's step times among the kinds of them, the best first: the time of every step, means over
    all steps, one step of several, differences of time stamps, which hold other work too, and a smoothed rate."""
    if log.span == 1 and log.step_time in (*SINGLE, *MEANS):
        return 0
    if log.step_time in MEANS:
        return 1
    if log.step_time in SINGLE:
        return 2
    return 3 if log.step_time == "stamps" else 4
