"""A small real model on a fixed subset of the questions: how it is recorded, and how its exchanges are played again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hermes_agent.llm.model import ModelRequest, Reply
from hermes_agent.llm.recording import read_exchanges
from tools.errors import ModelError

# All of the bundled run: a cause, figures, advice, a prediction and two that the run cannot answer.
SUBSET = ("01-demo", "06-demo", "11-demo", "19-demo", "20-demo", "25-demo", "29-demo")
REPLIES = "recorded"  # the profile that plays them
RECORDED = Path(__file__).with_name("recorded")


class RecordedReplies:
    """Plays the replies of a recording in their order, whatever is asked: prompts may have changed since."""

    def __init__(self, file: Path) -> None:
        self._exchanges = list(read_exchanges(file))
        self._played = 0
        self.name = self._exchanges[0].model if self._exchanges else file.stem

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete; ModelError where the recording ends or holds an error."""
        if self._played >= len(self._exchanges):
            raise ModelError("the recording has ended")
        exchange = self._exchanges[self._played]
        self._played += 1
        if exchange.reply is None:
            raise ModelError(exchange.error or "cancelled")
        ended = exchange.reply.reason == "cancelled"  # by the time limit, which is an answer that was cut off
        return replace(exchange.reply, reason="length") if ended else exchange.reply
