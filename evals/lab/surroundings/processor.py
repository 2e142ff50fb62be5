"""Surroundings that take processor time from the training: quota, binding, foreign load, pauses."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from evals.lab.surroundings.commands import beside, entering
from evals.lab.surroundings.control_groups import ROOT, cannot_group, controller_home, group
from evals.lab.surroundings.leftovers import own_folder
from evals.lab.surroundings.pausing import end_group
from evals.lab.surroundings.placement import Placement

QUOTA_PERIOD_US = 100_000  # the kernel's and every container runtime's default


@dataclass(frozen=True)
class CpuQuota:
    """Each of ``ranks``, with its children, may use ``cores`` of processor time (0.5: 50 ms of every 100 ms)."""

    ranks: tuple[int, ...]
    cores: float
    root: Path = ROOT

    def missing(self) -> str:
        return cannot_group("cpu", self.root)

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with ExitStack() as stack:
            groups = {rank: stack.enter_context(group("cpu", self._settings(), self.root)) for rank in self.ranks}
            yield _placed(ranks, {rank: entering("--group", str(made)) for rank, made in groups.items()})

    def _settings(self) -> dict[str, str]:
        quota_us = round(self.cores * QUOTA_PERIOD_US)
        home = controller_home("cpu", self.root)
        if home is not None and home[1] == 2:
            return {"cpu.max": f"{quota_us} {QUOTA_PERIOD_US}"}
        return {"cpu.cfs_period_us": str(QUOTA_PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}


@dataclass(frozen=True)
class BoundCores:
    """Each of ``ranks``, with its children, may run on ``cores`` only."""

    ranks: tuple[int, ...]
    cores: tuple[int, ...]

    def missing(self) -> str:
        return _absent_cores(self.cores)

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        yield _placed(ranks, dict.fromkeys(self.ranks, entering("--cores", _listed(self.cores))))


@dataclass(frozen=True)
class ForeignLoad:
    """``processes`` that have nothing to do with the training burn a core each, on ``cores`` or anywhere."""

    processes: int
    cores: tuple[int, ...] | None = None

    def missing(self) -> str:
        return _absent_cores(self.cores or ())

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with ExitStack() as stack:
            for _ in range(self.processes):
                stack.enter_context(beside("busy", _listed(self.cores or ())))
            yield _placed(ranks, {})


@dataclass(frozen=True)
class PausedRank:
    """``rank``, with its children, stands still for ``share`` of every ``period_ms``: a slower machine."""

    rank: int
    share: float  # 0 to 1, exclusive
    period_ms: float = 20.0

    def missing(self) -> str:
        return ""

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with own_folder() as own:
            announced = own / "pid"
            try:
                with beside("pausing", str(announced), str(self.share), str(self.period_ms)):
                    yield _placed(ranks, {self.rank: entering("--announce", str(announced))})
            finally:
                end_group(announced)


def _placed(ranks: int, prefixes: Mapping[int, tuple[str, ...]]) -> tuple[Placement, ...]:
    return tuple(Placement(prefixes.get(rank, ())) for rank in range(ranks))


def _listed(cores: tuple[int, ...]) -> str:
    return ",".join(map(str, cores))


def _absent_cores(cores: tuple[int, ...]) -> str:
    absent = set(cores) - os.sched_getaffinity(0)
    return f"core {_listed(tuple(sorted(absent)))} may not be used here" if absent else ""
