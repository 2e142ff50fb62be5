"""JSON text as plain values, for the parts of a trace that are not events."""

from __future__ import annotations

import json
from typing import Any


def parse_members(text: bytes) -> dict[str, Any] | None:
    """The members of a JSON object, read leniently; None when it is none."""
    try:
        value = parse_lenient(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_lenient(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text; raises ``ValueError`` or ``RecursionError`` where it has none.

    Escaped halves of surrogate pairs are replaced: no text with one can be written anywhere.
    """
    value = json.loads(text, strict=False)
    if "\\ud" not in text.lower():
        return value
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(whole, strict=False)
