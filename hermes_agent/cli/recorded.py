"""The profile of the runs that a command names, without a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_agent.cli.progress import TerminalProgress
from hermes_agent.model.events import Stage, StageProgress

if TYPE_CHECKING:
    from hermes_agent.model.request import Request
    from tools.views.profile import Profile


def profile_of(request: Request) -> Profile:
    """Reads the run of a request; raises InputError when there is none, UsageError for unknown ranks or steps."""
    from tools.knowledge.thresholds import Thresholds
    from tools.sources.load import load_run
    from tools.sources.options import LoadOptions
    from tools.views.profile import Profile

    options = LoadOptions(cache_dir=request.cache_dir, workers=request.workers)
    with TerminalProgress() as progress:
        run = load_run(request.paths, options, _Told(progress))
    return Profile(run.select(request.ranks, request.steps), Thresholds(dict(request.thresholds)))


class _Told:
    """Passes the reader's progress on."""

    def __init__(self, progress: TerminalProgress) -> None:
        self._progress = progress

    def update(self, stage: str, done: int, total: int, detail: str) -> None:
        self._progress(StageProgress(Stage.LOAD, done, total, f"{stage} {detail}".strip()))
