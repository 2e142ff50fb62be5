"""Exchanges with a model recorded as JSON lines, and replayed."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermes_agent.llm.model import ChatModel, ModelRequest, Reply
from hermes_agent.llm.sanitize import one_line
from tools.agent_tools.tool import describe_faults
from tools.errors import InputError, ModelError


class Exchange(BaseModel):
    """One line of a recording: the reply to a request, or the error that came instead."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
    schema_: Annotated[Literal["hermes-dx/exchange/2"], Field(alias="schema")]
    key: str
    model: str
    request: dict[str, object]
    reply: Reply | None = None
    error: str | None = None


def request_key(request: ModelRequest) -> str:
    """SHA-256 over the request: equal requests have equal keys, on every machine."""
    text = json.dumps(asdict(request), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class RecordingModel:
    """Passes every call on and appends the exchange to a file that only its owner can read."""

    def __init__(self, model: ChatModel, path: Path) -> None:
        self._model = model
        self._path = path

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self._model.name

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete."""
        try:
            reply = self._model.complete(request, cancelled)
        except ModelError as error:
            self._append(request, None, str(error))
            raise
        self._append(request, reply, None)
        return reply

    def _append(self, request: ModelRequest, reply: Reply | None, error: str | None) -> None:
        line = Exchange(
            schema_="hermes-dx/exchange/2",
            key=request_key(request),
            model=self.name,
            request=asdict(request),
            reply=reply,
            error=error,
        )
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "a", encoding="utf-8") as out:
            out.write(f"{line.model_dump_json(by_alias=True)}\n")


class ReplayModel:
    """Replays a recording: a request has to be in it, and each exchange is played once, in its order."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self._path = path
        self._exchanges: dict[str, list[Exchange]] = defaultdict(list)
        self._played: Counter[str] = Counter()
        exchanges = list(read_exchanges(path))
        for exchange in exchanges:
            self._exchanges[exchange.key].append(exchange)
        self.name = name or (exchanges[0].model if exchanges else "replay")

    @property
    def left(self) -> int:
        """Exchanges that were not played: 0 after a faithful replay."""
        return sum(map(len, self._exchanges.values())) - self._played.total()

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete; a request that was not recorded raises ModelError."""
        key = request_key(request)
        found, played = self._exchanges.get(key, []), self._played[key]
        if played >= len(found):
            times = f"only {len(found)} times" if found else f"not among its {len(self._exchanges)} requests"
            raise ModelError(
                f"{self._path} does not hold this request ({times}, key {key[:12]}): prompts, tools or evidence "
                "have changed since; record it again."
            )
        self._played[key] += 1
        exchange = found[played]
        if cancelled() or exchange.reply is None:
            if exchange.error is not None:
                raise ModelError(exchange.error)
            return Reply(reason="cancelled")
        return exchange.reply


def read_exchanges(path: Path) -> Iterator[Exchange]:
    """Yield the exchanges of a recording in order; raises InputError naming file and line."""
    number = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                number += 1
                yield Exchange.model_validate_json(line)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a recording: {error}.") from error
    except ValidationError as error:
        faults = one_line(describe_faults(error, Exchange), 200)
        raise InputError(f"{path}:{number} is no recorded exchange ({faults}); record it again.") from error
