"""How a run is read: few traced ranks in full; of many all are compared by summary, and some read in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tools.knowledge.thresholds import Thresholds
from tools.run.model import Run
from tools.sources.inventory import Inventory, take_inventory
from tools.sources.load import load_found
from tools.sources.options import LoadOptions, Progress
from tools.sources.ranks import named_ranks
from tools.sources.registry import record_formats

if TYPE_CHECKING:
    from tools.summaries.executor import Executor
    from tools.summaries.folder import SummaryFolder


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

    @property
    def least(self) -> int:
        """So many ranks are not all read in full."""
        return int(self.thresholds["screened_from_ranks"])

    def read(self, paths: Sequence[Path], selection: Selection, progress: Progress) -> Run:
        """The run; errors as ``load_run`` and ``Run.select`` raise them."""
        found = take_inventory(paths, self.options.limits, record_formats(self.options.log_pattern))
        if selection.ranks or not self._many(found):
            found = _named(found, selection.ranks)
            return self.in_full(paths, found, selection, progress)
        from tools.summaries.many_ranks import read_many

        return read_many(paths, found, self, selection.steps, progress)

    def in_full(self, paths: Sequence[Path], found: Inventory, selection: Selection, progress: Progress) -> Run:
        """The run with every rank of these files."""
        return load_found(paths, found, self.options, progress).select(selection.ranks, selection.steps)

    def _many(self, found: Inventory) -> bool:
        """Whether the ranks are many; where names do not hold the ranks, by the number of traces."""
        named = named_ranks(found.traces)
        return len(found.traces if named is None else set(named.values())) >= self.least


def _named(found: Inventory, ranks: Sequence[int]) -> Inventory:
    """Of the traces those that are of these ranks by their names; all where names do not say it."""
    named = named_ranks(found.traces) if ranks else None
    if named is None or not set(ranks) <= set(named.values()):
        return found
    return replace(found, traces=tuple(path for path in found.traces if named[path] in set(ranks)))
