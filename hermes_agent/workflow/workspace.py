"""The live objects of one diagnosis: the runs, the case index, and results under handles that the state refers to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import TypeVar

from case_library.retrieval.recall import CaseIndex
from hermes_agent.llm.tool_loop import ResultStore
from hermes_agent.locations.reading import read_run
from hermes_agent.model.events import Emit, Stage, StageProgress, ignore
from hermes_agent.model.request import Request
from tools.errors import InputError
from tools.knowledge.thresholds import Thresholds
from tools.run.model import Run
from tools.views.profile import Profile
from tools.views.steps.recorded import require_steps

Result = TypeVar("Result")


@dataclass(eq=False)
class Workspace:
    """The profiles, the case index and the results of one diagnosis, each read or opened when first asked for."""

    request: Request
    emit: Emit = ignore
    began: float = field(default_factory=time.perf_counter)
    results: ResultStore = field(default_factory=ResultStore)  # of tools
    _results: dict[str, object] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _profiles: tuple[Profile, Profile | None] | None = None
    _loading: Future[tuple[Run, Run | None]] | None = None
    _index: Future[CaseIndex] | None = None

    def prepare(self) -> None:
        """Begin to read the run and to open the case index in the background."""
        with self._lock:
            if self._profiles is None:
                self._loading = self._loading or _begin(self._load)
            self._index = self._index or _begin(self._open_index)

    @property
    def loaded(self) -> bool:
        """True once the run has been read."""
        return self._profiles is not None

    def profile(self) -> Profile:
        """The run's profile; waits until it is loaded. A reading that failed is tried again at the next call."""
        return self._both()[0]

    def baseline(self) -> Profile | None:
        """The baseline's profile, if one was asked for."""
        return self._both()[1]

    @property
    def transient(self) -> bool:
        """True where a trace was left out that may be read the next time."""
        run, baseline = self.profile().run, self.baseline()
        return run.transient or (baseline is not None and baseline.run.transient)

    def case_index(self) -> CaseIndex:
        """The index over the case library; waits until it is open. An opening that failed is tried again."""
        with self._lock:
            if self._index is None or self._index.exception() is not None:
                self._index = _begin(self._open_index)
        return self._index.result()

    def close(self) -> None:
        """Release the case index, if it was opened; it is opened again where it is asked for."""
        index, self._index = self._index, None
        if index is not None and index.exception() is None:
            index.result().close()

    def has(self, paths: Sequence[Path]) -> bool:
        """Return whether these sources are among those that are read."""
        return set(paths) <= set(self.request.paths)

    def attach(self, paths: Sequence[Path]) -> None:
        """Read more sources of the same run; what was read comes from the cache. InputError: nothing has changed.

        A folder of records is attached by the folder that holds it, as a run is named.
        """
        more = replace(
            self, request=replace(self.request, paths=(*self.request.paths, *paths)), _profiles=None, _loading=None
        )
        if len(more.profile().run.sources) == len(self.profile().run.sources):
            raise InputError(f"{', '.join(map(str, paths))}: no further source of this run is there")
        with self._lock:
            self.request, self._profiles = more.request, more._profiles
            self._results.clear()

    def put(self, handle: str, result: object) -> str:
        """Store a result for later nodes; returns its handle."""
        self._results[handle] = result
        return handle

    def get(self, handle: str, kind: type[Result], make: Callable[[], Result]) -> Result:
        """The result of that handle, of that type; made again where the process that made it was killed."""
        if handle not in self._results:
            self._results[handle] = make()
        result = self._results[handle]
        assert isinstance(result, kind)
        return result

    def _both(self) -> tuple[Profile, Profile | None]:
        with self._lock:
            if self._profiles is None:
                loading, self._loading = self._loading or _begin(self._load), None
                run, baseline = loading.result()
                limits = Thresholds(dict(self.request.thresholds))
                other = None if baseline is None else Profile(baseline, limits, label="baseline")
                self._profiles = Profile(run, limits), other
            return self._profiles

    def _open_index(self) -> CaseIndex:
        request = self.request
        return CaseIndex.open(
            cache_dir=request.cache_dir, private_folder=request.private_cases, embedding=request.embedding
        )

    def _load(self) -> tuple[Run, Run | None]:
        request = self.request
        progress = _Progress(self.emit)
        run = read_run(request, progress)
        require_steps(run, request.paths)
        if not request.baseline:
            return run, None
        baseline = replace(request, paths=request.baseline, steps=None, ranks=(), summaries="")
        return run, read_run(baseline, progress)


def _begin(work: Callable[[], Result]) -> Future[Result]:
    """Run the work in a thread of its own, which ends with it."""
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hermes-dx")
    try:
        return pool.submit(work)
    finally:
        pool.shutdown(wait=False)


@dataclass(frozen=True)
class _Progress:
    """Passes the reader's progress on."""

    emit: Emit

    def update(self, stage: str, done: int, total: int, detail: str) -> None:
        self.emit(StageProgress(Stage.LOAD, done, total, f"{stage} {detail}".strip()))
