"""How the run of a request is read: all ranks in full, or many compared by summaries that lie or are made somewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_agent.locations.places import RunUrl, place
from hermes_agent.model.request import Request
from tools.knowledge.thresholds import Thresholds
from tools.run.model import Run
from tools.sources.options import LoadOptions, Progress
from tools.summaries.screen import Screener, Selection

if TYPE_CHECKING:
    from tools.summaries.folder import SummaryFolder


def screener_of(request: Request) -> Screener:
    """Return how the runs of a request are read."""
    options = LoadOptions(cache_dir=request.cache_dir, workers=request.workers, log_pattern=request.log_pattern)
    executor = None
    if request.dask:
        from hermes_agent.locations.cluster import executor_for

        executor = executor_for(request.dask, options.worker_count())
    folder = summaries_at(request.summaries) if request.summaries else None
    return Screener(options, Thresholds(dict(request.thresholds)), folder, executor)


def read_run(request: Request, progress: Progress) -> Run:
    """Return the run of a request; errors as ``Screener.read`` raises them."""
    return screener_of(request).read(request.paths, Selection(request.ranks, request.steps), progress)


def summaries_at(where: str) -> SummaryFolder:
    """Return the folder of summaries at a path or URL."""
    found = place(where)
    if isinstance(found, RunUrl):
        from hermes_agent.locations.stream import RemoteFolder

        return RemoteFolder(found.url)
    from tools.summaries.folder import LocalFolder

    return LocalFolder(found)
