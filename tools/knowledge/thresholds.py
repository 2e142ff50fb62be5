"""Thresholds with unit, reason and source (``thresholds.yaml``); configuration can override the values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tools.errors import UsageError
from tools.knowledge.tables import table


@dataclass(frozen=True)
class Threshold:
    """One limit and why it is where it is."""

    value: float
    unit: str
    reason: str
    source: str


@lru_cache(maxsize=1)
def defaults() -> dict[str, Threshold]:
    """All thresholds by name."""
    return {name: Threshold(**row) for name, row in table("thresholds").items()}


@dataclass(frozen=True)
class Thresholds:
    """The table with a configuration's overrides applied."""

    overrides: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.overrides:
            if name not in defaults():
                raise UsageError(f"there is no threshold {name!r}; known are {', '.join(sorted(defaults()))}")

    def __getitem__(self, name: str) -> float:
        override = self.overrides.get(name)
        return defaults()[name].value if override is None else override
