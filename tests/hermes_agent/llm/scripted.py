"""A model that plays a script, without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeAlias

from hermes_agent.llm.model import ModelRequest, Reply
from tools.errors import ModelError

Turn: TypeAlias = str | Reply | ModelError


class ScriptedModel:
    """Plays one turn per call, in order, and keeps the requests it saw; a call after the last turn is a ModelError."""

    def __init__(self, turns: Iterable[Turn], name: str = "scripted") -> None:
        self._turns = list(turns)
        self.name = name
        self.requests: list[ModelRequest] = []

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """The next turn; see ChatModel.complete."""
        played = len(self.requests)
        self.requests.append(request)
        if played >= len(self._turns):
            raise ModelError(f"The script of the model {self.name!r} ended after {len(self._turns)} turns.")
        turn = self._turns[played]
        if isinstance(turn, ModelError):
            raise turn
        if isinstance(turn, Reply):
            return Reply(reason="cancelled") if cancelled() else turn
        text = "".join(takewhile(lambda _: not cancelled(), turn))
        return Reply(text, reason="cancelled" if cancelled() else "stop")
