"""A run of many traced ranks: they are summarized and compared, and those that tell most are read in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from tools.errors import InputError
from tools.run.layout import JobFacts, describe
from tools.run.model import Run
from tools.run.packing import DamagedError
from tools.run.screening import Screening, Unread
from tools.sources.files import Failure
from tools.sources.inventory import Inventory
from tools.sources.load import job_facts, load_ranks, load_records, parts_of_run
from tools.sources.options import Progress
from tools.sources.ranks import FileFacts, Part
from tools.summaries.choice import Choice, choose
from tools.summaries.executor import LocalProcesses
from tools.summaries.folder import LocalFolder, RefusedError, SecondFolder, SummaryFolder, cached
from tools.summaries.join import Joined, SummarizedTrace, join
from tools.summaries.record import RankSummary, SummaryFacts, TableName
from tools.summaries.reduce import Reduced, SummaryFile, read_summary, reduce_traces
from tools.summaries.screen import Screener, Selection


def read_many(
    paths: Sequence[Path], found: Inventory, screener: Screener, steps: tuple[int, int] | None, progress: Progress
) -> Run:
    """The run with the ranks that tell most; with all where their traces are of few.

    ``RefusedError`` where a folder that was named takes no summary.
    """
    options, selection = screener.options, Selection(steps=steps)
    with ExitStack() as stack:
        summaries = _summarized(found, screener, stack, progress)
        failures = summaries.reduced.failures
        if not summaries.reduced.summaries:
            return load_records(paths, found, failures).select(steps=steps)
        layout = describe(summaries.job_facts())
        parts = parts_of_run(paths, summaries.files)
        traces = [
            SummarizedTrace(part.guess.rank, part.file.facts.origin_ns, partial(summaries.read, part.file.path))
            for part in parts
            if not part.rejected and not part.file.facts.cut  # nothing is measured on a cut trace
        ]
        joined = join(traces, steps)
        unread = _unread(parts, joined, failures)
        ranks = sorted({part.guess.rank for part in parts if not part.rejected})
        if len(ranks) + len(failures) < screener.least:
            return screener.in_full(paths, found, selection, progress)
        if joined.ranks.empty:  # all are cut, or without whole steps: the first ones show it as well as all
            first = ranks[: int(screener.thresholds["most_ranks_in_full"])]
            return load_ranks(found, parts, first, layout, failures, options, progress).select((), steps)
        choice = choose(joined, layout, screener.thresholds)
        run = load_ranks(found, parts, choice.why, layout, failures, options, progress).select((), steps)
        known = joined.known([trace for trace in traces if trace.rank in run.rank_numbers])
        screening = _screening(joined, choice, unread, known, run.rank_numbers)
        return replace(run, screening=screening, notes=(*summaries.notes, *run.notes))


def _summarized(found: Inventory, screener: Screener, stack: ExitStack, progress: Progress) -> _Summaries:
    """The summaries of all traces; where the cache takes none of them, in a folder that is removed at the end."""
    options = screener.options
    executor = screener.executor or LocalProcesses(options.worker_count())
    folder = screener.folder or _own_folder(options.cache_dir, stack)
    try:
        return _Summaries(folder, reduce_traces(found.traces, folder, executor, options, progress))
    except RefusedError as error:
        if screener.folder is not None or options.cache_dir is None:
            raise
        folder = SecondFolder(folder, _own_folder(None, stack))
        reduced = reduce_traces(found.traces, folder, executor, options, progress)
        return _Summaries(folder, reduced, (f"{error}; the summaries of this run were not kept",))


def _own_folder(cache_dir: Path | None, stack: ExitStack) -> LocalFolder:
    """The folder in the cache, else one that is removed at the end."""
    if cache_dir is not None:
        return cached(cache_dir)
    return LocalFolder(Path(stack.enter_context(TemporaryDirectory(prefix="hermes-dx-"))))


def _screening(
    joined: Joined, choice: Choice, unread: Sequence[Unread], known: pd.DataFrame, read: Sequence[int]
) -> Screening:
    columns = {"caused_ns": "caused_ns", "share": "share", "first_steps": "steps", "waited_ns": "waited_ns"}
    return Screening(
        found=len(joined.ranks) + len(unread),
        groups=tuple(replace(each, read=tuple(sorted(set(each.ranks) & set(read)))) for each in choice.groups),
        waiting=joined.ranks[list(columns)].rename(columns=columns),
        collectives=known,
        why={rank: reason for rank, reason in choice.why.items() if rank in read},
        unread=tuple(unread),
    )


def _unread(parts: Sequence[Part], joined: Joined, failures: Sequence[Failure]) -> list[Unread]:
    """The traces without a summary, and those of ranks on which nothing could be measured."""
    lost = [part for part in parts if not part.rejected and part.guess.rank not in joined.ranks.index]
    said = [Unread(part.file.path.name, part.file.facts.cut or "it holds no whole step") for part in lost]
    return [*(Unread(each.path.name, each.reason) for each in failures), *said]


class _Summaries:
    """The summaries of a run's traces; ``files`` holds their facts once ``job_facts`` was read through."""

    def __init__(self, folder: SummaryFolder, reduced: Reduced, notes: tuple[str, ...] = ()) -> None:
        self.reduced = reduced
        self.notes = (*notes, *reduced.notes)
        self.files: list[FileFacts] = []
        self._folder = folder
        self._of = {each.trace: each for each in reduced.summaries}

    def read(self, trace: Path, tables: Sequence[TableName]) -> RankSummary:
        """These tables of the summary of a trace."""
        return self._read(self._of[trace], tables)

    def job_facts(self) -> Iterator[JobFacts]:
        """What each trace says of the job, kept no longer than it is looked at: it lists all groups of the rank."""
        for file in self.reduced.summaries:
            facts = self._read(file, ()).facts
            yield job_facts(facts.trace)
            self.files.append(_file_facts(file, facts))

    def _read(self, file: SummaryFile, tables: Sequence[TableName]) -> RankSummary:
        try:
            return read_summary(self._folder, file, tables)
        except DamagedError as error:
            raise InputError(f"{file.trace}: its summary cannot be read any more ({error}); run it again") from error


def _file_facts(file: SummaryFile, known: SummaryFacts) -> FileFacts:
    """The facts that rank and place in the run follow from, without the groups."""
    plain = replace(known.trace, groups={}, metadata=replace(known.trace.metadata, groups=(), plain={}))
    return FileFacts(file.trace, known.digest, plain, known.last_ns, frozenset(known.processes))
