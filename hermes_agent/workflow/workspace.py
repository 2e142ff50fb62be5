"""The live objects of one diagnosis, built once from the request and shared by the nodes."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from case_library.retrieval.recall import CaseIndex, Recall
from hermes_agent.model.request import Request
from tools.analyzers.registry import ANALYZERS
from tools.comparison.compare import Comparison
from tools.findings import Check
from tools.judgement.ranking import Ranking
from tools.knowledge.thresholds import Thresholds
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.profile import Profile
from tools.views.series import require_steps

Report = Callable[[str, int, int, str], None]


class Workspace:
    """Request, profiles, checks, ranking and recalled cases of one diagnosis."""

    def __init__(self, request: Request, report: Report | None = None) -> None:
        self.request = request
        self.thresholds = Thresholds(dict(request.thresholds))
        self.notes: list[str] = []
        self.checks: dict[str, tuple[Check, ...]] = {}
        self.recalls: dict[int, Recall] = {}
        self.ranking: Ranking | None = None
        self.comparison: Comparison | None = None
        self._report = report
        self.analyzing = Lock()  # branches take turns: they share the profile's caches
        self._lock = Lock()
        self._background = ThreadPoolExecutor(max_workers=2, thread_name_prefix="hermes-dx")
        self._profile: Profile | None = None
        self._baseline: Profile | None = None
        self._loading = self._background.submit(self._load)
        self._index: Future[CaseIndex] | None = None

    def profile(self) -> Profile:
        """The run's profile; waits until it is loaded."""
        with self._lock:
            if self._profile is None:
                run, baseline = self._loading.result()
                self._profile = Profile(run, self.thresholds)
                if baseline is not None:
                    self._baseline = Profile(baseline, self.thresholds, label="baseline")
        return self._profile

    def baseline(self) -> Profile | None:
        """The baseline's profile, if one was asked for."""
        self.profile()
        return self._baseline

    def case_index(self) -> CaseIndex:
        """The index over the case library; opened once, in the background from ``open_index`` on."""
        if self._index is None:
            self.open_index()
        assert self._index is not None
        return self._index.result()

    def open_index(self) -> None:
        """Starts opening the case index."""
        request = self.request
        self._index = self._background.submit(
            CaseIndex.open,
            cache_dir=request.cache_dir,
            private_folder=request.private_cases,
            embedding=request.embedding,
        )

    def add_checks(self, analyzer: str, checks: tuple[Check, ...]) -> None:
        """Keeps what an analyzer said."""
        self.checks[analyzer] = checks

    def ordered_checks(self) -> list[Check]:
        """All checks in the registry's order, whatever order the branches ran in."""
        return [check for each in ANALYZERS for check in self.checks.get(each.name, ())]

    def _load(self) -> tuple[Run, Run | None]:
        request = self.request
        options = LoadOptions(cache_dir=request.cache_dir, workers=request.workers)
        progress = None if self._report is None else _Progress(self._report)
        run = load_run(request.paths, options, progress)
        run = run.select(request.ranks, request.steps)
        require_steps(run, request.paths)
        baseline = load_run(request.baseline, options, progress) if request.baseline else None
        return run, baseline


@dataclass(frozen=True)
class Context:
    """What LangGraph hands to every node beside the state."""

    workspace: Workspace


class _Progress:
    """Passes the reader's progress on."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def update(self, stage: str, done: int, total: int, detail: str) -> None:
        self._report(stage, done, total, detail)
