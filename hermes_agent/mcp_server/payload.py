"""Results as a client gets them: what came from the run made harmless, and no result too long for a model's context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from hermes_agent.llm.redact import Redactor
from hermes_agent.llm.sanitize import clean, fence

# Bytes (UTF-8) of the text and, apart, of the JSON of one result. Rows of figures take about 2.35 bytes a token, so
# that both together stay under the 25,000 tokens that clients accept; a Chinese character has 3 bytes.
MOST_BYTES = 28_000
CUT = "… (cut; read_result with the handle gives the rest)"

Value = TypeVar("Value", bound=BaseModel)


def cleaned(value: object, redactor: Redactor | None = None) -> object:
    """A JSON value whose texts hold no escape codes, controls or chat-template marks; names masked where asked for."""
    match value:
        case str():
            text = clean(value)
            return text if redactor is None else redactor.mask(text)
        case Mapping():
            return {str(key): cleaned(each, redactor) for key, each in value.items()}
        case list() | tuple():
            return [cleaned(each, redactor) for each in value]
    return value


def unmasked(arguments: Mapping[str, object], redactor: Redactor | None) -> dict[str, object]:
    """Arguments with masks of ours replaced by the names behind them."""
    return dict(arguments) if redactor is None else {key: _unmasked(each, redactor) for key, each in arguments.items()}


def _unmasked(value: object, redactor: Redactor) -> object:
    match value:
        case str():
            return redactor.unmask(value)
        case Mapping():
            return unmasked(value, redactor)
        case list():
            return [_unmasked(each, redactor) for each in value]
    return value


def size(record: BaseModel) -> int:
    """Bytes of the record as JSON."""
    return len(record.model_dump_json(by_alias=True).encode())


def shown(text: str, label: str, redactor: Redactor | None = None) -> str:
    """A text between two lines that mark it as data, cut at the end of a line to the most a result may have."""
    body = text if redactor is None else redactor.mask(text)
    return fence(cut(body), label)


def cut(text: str, limit: int = MOST_BYTES) -> str:
    """A text cut at the end of a line where it has more bytes."""
    data = text.encode(errors="replace")  # names of files may hold bytes that are no text
    if len(data) <= limit:
        return text
    kept = data[:limit].decode(errors="ignore").rsplit("\n", 1)[0]
    return f"{kept}\n{CUT}"


def shortened(record: Value, parts: tuple[str, ...], limit: int = MOST_BYTES) -> tuple[Value, tuple[str, ...]]:
    """The record with its longest lists and texts halved until it is short enough, and the names of those."""
    halved: list[str] = []
    while size(record) > limit:
        longest = max(parts, key=lambda name: len(str(getattr(record, name))))
        value = getattr(record, longest)
        if not value:
            break
        record = record.model_copy(update={longest: value[: len(value) // 2]})
        halved.append(longest)
    return record, tuple(dict.fromkeys(halved))
