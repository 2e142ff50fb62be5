"""Work in a thread: it ends where its request is cancelled, and what it raises reaches the request."""

from __future__ import annotations

from threading import Event as Flag
from typing import Any, cast

import pytest

from hermes_agent.llm.model import Cancelled
from hermes_agent.mcp_server.open_runs import IsCancelled
from hermes_agent.mcp_server.work import perform
from hermes_agent.model.events import Emit, Stage, StageProgress
from tools.errors import UsageError

anyio = pytest.importorskip("anyio", reason="the extra mcp is not installed")


class Reports:
    """What a client hears."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float | None, str | None]] = []

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.seen.append((progress, total, message))


async def test_the_thread_of_a_cancelled_request_ends_at_its_next_event() -> None:
    begun, ended, reports = Flag(), Flag(), Reports()

    def act(emit: Emit, cancelled: IsCancelled) -> int:
        begun.set()
        try:
            for done in range(100_000):
                emit(StageProgress(Stage.LOAD, done, 100_000, "files x"))
                Flag().wait(0.01)
        except Cancelled:
            assert cancelled()
            ended.set()
        return 0

    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(perform, cast(Any, reports), act)
            while not reports.seen:
                await anyio.sleep(0.01)
            scope.cancel()
    assert begun.is_set()
    assert ended.wait(30)
    progress, total, message = reports.seen[0]
    assert 0.5 <= progress < 1
    assert (total, message) == (len(Stage), "load: files x")


async def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    def act(emit: Emit, cancelled: IsCancelled) -> int:
        raise UsageError("wrong")

    with pytest.raises(UsageError, match="wrong"):
        await perform(cast(Any, Reports()), act)
