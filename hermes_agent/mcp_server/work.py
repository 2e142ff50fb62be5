"""Work of a call: in a thread, off the event loop, with its progress reported and an end when its client goes."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event as Flag
from typing import TYPE_CHECKING, TypeVar

from hermes_agent.llm.model import Cancelled
from hermes_agent.llm.sanitize import one_line
from hermes_agent.mcp_server.open_runs import IsCancelled
from hermes_agent.model.events import Emit, Event, Notice, Stage, StageProgress, StageStarted

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

Done = TypeVar("Done")
EVERY_S = 0.2  # between two progress notifications of a call
MESSAGE_CHARS = 160
STAGES = tuple(Stage)


class Heard:
    """How far a call has come: the stages done and the part of the present one; never less than before."""

    def __init__(self) -> None:
        self.stop = Flag()
        self.progress = 0.0
        self.message = ""

    def emit(self, event: Event) -> None:
        """Take an event from any thread; raises Cancelled once the client has gone."""
        if self.stop.is_set():
            raise Cancelled("The request was cancelled.")
        match event:
            case StageStarted(stage):
                self._reached(STAGES.index(stage), str(stage).replace("_", " "))
            case StageProgress(stage, done, total, detail):
                part = min(done / total, 1.0) if total > 0 else 0.0
                if stage is Stage.LOAD:  # the bytes of one file, or the files that are read
                    part = part / 2 if detail.startswith("read") else 0.5 + part / 2
                self._reached(STAGES.index(stage) + part, f"{stage.replace('_', ' ')}: {detail}")
            case Notice(text):
                self._reached(self.progress, text)

    def _reached(self, progress: float, message: str) -> None:
        self.progress, self.message = max(self.progress, progress), one_line(message, MESSAGE_CHARS)


async def perform(session: ServerSession, act: Callable[[Emit, IsCancelled], Done]) -> Done:
    """Run ``act`` in a thread and return its result; raises what it raises. Ends it where the request is cancelled."""
    import anyio
    import anyio.to_thread

    heard = Heard()
    results: list[Done] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(act(heard.emit, heard.stop.is_set))
        except Exception as error:  # raised again in the task of the request, outside of its group
            errors.append(error)

    async def report() -> None:
        sent = (0.0, "")
        while True:
            await anyio.sleep(EVERY_S)
            now = heard.progress, heard.message
            if now != sent:
                sent = now
                await session.report_progress(now[0], float(len(STAGES)), now[1])

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(report)
            await anyio.to_thread.run_sync(run, abandon_on_cancel=True)
            group.cancel_scope.cancel()
    finally:
        heard.stop.set()
    for error in errors:
        raise error
    return results[0]
