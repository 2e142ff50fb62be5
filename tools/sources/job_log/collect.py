"""Sorts the lines of one file to what they hold: steps, bars, timers, NCCL, tables, messages."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

from tools.run.recorded.job_log import NO_HEAD, Cited, EpochTime, EvaluationTime, StepNote
from tools.sources.job_log.bar_lines import bar_point
from tools.sources.job_log.collective_reports import MISSING_HEAD, MissingRanks
from tools.sources.job_log.comm_tests import (
    TEST_AVERAGE,
    TEST_BEGIN,
    TEST_HEAD,
    TEST_NAME,
    TEST_RANK,
    TESTED_WITHIN,
    CommTestTable,
    goes_on,
    headless_row,
)
from tools.sources.job_log.epoch_clock import clock_of_epochs
from tools.sources.job_log.evaluation_times import (
    BRACKETS,
    EvaluationBrackets,
    Inferences,
    begins_inference,
    names_evaluation,
    time_cost_s,
)
from tools.sources.job_log.failed_starts import FailedStarts
from tools.sources.job_log.grammars.column_rows import ColumnRows
from tools.sources.job_log.grammars.epoch_times import epoch_time
from tools.sources.job_log.grammars.generic_lines import SINCE_1970_S
from tools.sources.job_log.grammars.given_pattern import GivenPattern
from tools.sources.job_log.grammars.keras_lines import KERAS_EPOCHS, KERAS_LINES, evaluation_of
from tools.sources.job_log.grammars.step_figures import UNNUMBERED, StepLine
from tools.sources.job_log.grammars.step_lines import step_line
from tools.sources.job_log.lines import RawLine
from tools.sources.job_log.messages import Messages
from tools.sources.job_log.nccl import WARNS, NcclReader
from tools.sources.job_log.prefixes import Line, LogClock, Stamp, parse_line, stamp_within
from tools.sources.job_log.profile_tables import ProfileTables, Table, flops_row
from tools.sources.job_log.prose_times import ProseTimes
from tools.sources.job_log.rank_reports import RankReports
from tools.sources.job_log.step_content import StepContent
from tools.sources.job_log.streams import NO_RANK, Stream, StreamRows
from tools.sources.job_log.tables import (
    COMMUNICATION,
    LIGHTNING_HEAD,
    MOST_ROWS,
    TIMER_HEAD,
    Action,
    CommOperations,
    CommSummary,
    CsvTable,
    LightningTable,
    Timer,
    TimerTable,
    chat_timers,
    csv_table,
    flat_timers,
    lightning_epoch_ms,
    verl_timers,
)
from tools.sources.job_log.whole_run import WholeRun

MEAN_WINDOW = "mean_window"
AVERAGE_BUS = "average_bus_bandwidth_gb_per_s"
MOST_STREAMS = 1 << 14
MOST_TESTED_RANKS = 1 << 16
MOST_AHEAD = 4096  # timers of the micro-batches and the optimizer of one step
LONGEST_TEXT = 1 << 14  # characters of a line in which records are looked for; verl writes all metrics into one
MOST_RANKS = 1 << 17
MOST_RANK_TIMERS = 1 << 20
MOST_EPOCHS = 1 << 14
TORN = re.compile(r"(?<=\S)(?=\[(?:rank|default)\d{1,6}\](?:: ?\[|:? ))")  # two ranks wrote into one line


TIMERS = {"verl": verl_timers, "DeepSpeed-Chat": chat_timers}  # parts of a step in its line
ENGINE, PHASES = "DeepSpeed timers", ("forward", "backward", "step")  # by wall_clock_breakdown
# Of a step each, where lines of them come before any step line: DeepSpeed's of a micro-batch, Megatron-LM's.
PHASES_ALONE = (frozenset(f"{name}_microstep" for name in PHASES), frozenset(("forward-compute", "backward-compute")))
TRAINER_RECORD = ("{'loss': ", '{"loss": ')  # of HF Trainer, which names no step in it
REPORTS = ("Xid", "EI00", "EJ00")


class Collector:
    """What the lines of one file hold."""

    def __init__(self, file: int, given: GivenPattern | None = None) -> None:
        self.file = file
        self.given = given
        self.streams: dict[Stream, StreamRows] = {}
        self.nccl = NcclReader(file)
        self.messages = Messages(file)
        self.whole_run = WholeRun(file)
        self._evaluations = EvaluationBrackets(file)
        self.inferences = Inferences()
        self.content = StepContent(file)
        self.failed = FailedStarts(file)
        self.prose = ProseTimes(file)
        self._columns = ColumnRows()
        self.rank_timers: list[dict[str, object]] = []
        self.rank_reports = RankReports()
        self.tests: list[CommTestTable] = []
        self.actions: list[Action] = []
        self.operations = CommOperations()
        self._test_ranks: list[tuple[int, Cited]] = []  # with their hosts
        self._test: CommTestTable | None = None
        self.ranks: set[int] = set()
        self.epoch_times: list[EpochTime] = []
        self._kind = ""
        self._timers: tuple[TimerTable, StreamRows] | None = None
        self._table: Table | None = None
        self._profiles = ProfileTables()
        self._csv: CsvTable | None = None
        self._evaluation = UNNUMBERED  # the line of the last one whose time the next line states
        self._clock = LogClock()
        self._numbered = False  # a line names a step

    def wants_all(self) -> bool:
        """Whether a table is open, so that each line may be one of its rows."""
        tables = (self._test, self._timers, self._table, self._csv)
        return any(each is not None for each in tables) or bool(self._columns.columns)

    def take(self, raw: RawLine) -> None:
        """Read one line."""
        line = parse_line(raw.number, raw.data)
        if self.given is not None and (found := self.given.line(raw.data)) is not None:
            self._add(line, found, line.text)
            return
        if line.rank is not None and len(self.ranks) < MOST_RANKS:
            self.ranks.add(line.rank)
        text = self.nccl.take(line.number, line.text, self._seconds(line, WARNS)) if "NCCL" in line.text else line.text
        text = text[:LONGEST_TEXT]
        if " Pid " in text and (listed := TEST_RANK.match(text)) and len(self._test_ranks) < MOST_TESTED_RANKS:
            self._test_ranks.append((int(listed[1]), Cited(listed[2], line.number, self.file)))
        if self._test is not None and self._test.kind == NO_HEAD and not goes_on(text):
            self._test = None
        if self._test is not None:
            self._tested(line.number, text)
        elif not text.strip():
            return
        elif not self._in_table(line, text):
            first, *others = TORN.split(text) if "[rank" in text or "[default" in text else (text,)
            self._read(line, first)
            for other in others:
                torn = parse_line(line.number, other.encode())
                self._read(torn, torn.text)

    def _tested(self, number: int, text: str) -> None:
        assert self._test is not None
        if average := TEST_AVERAGE.search(text):
            self.messages.settings.setdefault(AVERAGE_BUS, Cited(average[1], number, self.file))
        if average or number - self._test.line > TESTED_WITHIN:
            self._test = None
            return
        if not (named := TEST_NAME.search(text)):
            self._test.take(number, text)
        else:
            self._kind = named[1] or named[2]
            self._test.kind = self._test.kind if self._test.rows else self._kind

    def separate_tests(self) -> tuple[Cited, ...]:
        """The hosts of which each lists a rank 0 of its own before the first row; () where a test spans hosts."""
        rows = [row.line for table in self.tests for row in table.rows]
        own = {host.value: host for rank, host in reversed(self._test_ranks) if rank == 0}
        within = {host.value for _, host in self._test_ranks} == set(own)
        before = bool(rows) and all(host.line < min(rows) for _, host in self._test_ranks)
        return tuple(sorted(own.values(), key=lambda each: each.line)) if within and before and len(own) > 1 else ()

    def _in_table(self, line: Line, text: str) -> bool:
        """Whether the line is a row of the open table, which ends with the first line that is none."""
        if self._timers is not None:
            table, stream = self._timers
            if table.take(line.number, text):
                return True
            table.close()
            self._timed(stream, table.rows)
            if stream.step > 0 and len(self.rank_timers) < MOST_RANK_TIMERS:
                self.rank_timers += [{**asdict(each), "step": stream.step} for each in table.ranks]
            self._timers = None
        if self._table is not None:
            labelled = (
                isinstance(self._table, MissingRanks) and line.rank is not None
            )  # its "1: " looks like srun's label
            if self._table.take(line.number, f"{line.rank}: {text}" if labelled else text):
                return True
            self.actions += self._table.rows[: MOST_ROWS - len(self.actions)]
            self._table = None
        if self._csv is not None:
            if (row := self._csv.row(text)) is not None:
                self._add(line, row, text)
                return True
            self._csv = None
        return False

    def _read(self, line: Line, text: str) -> None:
        kept = self.messages.recompiled.take(line.number, text) or self.rank_reports.take(line.number, text)
        if kept or self._opens_table(line, text) or self._costs(line, text):
            return
        if "comm op: " in text:
            self.operations.take(line.number, text)
        elif "time (ms) |" in text:
            self._flat(line, flat_timers(line.number, text))
        elif (point := bar_point(text)) and "timing in s" not in text:
            self._stream(line).bars.take(point, line.number)
            self.messages.behind(line.number, text, line.job_rank)
        else:
            self._of_line(line, text)

    def _of_line(self, line: Line, text: str) -> None:
        """Read a line that is no row of a table and no update of a progress bar."""
        stream = self._stream(line)
        stream.bars.said(text, line.number)
        self.failed.take(line.number, text)
        self.content.note(line.number, text)
        if self._columns.head(text):
            return
        if (row := self._columns.row(text)) is not None:
            self._add(line, row, text)
            return
        if stream.keras.header(text):
            return
        elif (found := step_line(text)) is not None:
            self._add(line, found, text)
            if found.wall_ms is not None:  # "Saving at step 5" of an evaluation names a step as well
                self._evaluations.stepped()
            self.whole_run.stepped(line.number, text, None if found.epoch is not None else found.step)
            self.messages.note(line.number, text)
        elif (epoch := epoch_time(text, line.number, self.file)) is not None:
            self._epoch(epoch)
            if (found := stream.video.ended(text)) is not None:
                self._add(line, found, text)
        else:
            if text.startswith(TRAINER_RECORD):
                self._stream(line).bars.trained = True
            self.whole_run.take(line.number, text)
            self._evaluated(line, text)
            self.content.take(line.number, text)
            self.prose.take(line.number, text)
            self.messages.take(line.number, text, self._seconds(line, *REPORTS), line.job_rank)

    def _costs(self, line: Line, text: str) -> bool:
        """Whether the line ends an evaluation, or states how long one took, or its inference."""
        if names_evaluation(text):
            self._evaluation = line.number
            return True
        seconds = time_cost_s(text) if line.number - self._evaluation == 1 else None
        if seconds is None:
            if begins_inference(text):
                self.messages.noted("evaluation", StepNote("", line.number, self.file))
            return self.inferences.take(line.number, self.file, text, lambda: self._clock.seconds(line.stamp))
        self.messages.evaluated.append(EvaluationTime(str(seconds), line.number, self.file))
        return True

    def _evaluated(self, line: Line, text: str) -> None:
        """Keep an evaluation by the lines that begin and end it, where none between them states its time."""
        found = self._evaluations.take(line.number, text, self._seconds(line, *BRACKETS))
        kept = self.messages.evaluated
        if found is not None and len(kept) < MOST_EPOCHS and not (kept and kept[-1].line >= found.begin_line):
            kept.append(found)

    def _epoch(self, epoch: EpochTime) -> None:
        """Append the time of an epoch; of one whose bar still counts the last update stays. None of another training,
        with another number of epochs."""
        if self.epoch_times and self.epoch_times[0].count not in (None, epoch.count):
            return
        if self.epoch_times and self.epoch_times[-1].expected and self.epoch_times[-1].items == epoch.items:
            self.epoch_times[-1] = epoch
        elif len(self.epoch_times) < MOST_EPOCHS:
            self.epoch_times.append(epoch)

    def epochs_notes(self) -> list[str]:
        """Drop times of epochs that rise from line to line as a clock does; what is said of them."""
        note = clock_of_epochs(self.epoch_times)
        self.epoch_times = [] if note else self.epoch_times
        return [note] if note else []

    def _flat(self, line: Line, timers: list[Timer]) -> None:
        """Timers of one line; those of DeepSpeed are steps of their own where no line names a step."""
        stream, phases = self._stream(line), [timer.max_ms for timer in timers if timer.name in PHASES]
        if stream.step <= 0 and any(phases <= {timer.name for timer in timers} for phases in PHASES_ALONE):
            stream.micro_steps += 1
            stream.timers.add(stream.micro_steps, timers)
            return
        stream.bars.trained |= len(phases) == len(PHASES)
        if not self._numbered and len(phases) < len(PHASES):
            stream.ahead += timers[: MOST_AHEAD - len(stream.ahead)]
            return
        if not self._numbered:
            self._add(line, StepLine(ENGINE, UNNUMBERED, sum(phases) or None, of="sum"), "")
            timers, stream.ahead = [*stream.ahead, *timers], []
        elif ENGINE in stream.steps:
            return
        self._timed(stream, timers)

    def _opens_table(self, line: Line, text: str) -> bool:
        if self._begins_test(line.number, text):
            return True
        if "_perf" in text and (named := TEST_NAME.search(text)):
            self._kind = named[1] or named[2]
        elif "across ranks (" in text and (head := TIMER_HEAD.search(text)):
            self._timers = TimerTable(head[2]), self._stream(line)
        elif "Comm. Op" in text and "Total Latency" in text:
            self._table = CommSummary()
            self.actions = [each for each in self.actions if each.table != COMMUNICATION]
        elif (begun := self._begun(text)) is not None:
            self._table = begun
        elif "Mean duration" in text and LIGHTNING_HEAD.match(text):
            self._table = LightningTable()
            self._table.take(line.number, text)
        elif (table := self._profiles.opens(text)) is not None:
            table.take(line.number, text)
            self._table = table
        elif "latency" in text and (latency := flops_row(line.number, text)) is not None:
            self.actions.append(latency)
        elif (csv := csv_table(text)) is not None:
            self._csv = csv
        else:
            return False
        return True

    def _begins_test(self, number: int, text: str) -> bool:
        """Whether the line begins a table of nccl-tests: its head, or a row that stands without one."""
        headed = "out-of-place" in text or bool(TEST_HEAD.search(text) or TEST_BEGIN.match(text))
        if not headed and not (text.lstrip()[:1].isdigit() and headless_row(text)):
            return False
        if named := TEST_NAME.search(text):
            self._kind = named[1] or named[2]
        self._test = CommTestTable(number, self._kind if headed else NO_HEAD)
        self._test.take(number, text)
        self.tests.append(self._test)
        return True

    def _begun(self, text: str) -> Table | None:
        """The table that a title of its own begins."""
        if "issing ranks:" in text and MISSING_HEAD.search(text):
            return MissingRanks(self.messages.reports)
        return LightningTable() if "Profiler Report" in text else None

    def _seconds(self, line: Line, *words: str) -> float | None:
        """When a line with one of the words was written, on the log's clock; None where it does not say so."""
        if not any(word in line.text for word in words):
            return None
        return self._clock.seconds(line.stamp or stamp_within(line.text))

    def _timed(self, stream: StreamRows, timers: list[Timer]) -> None:
        """Timers that follow a step line are of that step; those before the first are of the start."""
        if stream.step > 0:
            stream.timers.add(stream.step, timers)

    def _add(self, line: Line, found: StepLine, text: str) -> None:
        self.messages.stepped(line.number, text, found.step)
        stream = self._stream(line)
        self._numbered |= found.grammar != ENGINE
        if found.grammar in (KERAS_EPOCHS, KERAS_LINES):
            placed = stream.keras.placed(found, line.number)
            if placed is None:
                self._passed(stream, found, line.number, text)
                return
            found = placed
        found = found if line.stamp or stamp_within(text) else self.content.timed(found)
        window = self.messages.settings.get(MEAN_WINDOW)
        rows = stream.rows_of(found, int(window.value) if window else 0)
        if rows is None:
            return
        if found.step == UNNUMBERED:  # counted by the steps that such lines stand for
            found = replace(found, step=rows.last_step + found.steps)
        stamp = None
        if found.clock_s is not None:
            stamp = Stamp(found.clock_s, found.clock_step_s, dated=found.clock_s >= SINCE_1970_S, zoned=True)
        else:
            stamp = line.stamp or stamp_within(text)
        rows.add(found, line.number, stamp)
        stream.step = found.step
        self.failed.stepped(found.step)
        stream.begin(found.step if found.grammar == ENGINE else None)
        if (timers := TIMERS.get(found.grammar)) is not None:
            self._timed(stream, timers(line.number, text))

    def _passed(self, stream: StreamRows, found: StepLine, line: int, text: str) -> None:
        """A bar of Keras that is of no training: keep the time of an evaluation."""
        seconds = evaluation_of(found, text)
        if seconds and not stream.keras.drawn_again(found, line) and len(self.messages.evaluated) < MOST_EPOCHS:
            self.messages.evaluated.append(EvaluationTime(str(round(seconds, 6)), line, self.file))

    def _stream(self, line: Line) -> StreamRows:
        key = (NO_RANK if line.rank is None else line.rank, line.pod)
        if key not in self.streams and len(self.streams) >= MOST_STREAMS:
            return StreamRows()
        return self.streams.setdefault(key, StreamRows())

    def close(self) -> None:
        """End the tables that the file ends in, and drop timers of micro-steps where only another stream has steps."""
        self._in_table(Line(0, ""), "\x00")
        if any(stream.steps for stream in self.streams.values()):
            for stream in self.streams.values():
                stream.begin(None)
        epoch_ms = lightning_epoch_ms(self.actions)
        for stream in self.streams.values():
            stream.bars.epoch_ms = epoch_ms
        self.messages.reports.close()
        if not any(each.table == COMMUNICATION for each in self.actions):  # a summary counts the same calls
            self.actions += self.operations.found.values()
