"""The map over the traces of a run: each is read, summarised, written down and forgotten.

Memory is bounded by the workers, however many ranks there are. What was made before is taken as it is, so that
interrupted work goes on, and the parts of a job array can be made anywhere and in any order.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeAlias

from tools.errors import InputError
from tools.run.packing import DamagedError
from tools.sources.decompress import Stream
from tools.sources.digest import digest
from tools.sources.files import KILLED, Failure
from tools.sources.options import LoadOptions, Progress
from tools.sources.registry import trace_format
from tools.sources.workers import Lost, LostProcessError
from tools.summaries.executor import Executor
from tools.summaries.file import ALL, decode, encode, file_name, key_of
from tools.summaries.folder import RefusedError, SummaryFolder
from tools.summaries.record import RankSummary, TableName
from tools.summaries.summarize import summarize

LONGEST_REASON = 500  # characters
LOG = logging.getLogger("hermes_dx.reduce")


class RemoteTrace(Stream, Protocol):
    """A trace that is streamed from where it lies."""

    @property
    def place(self) -> Path:
        """Its path inside the run."""

    def identity(self) -> str:
        """What names its content, "" where that is not known; raises ``InputError``."""


TraceSource: TypeAlias = Path | RemoteTrace


def place_of(trace: TraceSource) -> Path:
    """The path by which a trace is listed."""
    return trace if isinstance(trace, Path) else trace.place


@dataclass(frozen=True)
class SummaryFile:
    """The summary of one trace, to be read with ``read_summary``."""

    trace: Path
    key: str
    made: bool  # now; False: it was there before
    note: str = ""
    cut: str = ""  # why an unknown part of the trace's events is missing: nothing is measured on it

    @property
    def name(self) -> str:
        """The name of the file in its folder."""
        return file_name(self.key)


@dataclass(frozen=True)
class Refused:
    """The folder takes no summary: nothing is said of the trace."""

    reason: str


@dataclass(frozen=True)
class Reduced:
    """What became of the traces of a run, each in the order in which they were given."""

    summaries: tuple[SummaryFile, ...]
    failures: tuple[Failure, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What else there is to know of the summaries, one sentence each."""
        return tuple(each.note for each in self.summaries if each.note)


@dataclass(frozen=True)
class SummaryRequest:
    """One trace to summarise into a folder, unless its summary is there already."""

    trace: TraceSource
    folder: SummaryFolder
    options: LoadOptions

    def answer(self) -> SummaryFile | Failure | Refused:
        """The summary's file, or why there is none."""
        try:
            return self._file()
        except RefusedError as error:
            return Refused(str(error))
        except InputError as error:
            return Failure(place_of(self.trace), str(error))
        except Exception as error:  # the outermost boundary of a worker: one rank must not end the work on the others
            LOG.debug("%s cannot be summarised", self.trace, exc_info=True)
            reason = f"{self.trace}: cannot be summarised ({type(error).__name__}: {error})"
            return Failure(place_of(self.trace), reason[:LONGEST_REASON], isinstance(error, MemoryError | OSError))

    def _file(self) -> SummaryFile:
        own = digest(self.trace, self.options.cache_dir) if isinstance(self.trace, Path) else self.trace.identity()
        key, note = key_of(own or str(self.trace), self.options.limits), ""
        try:
            if own and (data := self.folder.read(file_name(key))) is not None:
                known = decode(data, key).facts.trace
                return SummaryFile(place_of(self.trace), key, made=False, cut=known.cut)
        except DamagedError as error:
            note = f"the summary of {self.trace.name} was damaged ({error}) and has been made again"
        trace = trace_format(self.trace).read(self.trace, own, self.options, None)
        if trace.others:
            ranks = len(trace.others) + 1
            raise InputError(f"{self.trace}: holds {ranks} ranks; of many ranks one file for each is summarised")
        self.folder.write(file_name(key), encode(summarize(trace, str(self.trace)), key))
        return SummaryFile(place_of(self.trace), key, made=True, note=note, cut=trace.facts.cut)


def part_of(traces: Sequence[TraceSource], number: int, parts: int) -> Sequence[TraceSource]:
    """The ``number``-th of so many parts, counted from 1; every trace is in one part, neighbours in different ones."""
    return traces[number - 1 :: parts]


def reduce_traces(
    traces: Sequence[TraceSource], folder: SummaryFolder, executor: Executor, options: LoadOptions, progress: Progress
) -> Reduced:
    """Make the summaries of these traces that are not in the folder yet; ``RefusedError`` where it takes none."""
    alone = replace(options, workers=1)
    requests = [SummaryRequest(trace, folder, alone) for trace in traces]
    results: dict[int, SummaryFile | Failure] = {}
    try:
        for place, answer in executor.map(requests):
            trace = traces[place]
            if isinstance(answer, Refused):
                raise RefusedError(answer.reason)
            lost = Failure(place_of(trace), f"{trace}: {KILLED}", transient=True)
            results[place] = lost if isinstance(answer, Lost) else answer
            progress.update("summaries", len(results), len(traces), trace.name)
    except LostProcessError as error:
        raise InputError(f"the traces could not be read: {error}; try with fewer workers") from error
    ordered = [results[place] for place in range(len(traces))]
    return Reduced(
        tuple(each for each in ordered if isinstance(each, SummaryFile)),
        tuple(each for each in ordered if isinstance(each, Failure)),
    )


def read_summary(folder: SummaryFolder, file: SummaryFile, tables: Sequence[TableName] = ALL) -> RankSummary:
    """The summary in a file, the tables that are not wanted empty; ``DamagedError`` where it is gone or damaged."""
    data = folder.read(file.name)
    if data is None:
        raise DamagedError("it was removed")
    summary = decode(data, file.key, tables)
    return replace(summary, facts=replace(summary.facts, path=str(file.trace)))
