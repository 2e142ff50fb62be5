"""A run of any number of traced ranks: few are read in full; many are summarized, joined, and some of them read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from tools.errors import InputError
from tools.knowledge.thresholds import Thresholds
from tools.run.layout import JobFacts, describe
from tools.run.model import Run
from tools.run.packing import DamagedError
from tools.run.screening import Screening, Unread
from tools.sources.files import Failure
from tools.sources.inventory import Inventory, take_inventory
from tools.sources.load import job_facts, load_found, load_ranks, parts_of_run
from tools.sources.options import LoadOptions, Progress
from tools.sources.ranks import FileFacts, Part, named_ranks
from tools.summaries.choice import Choice, choose
from tools.summaries.executor import Executor, LocalProcesses
from tools.summaries.folder import LocalFolder, SummaryFolder, cached
from tools.summaries.join import Joined, SummarizedTrace, join
from tools.summaries.record import RankSummary, SummaryFacts, TableName
from tools.summaries.reduce import Reduced, SummaryFile, read_summary, reduce_traces


@dataclass(frozen=True)
class Selection:
    """The ranks (all where none are named) and the steps first..last (all where None) that are asked for."""

    ranks: tuple[int, ...] = ()
    steps: tuple[int, int] | None = None


@dataclass(frozen=True)
class Screener:
    """How a run is read: options, thresholds, and for many ranks who makes their summaries and where they lie."""

    options: LoadOptions
    thresholds: Thresholds
    folder: SummaryFolder | None = None  # None: in the cache; where there is none, a folder that is removed at the end
    executor: Executor | None = None  # None: processes of this machine

    def read(self, paths: Sequence[Path], selection: Selection, progress: Progress) -> Run:
        """The run; errors as ``load_run`` and ``Run.select`` raise them."""
        found = take_inventory(paths, self.options.limits)
        if selection.ranks or not self._many(found):
            found = _named(found, selection.ranks)
            return load_found(paths, found, self.options, progress).select(selection.ranks, selection.steps)
        with ExitStack() as stack:
            folder = self.folder or self._own_folder(stack)
            executor = self.executor or LocalProcesses(self.options.worker_count())
            reduced = reduce_traces(found.traces, folder, executor, self.options, progress)
            if not reduced.summaries:
                return load_found(paths, found, self.options, progress).select((), selection.steps)
            return self._screened(paths, found, _Summaries(folder, reduced), selection.steps, progress)

    def _own_folder(self, stack: ExitStack) -> LocalFolder:
        """The folder in the cache, else one that is removed at the end."""
        if self.options.cache_dir is not None:
            return cached(self.options.cache_dir)
        return LocalFolder(Path(stack.enter_context(TemporaryDirectory(prefix="hermes-dx-"))))

    def _many(self, found: Inventory) -> bool:
        """Whether the ranks are many; where names do not hold the ranks, by the number of traces."""
        named = named_ranks(found.traces)
        return len(found.traces if named is None else set(named.values())) >= self._least

    @property
    def _least(self) -> int:
        return int(self.thresholds["screened_from_ranks"])

    def _screened(
        self,
        paths: Sequence[Path],
        found: Inventory,
        summaries: _Summaries,
        steps: tuple[int, int] | None,
        progress: Progress,
    ) -> Run:
        failures = summaries.reduced.failures
        layout = describe(summaries.job_facts())
        parts = parts_of_run(paths, summaries.files)
        traces = [
            SummarizedTrace(part.guess.rank, part.file.facts.origin_ns, partial(summaries.read, part.file.path))
            for part in parts
            if not part.rejected and not part.file.facts.cut  # nothing is measured on a cut trace
        ]
        joined = join(traces, steps)
        unread = _unread(parts, joined, failures)
        if len(joined.ranks) + len(unread) < self._least:
            return load_found(paths, found, self.options, progress).select((), steps)
        choice = choose(joined, layout, self.thresholds)
        run = load_ranks(found, parts, choice.why, layout, failures, self.options, progress).select((), steps)
        known = joined.known([trace for trace in traces if trace.rank in run.rank_numbers])
        screening = _screening(joined, choice, unread, known, run.rank_numbers)
        return replace(run, screening=screening, notes=(*summaries.reduced.notes, *run.notes))


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


def _named(found: Inventory, ranks: Sequence[int]) -> Inventory:
    """Of the traces those that are of these ranks by their names; all where names do not say it."""
    named = named_ranks(found.traces) if ranks else None
    if named is None or not set(ranks) <= set(named.values()):
        return found
    return replace(found, traces=tuple(path for path in found.traces if named[path] in set(ranks)))


class _Summaries:
    """The summaries of a run's traces; ``files`` holds their facts once ``job_facts`` was read through."""

    def __init__(self, folder: SummaryFolder, reduced: Reduced) -> None:
        self.reduced = reduced
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
