"""From a cause and its mechanism to what to change, from one table (``advice.yaml``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import yaml


@dataclass(frozen=True)
class Optimization:
    """One change a person can make. ``effort``: 1 minutes, 2 hours, 3 days."""

    title: str
    how: str
    effort: int
    risk: str
    verify: str
    mechanism: str | None = None


@lru_cache(maxsize=1)
def table() -> dict[str, tuple[Optimization, ...]]:
    """All optimizations by cause."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    rows = yaml.load(files("tools").joinpath("advice.yaml").read_text(encoding="utf-8"), Loader=loader)
    return {
        cause: tuple(
            Optimization(
                row["optimization"], row["how"], row["effort"], row["risk"], row["verify"], row.get("mechanism")
            )
            for row in entries
        )
        for cause, entries in rows.items()
    }


def optimizations(cause: str, mechanism: str | None) -> tuple[Optimization, ...]:
    """What to change for this cause: the rows for its mechanism, else those that fit any mechanism."""
    rows = table().get(cause, ())
    exact = tuple(row for row in rows if mechanism is not None and row.mechanism == mechanism)
    return exact or tuple(row for row in rows if row.mechanism is None)
