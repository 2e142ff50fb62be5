"""Dask workers make the same summaries, also where one of them is killed."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from evals.benchmarks.many_ranks import write
from hermes_agent.locations.cluster import DaskWorkers, executor_for
from tests.tools.summaries.test_reduce import HERE, RUN, KillsOnWrite, contents
from tools.errors import InputError, UsageError
from tools.sources.options import LoadOptions, Silent
from tools.summaries.executor import LocalProcesses
from tools.summaries.folder import LocalFolder
from tools.summaries.reduce import reduce_traces

distributed = pytest.importorskip("distributed", reason="dask[distributed] is not installed (extra scale)")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers of one thread each."""
    import dask

    one_death = {"distributed.scheduler.allowed-failures": 1}
    with (
        dask.config.set(one_death),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """The traces of six ranks."""
    return write(RUN, tmp_path_factory.mktemp("run"))


@dataclass(frozen=True)
class KillsOne:
    """Kills one worker in the middle of the work."""

    cluster: Any
    killed: list[int]

    def update(self, stage: str, done: int, total: int, detail: str) -> None:
        """Kill the first worker when the first summary is there."""
        if not self.killed:
            pid = next(iter(self.cluster.workers.values())).pid
            self.killed.append(pid)
            psutil.Process(pid).send_signal(signal.SIGKILL)


def test_a_killed_worker_changes_nothing(cluster: Any, run: tuple[Path, ...], tmp_path: Path) -> None:  # noqa: ANN401
    alone, dask = LocalFolder(tmp_path / "alone"), LocalFolder(tmp_path / "dask")
    reduce_traces(run, alone, HERE, LoadOptions(), Silent())
    killer = KillsOne(cluster, [])

    result = reduce_traces(run, dask, DaskWorkers(cluster.scheduler_address, 2), LoadOptions(), killer)

    assert killer.killed
    assert [file.trace for file in result.summaries] == list(run)
    assert not result.failures
    assert contents(dask) == contents(alone)


def test_a_rank_that_always_kills_its_worker_is_listed(cluster: Any, run: tuple[Path, ...], tmp_path: Path) -> None:  # noqa: ANN401
    alone = reduce_traces(run[:3], LocalFolder(tmp_path / "alone"), HERE, LoadOptions(), Silent())
    folder = KillsOnWrite(tmp_path / "dask", alone.summaries[1].name)

    result = reduce_traces(run[:3], folder, DaskWorkers(cluster.scheduler_address, 2), LoadOptions(), Silent())

    assert [failure.path for failure in result.failures] == [run[1]]
    assert "killed" in result.failures[0].reason
    assert [file.trace for file in result.summaries] == [run[0], run[2]]


def test_an_address_without_a_scheduler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_agent.locations.cluster.CONNECT_S", 0.2)
    with pytest.raises(InputError, match="no Dask scheduler answers there"):
        list(DaskWorkers("tcp://127.0.0.1:9", 1).map([None]))  # type: ignore[list-item] # never sent


def test_without_an_address_the_processes_of_this_machine_are_used() -> None:
    assert executor_for(None, 3) == LocalProcesses(3)
    assert executor_for("local", 3) == DaskWorkers("local", 3)


def test_workers_of_this_machine_talk_by_tls(run: tuple[Path, ...], tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="cryptography is not installed (extra scale)")
    made: list[str] = []
    start = distributed.LocalCluster

    def watched(**options: Any) -> Any:  # noqa: ANN401
        cluster = start(**options)
        made.append(cluster.scheduler_address)
        return cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "LocalCluster", watched)
        result = reduce_traces(run[:2], LocalFolder(tmp_path), DaskWorkers("local", 2), LoadOptions(), Silent())
    assert [file.trace for file in result.summaries] == list(run[:2])
    assert [address.partition("://")[0] for address in made] == ["tls"]


def test_without_tls_no_workers_are_started_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_agent.locations.cluster.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs the package cryptography"):
        list(DaskWorkers("local", 1).map([None]))  # type: ignore[list-item] # never sent
