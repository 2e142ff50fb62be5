"""Exchanges with a model recorded as JSON lines, and replayed."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hermes_agent.llm import model as llm
from hermes_agent.llm.sanitize import one_line
from tools.agent_tools.tool import describe_faults
from tools.errors import InputError, ModelError

SCHEMA = "hermes-dx/exchange/1"
_KINDS: dict[str, type[llm.ModelEvent]] = {
    "text": llm.TextDelta,
    "reasoning": llm.ReasoningDelta,
    "tool_call": llm.ToolCall,
    "usage": llm.Usage,
    "degraded": llm.Degraded,
    "finished": llm.Finished,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


class SavedEvent(BaseModel):
    """One event of an exchange."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: Literal["text", "reasoning", "tool_call", "usage", "degraded", "finished"]
    fields: dict[str, str | bool | int]

    def event(self) -> llm.ModelEvent:
        """The event itself; raises ValidationError when the fields are not those of its kind."""
        return TypeAdapter(_KINDS[self.kind]).validate_python(self.fields)


class Exchange(BaseModel):
    """One line of a recording."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_: Annotated[Literal["hermes-dx/exchange/1"], Field(alias="schema")]
    key: str
    model: str
    request: dict[str, object]
    events: list[SavedEvent]
    error: str | None = None


def request_key(request: llm.ModelRequest) -> str:
    """SHA-256 over the request: equal requests have equal keys, on every machine."""
    text = json.dumps(asdict(request), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class RecordingModel:
    """Passes every call on and appends the exchange to a file that only its owner can read.

    A call that the reader gives up before its end is not recorded: half an exchange cannot be played.
    """

    def __init__(self, model: llm.ChatModel, path: Path) -> None:
        self._model = model
        self._path = path

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self._model.name

    def stream(self, request: llm.ModelRequest, cancelled: Callable[[], bool]) -> Iterator[llm.ModelEvent]:
        """See ChatModel.stream."""
        events: list[llm.ModelEvent] = []
        try:
            for event in self._model.stream(request, cancelled):
                events.append(event)
                yield event
        except ModelError as error:
            self._append(request, events, str(error))
            raise
        self._append(request, events, None)

    def _append(self, request: llm.ModelRequest, events: list[llm.ModelEvent], error: str | None) -> None:
        line = {
            "schema": SCHEMA,
            "key": request_key(request),
            "model": self._model.name,
            "request": asdict(request),
            "events": [{"kind": _NAMES[type(event)], "fields": asdict(event)} for event in events],
            "error": error,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")


class ReplayModel:
    """Replays a recording: a request has to be in it, and each exchange is played once, in its order."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._path = path
        self._exchanges: dict[str, list[Exchange]] = defaultdict(list)
        self._played: dict[str, int] = defaultdict(int)
        exchanges = list(read_exchanges(path))
        for exchange in exchanges:
            self._exchanges[exchange.key].append(exchange)
        self._name = name or (exchanges[0].model if exchanges else "replay")

    @property
    def name(self) -> str:
        """The name of the recorded model."""
        return self._name

    @property
    def left(self) -> int:
        """Exchanges that were not played: 0 after a faithful replay."""
        return sum(len(found) - self._played[key] for key, found in self._exchanges.items())

    def stream(self, request: llm.ModelRequest, cancelled: Callable[[], bool]) -> Iterator[llm.ModelEvent]:
        """See ChatModel.stream; a request that was not recorded raises ModelError."""
        key = request_key(request)
        found, played = self._exchanges.get(key, []), self._played[key]
        if played >= len(found):
            times = f"only {len(found)} times" if found else f"not among its {len(self._exchanges)} requests"
            raise ModelError(
                f"{self._path} does not hold this request ({times}, key {key[:12]}): prompts, tools or evidence "
                "have changed since; record it again."
            )
        self._played[key] += 1
        for saved in found[played].events:
            if cancelled():
                yield llm.Finished("cancelled")
                return
            yield saved.event()
        if (error := found[played].error) is not None:
            raise ModelError(error)


def read_exchanges(path: Path) -> Iterator[Exchange]:
    """Yield the exchanges of a recording in order; raises InputError naming file and line."""
    number = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                exchange = Exchange.model_validate_json(line)
                for saved in exchange.events:
                    saved.event()
                yield exchange
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a recording: {error}.") from error
    except ValidationError as error:
        faults = one_line(describe_faults(error, Exchange), 200)
        raise InputError(f"{path}:{number} is no recorded exchange ({faults}); record it again.") from error
