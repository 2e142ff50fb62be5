"""Reads one file of a job's output into its record: ``read_job_log``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import pandas as pd

from tools.errors import InputError
from tools.run.events import empty_table
from tools.run.recorded.job_log import (
    ACTION_COLUMNS,
    COMM_TEST_COLUMNS,
    RANK_REPORT_COLUMNS,
    RANK_TIMER_COLUMNS,
    RATE_COLUMNS,
    SINGLE,
    STEP_COLUMNS,
    TIMER_COLUMNS,
    BarUpdate,
    EpochTime,
    EvaluationTime,
    JobLog,
    LinesApart,
    Throughput,
)
from tools.sources.decompress import Expansion, Readable
from tools.sources.job_log.bar import LEAST_PART_S
from tools.sources.job_log.bar_rows import bar_rows
from tools.sources.job_log.collect import ENGINE, Collector
from tools.sources.job_log.file_ranks import UNNAMED
from tools.sources.job_log.grammars.generic_lines import FREE_LINES
from tools.sources.job_log.grammars.given_pattern import GRAMMAR as GIVEN
from tools.sources.job_log.grammars.given_pattern import GivenPattern
from tools.sources.job_log.grammars.keras_lines import KERAS_EPOCHS
from tools.sources.job_log.grammars.library_lines import PADDLE
from tools.sources.job_log.grammars.step_figures import METRIC_LOGGER
from tools.sources.job_log.grammars.video_epochs import VIDEO_EPOCHS
from tools.sources.job_log.joined_logs import CLOSEST_FIRST, one_clock, step_table
from tools.sources.job_log.lines import LineReader
from tools.sources.job_log.named_lines import NamedLines
from tools.sources.job_log.scan import scanned_starts
from tools.sources.job_log.series import Series, series_of_bar
from tools.sources.job_log.starts import LEAST_ROWS
from tools.sources.job_log.streams import NO_RANK, Stream, StreamRows
from tools.sources.options import GIB, Limits

LIMITS = Limits(expanded_bytes=256 * GIB, expand_s=3600.0)
STEADY_SHARE = 0.5  # of the steps of the unnamed stream: ranks that are named with fewer are not what trains


@dataclass(frozen=True, eq=False)
class FileRead:
    """What one file holds; ``log`` is None where that is nothing of a job."""

    log: JobLog | None
    lines: int
    ranks: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    partial: bool = False


def read_job_log(path: Readable, file: int = 0, pattern: str = "") -> FileRead:
    """The records of a file of any size in bounded memory, by the user's ``pattern`` too where there is one.

    ``InputError`` where it cannot be read.
    """
    given = GivenPattern(pattern) if pattern else None
    expansion = Expansion(path, LIMITS)
    notes: list[str] = []
    collector, named = Collector(file, given), NamedLines(file)
    starts = scanned_starts if given is None else given.starts
    lines = LineReader(_whole_or_first(expansion, notes), collector.wants_all, starts, named.take)
    for raw in lines:
        collector.take(raw)
    collector.close()
    if lines.binary:
        return FileRead(None, 0, notes=("it is no text",))
    notes += [f"{expansion.damage}, and what follows was left out"] if expansion.damage else []
    notes += [f"{lines.shortened} lines are longer than any line of a log; their ends were left out"] * bool(
        lines.shortened
    )
    log, said = log_of(collector, getattr(path, "name", str(path)))
    log = None if log is None else replace(log, named_lines=tuple(named.found.values()))
    said += [] if log is None or log.ranks_stated else _whole_job(log)
    return FileRead(log, lines.lines, _ranks(log), (*notes, *said), bool(notes or collector.messages.errors.left_out))


def _whole_or_first(expansion: Expansion, notes: list[str]) -> Iterator[bytes]:
    """The bytes as far as they can be expanded; a limit that is passed ends them with a note."""
    given = False
    try:
        for piece in expansion:
            given = True
            yield piece
    except InputError as error:
        if not given or isinstance(error.__cause__, OSError):
            raise
        notes.append(str(error).partition(": ")[2])


def _whole_job(log: JobLog) -> list[str]:
    """How many ranks the job of steps without a rank has, with the line that states it."""
    stated = log.settings.get("world_size")
    if stated is not None:
        ranks = "1 rank" if stated.value == "1" else f"{stated.value} ranks"
        return [f"the job has {ranks} by line {stated.line}"]
    largest = max((each.size for each in log.nccl.communicators), default=0)
    line = next((each.line for each in log.nccl.communicators if each.size == largest), 0)
    return (
        [f"the job has {largest} ranks or more, those of NCCL's largest communicator (line {line})"] if largest else []
    )


def _ranks(log: JobLog | None) -> tuple[int, ...]:
    """The ranks that the log says anything of."""
    if log is None:
        return ()
    reported = {*(each.rank for each in log.timeouts), *(each.rank for each in log.statuses)}
    return tuple(sorted({*log.steps["rank"].tolist(), *log.ranks, *reported}))


def log_of(collector: Collector, name: str) -> tuple[JobLog | None, list[str]]:
    """The record of what was collected, and notes; None where that is nothing of a job."""
    file = collector.file
    chosen, notes = _chosen(collector.streams)
    notes += collector.epochs_notes()
    overflows = collector.messages.overflows
    tables = [overflows.counted(series.table).assign(rank=max(rank, 0), file=file) for rank, series in chosen.items()]
    tests = [{**asdict(row), "file": file} for table in collector.tests for row in table.rows]
    kinds = [series.step_time for series in chosen.values()]
    of_window = {series.grammar for series in chosen.values() if series.step_time == "window"}
    log = JobLog(
        steps=step_table(tables, STEP_COLUMNS),
        timers=_timers(collector.streams, file),
        rank_timers=_frame([{**row, "file": file} for row in collector.rank_timers], RANK_TIMER_COLUMNS),
        rank_reports=_frame([{**row, "file": file} for row in collector.rank_reports.rows], RANK_REPORT_COLUMNS),
        comm_tests=_frame(tests, COMM_TEST_COLUMNS),
        actions=_frame([{**asdict(row), "file": file} for row in collector.actions], ACTION_COLUMNS),
        files=(name,),
        step_time=max(kinds, key=CLOSEST_FIRST.index) if kinds else "step",
        clock=one_clock(series.clock for series in chosen.values()),
        grammars=tuple(dict.fromkeys(series.grammar for series in chosen.values())),
        nccl=collector.nccl.facts(),
        timeouts=collector.messages.timed_out(),
        statuses=collector.messages.statuses(),
        warnings=tuple(collector.messages.warnings.values()),
        reports=tuple(collector.messages.reports.found),
        errors=collector.messages.errors.reported(),
        epoch_times=tuple(_better_than_bars(collector)),
        recompilations=tuple(collector.messages.recompiled.found.values()),
        test_starts=collector.separate_tests(),
        saves=tuple(collector.messages.notes["save"]),
        evaluations=tuple(collector.messages.notes["evaluation"]),
        evaluation_times=_evaluations(collector),
        whole_run=collector.whole_run.found(),
        inference_times=tuple(collector.inferences.found),
        memory=collector.messages.memory,
        memory_summary=collector.messages.summary.found,
        peak_memory=tuple(collector.messages.peaks.found.values()),
        settings=collector.messages.settings,
        ranks=tuple(sorted(collector.ranks)),
        ranks_stated=NO_RANK not in chosen,
        restarts=tuple(replace(each, file=file) for series in list(chosen.values())[:1] for each in series.restarts),
        named_times=tuple(each for own in collector.prose.found.values() for each in own),
        failed_starts=tuple(collector.failed.found),
        trainings=max([1, *(stream.keras.training for stream in collector.streams.values())]),
        tokens_per_step=collector.content.used if any(series.derived for series in chosen.values()) else None,
        generated=collector.content.generated,
        begins=next((series.begins for series in chosen.values()), 0),
        unnamed_bar=any(series.unnamed for series in chosen.values()),
        validated=any(series.validated for series in chosen.values()),
        epochs=next((series.epochs for series in chosen.values()), None),
        rounding=max((series.rounding for series in chosen.values()), default=0.0),
        bar_total=next((series.total for series in chosen.values()), 0),
        throughput=None if tables else _throughput(collector.streams, file),
        single_rates=_throughput(collector.streams, file) if METRIC_LOGGER in of_window else None,
        bars=() if tables else _bars(collector.streams, file),
        lines_apart=tuple(
            LinesApart(
                each.grammar,
                step_table([each.table.assign(rank=max(rank, 0), file=file)], STEP_COLUMNS),
                training=each.training != series.training,
                samples=series.grammar == VIDEO_EPOCHS,
            )
            for rank, series in chosen.items()
            for each in series.apart
        ),
        bars_apart=tuple(
            replace(each, file=file) for stream in collector.streams.values() if (each := stream.bars.apart) is not None
        ),
    )
    notes += [*collector.prose.notes(), *_ambiguous(collector.streams), *_bars_of_items(collector.streams)]
    return (log if _holds(log) else None), [*notes, *collector.messages.errors.notes]


def _evaluations(collector: Collector) -> tuple[EvaluationTime, ...]:
    """The times of evaluations as lines state them; where none does, of their progress bars."""
    if collector.messages.evaluated:
        return tuple(collector.messages.evaluated)
    bars = [each for stream in collector.streams.values() for each in stream.bars.evaluated]
    return tuple(
        EvaluationTime(str(round(seconds, 6)), line, collector.file, by_bar=True)
        for seconds, line in sorted(bars, key=lambda each: each[1])
    )


def _better_than_bars(collector: Collector) -> list[EpochTime]:
    """The times of epochs, without those by what is left on a bar whose end states the time of its steps."""
    kinds = {kind for stream in collector.streams.values() for kind in stream.steps}
    totals = {int(kind.split()[3]) for kind in kinds if kind.startswith(f"{KERAS_EPOCHS} of ")}
    return [each for each in collector.epoch_times if not (each.expected and each.items in totals)]


AMBIGUOUS = (
    "%d step lines state several times or those of parts, and which one is of the step is not named: `--log-pattern` "
    "with a group time_s or time_ms says it"
)


OF_ITEMS = (
    "a progress bar (line {}) counts {} items of {:.2g} ms, too short for training steps: samples or the like; left out"
)


OF_EVALUATION = "the progress bars of {} items are those of an evaluation by the text behind them (line {}); left out"
UNKNOWN_BAR = (
    "a progress bar of {} items whose work is not named (line {}): behind it figures of an evaluation are printed; it "
    "may be of that or of the training, and is left out"
)
UNNAMED_BARS = (
    "progress bars of {} items (lines {}) stand in the output, and which of them counts training steps is not stated; "
    "left out"
)
OF_EPOCHS = "a progress bar (line {}) counts {} epochs and no steps; left out"


def _bars_of_items(streams: Mapping[Stream, StreamRows]) -> list[str]:
    """Notes on bars that count no steps."""
    found = [bar for stream in streams.values() if (bar := stream.bars.too_short()) is not None]
    epochs = [bar for stream in streams.values() if (bar := stream.bars.of_epochs()) is not None]
    said = [
        OF_EVALUATION.format(bar.total, bar.said_line)
        for stream in streams.values()
        if (bar := stream.bars.of_evaluation()) is not None
    ][:1]
    said += [
        UNKNOWN_BAR.format(bar.total, bar.line[0])
        for stream in streams.values()
        if (bar := stream.bars.of_unknown()) is not None
    ][:1]
    for own in [bars for stream in streams.values() if (bars := stream.bars.unnamed())][:1]:
        totals, lines = (
            " and ".join(map(str, each)) for each in zip(*((bar.total, bar.line[0]) for bar in own[:2]), strict=True)
        )
        said.append(UNNAMED_BARS.format(totals, lines))
    said += [OF_EPOCHS.format(bar.line[0], bar.total) for bar in epochs[:1]]
    return said + [OF_ITEMS.format(bar.line[0], bar.total, max(bar.step_ms)) for bar in found[:1]]


def _ambiguous(streams: Mapping[Stream, StreamRows]) -> list[str]:
    count = sum(rows.ambiguous for stream in streams.values() for rows in stream.steps.values())
    return [AMBIGUOUS % count] if count >= LEAST_ROWS else []


def _holds(log: JobLog) -> bool:
    tables = (log.steps, log.timers, log.rank_reports, log.comm_tests, log.actions)
    return any(not table.empty for table in tables) or bool(
        log.nccl.lines
        or log.timeouts
        or log.statuses
        or log.warnings
        or log.reports
        or log.errors
        or log.epoch_times
        or log.named_times
        or log.recompilations
        or log.saves
        or log.evaluations
        or log.throughput
        or log.memory_summary
        or log.peak_memory
        or log.bars
        or "left_s" in log.whole_run
    )


def _bars(streams: Mapping[Stream, StreamRows], file: int) -> tuple[BarUpdate, ...]:
    """The bars that show one update each, in the order of the log."""
    found = []
    for stream in streams.values():
        for bar in stream.bars.training(least=1):
            rows, kind = bar_rows(bar)
            if len(rows) == 1 and (kind != "smoothed" or max(bar.elapsed_s) >= LEAST_PART_S):
                found.append(BarUpdate(rows[0].step, rows[0].wall_ms, rows[0].line, file, kind == "smoothed"))
    return tuple(sorted(found, key=lambda each: each.line))


def _throughput(streams: Mapping[Stream, StreamRows], file: int) -> Throughput | None:
    """The throughput of every rank in the unit that most lines state; of no rank that of the longest stream."""
    found: dict[int, tuple[pd.DataFrame, str, int]] = {}
    for (rank, _), stream in streams.items():
        for rows in stream.steps.values():
            rates = rows.rates()
            if rates is not None and (rank not in found or len(rates[0]) > len(found[rank][0])):
                found[rank] = rates
    if not found:
        return None
    unit = max(found.values(), key=lambda each: len(each[0]))[1]
    used = {rank: each for rank, each in found.items() if each[1] == unit}
    tables = [table.assign(rank=max(rank, 0), file=file) for rank, (table, _, _) in used.items()]
    return Throughput(step_table(tables, RATE_COLUMNS), unit, max(starts for _, _, starts in used.values()))


def _chosen(streams: Mapping[Stream, StreamRows]) -> tuple[dict[int, Series], list[str]]:
    """The best series of every rank; of one without a name, under ``NO_RANK``, where no rank is named."""
    found: dict[int, list[Series]] = {}
    for (rank, _), rows in streams.items():
        series = _best(rows)
        if series is not None:
            found.setdefault(rank, []).append(series)
    if any(each.grammar != ENGINE for own in found.values() for each in own):  # lines of steps before timers alone
        found = {rank: [each for each in own if each.grammar != ENGINE] for rank, own in found.items()}
        found = {rank: own for rank, own in found.items() if own}
    best = {rank: max(own, key=lambda each: len(each.table)) for rank, own in sorted(found.items())}
    named = {rank: series for rank, series in best.items() if rank != NO_RANK}
    notes: list[str] = []
    unnamed = best.get(NO_RANK)
    if unnamed is not None and named:
        longest = max(len(series.table) for series in named.values())
        chosen = named if longest >= STEADY_SHARE * len(unnamed.table) else {NO_RANK: unnamed}
    else:
        chosen = best
    if NO_RANK in chosen:
        notes.append(UNNAMED)
        if len(found.get(NO_RANK, ())) > 1:
            notes.append(f"{len(found[NO_RANK])} pods print steps without a rank; the one with the most is used")
    notes += [note for series in chosen.values() for note in series.notes]
    return chosen, list(dict.fromkeys(notes))


def _best(rows: StreamRows) -> Series | None:
    """What the user's pattern finds; else step lines with a time, then a progress bar, then stamps; the longest.

    A single line where there are no more.
    """
    return _best_of(rows) or _best_of(rows, least=1)


def _best_of(rows: StreamRows, least: int = LEAST_ROWS) -> Series | None:
    found = [series for each in rows.steps.values() if (series := each.series(least)) is not None]
    given = next((series for series in found if series.grammar == GIVEN), None)
    if given is not None:
        return given
    bars = [
        replace(series, begins=rows.bars.again, unnamed=not rows.bars.evident(each))
        for each in rows.bars.training(least)
        if (series := series_of_bar(each, least)) is not None
    ]
    bar = bars[0] if bars and (least > 1 or len(bars) == 1) else None
    stated = [series for series in found if series.step_time not in ("stamps", "running")]
    stated = [series for series in stated if series.grammar != FREE_LINES] or stated
    by_bar = [] if bar is None else [bar]
    parts = [series for series in stated if series.step_time == "sum"]
    for choice in ([] if least == 1 and len(parts) == len(stated) else stated, by_bar, found):
        if choice:
            best = max(choice, key=lambda each: len(each.table))
            own = [each for each in found if each.grammar == VIDEO_EPOCHS]
            if own and best.grammar == PADDLE and best.step_time in SINGLE:  # the sum over all steps before samples
                return replace(own[0], apart=(best,))
            others = [each for each in found if each.step_time != "stamps" and each.grammar != FREE_LINES]
            if best.grammar == KERAS_EPOCHS:  # one line is a whole epoch
                others = [each for own in rows.steps.values() if (each := own.series(1)) is not None]
            return replace(best, apart=tuple(each for each in others if _disjoint(each, best)))
    return None


def _disjoint(one: Series, other: Series) -> bool:
    """Whether all lines of one stand before all of the other: two forms of one program alternate."""
    lines = [(int(each.table["line"].min()), int(each.table["line"].max())) for each in (one, other)]
    return lines[0][1] < lines[1][0] or lines[1][1] < lines[0][0]


def _timers(streams: Mapping[Stream, StreamRows], file: int) -> pd.DataFrame:
    tables = [
        stream.timers.table().assign(rank=max(rank, 0), file=file)
        for (rank, _), stream in streams.items()
        if stream.timers.step
    ]
    return step_table(tables, TIMER_COLUMNS)


def _frame(rows: Sequence[Mapping[str, object]], columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows)[list(columns)].astype(columns) if rows else empty_table(columns)
