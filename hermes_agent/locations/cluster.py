"""The workers of a Dask cluster as an executor of ``tools.summaries``: a cluster that runs, or one started here."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from tools.errors import InputError, UsageError
from tools.sources.workers import Lost, Request
from tools.summaries.executor import TRIES, Executor, LocalProcesses

LOCAL = "local"
HTTP = ("distributed.scheduler.http.routes", "distributed.worker.http.routes")  # pages that everybody may read
CONNECT_S = 20.0  # for the scheduler to answer


def executor_for(dask: str | None, workers: int) -> Executor:
    """Return processes of this machine, or the workers of a Dask cluster where its address (or "local") is given."""
    return LocalProcesses(workers) if dask is None else DaskWorkers(dask, workers)


@dataclass(frozen=True)
class DaskWorkers:
    """The workers of the cluster whose scheduler has that address; for "local" so many processes of this machine.

    Processes of this machine talk by TLS with keys of their own: no other user of the machine can give them work.
    They need the same version of hermes-dx, and the run and the folder of the summaries under the same names.
    """

    address: str
    workers: int

    def map(self, requests: Sequence[Request]) -> Iterator[tuple[int, Any | Lost]]:
        """Yield place and answer; Dask gives the request of a killed worker to another one, some times."""
        if not requests:
            return
        try:
            import dask
            from distributed import Client, KilledWorker, LocalCluster, as_completed
        except ImportError as error:
            raise UsageError("Dask is missing; install hermes-dx[scale]") from error
        if self.address == LOCAL and find_spec("cryptography") is None:
            raise UsageError(
                "--dask local needs the package cryptography, to keep other users of this machine out of its workers; "
                "install hermes-dx[scale]"
            )
        with ExitStack() as stack:
            stack.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": TRIES - 1}))
            try:
                where: Any = self.address
                if self.address == LOCAL:
                    stack.enter_context(dask.config.set(dict.fromkeys(HTTP, ())))
                    count = min(self.workers, len(requests))
                    quiet = {"dashboard_address": None, "silence_logs": logging.CRITICAL, "security": True}
                    where = stack.enter_context(LocalCluster(n_workers=count, threads_per_worker=1, **quiet))
                client = stack.enter_context(Client(where, timeout=CONNECT_S, set_as_default=False))
            except (OSError, ValueError) as error:
                raise InputError(f"{self.address}: no Dask scheduler answers there ({error}); check it") from error
            places = {client.submit(_answer, each, pure=False): place for place, each in enumerate(requests)}
            for future in as_completed(list(places), loop=client.loop):
                if future.status == "finished":
                    yield places.pop(future), future.result()
                    continue
                reason = future.exception()
                if not isinstance(reason, KilledWorker):
                    raise InputError(
                        f"{self.address}: the Dask workers cannot do it ({type(reason).__name__}: {reason}); "
                        "they need the same version of hermes-dx"
                    )
                yield places.pop(future), Lost(TRIES)


def _answer(request: Request) -> object:
    return request.answer()
