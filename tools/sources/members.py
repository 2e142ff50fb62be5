"""The members of a JSON object as plain values, for the parts of a trace that are not events."""

from __future__ import annotations

import json
from typing import Any


def parse_members(text: bytes) -> dict[str, Any] | None:
    """The members of a JSON object, read leniently; None when it is none."""
    try:
        value = json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
