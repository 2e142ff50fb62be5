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
    from_capability: float | None = None  # compute capability of the device it fits, and above
    below_capability: float | None = None

    def fits(self, capability: float | None) -> bool:
        """Whether it suits a device of that compute capability; an unknown one rules nothing out."""
        if capability is None:
            return True
        above = self.from_capability is None or capability >= self.from_capability
        return above and (self.below_capability is None or capability < self.below_capability)


@lru_cache(maxsize=1)
def table() -> dict[str, tuple[Optimization, ...]]:
    """All optimizations by cause."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    rows = yaml.load(files("tools.knowledge").joinpath("advice.yaml").read_text(encoding="utf-8"), Loader=loader)
    return {
        cause: tuple(
            Optimization(
                row["optimization"],
                row["how"],
                row["effort"],
                row["risk"],
                row["verify"],
                row.get("mechanism"),
                row.get("from_capability"),
                row.get("below_capability"),
            )
            for row in entries
        )
        for cause, entries in rows.items()
    }


def optimizations(cause: str, mechanism: str | None, capability: float | None = None) -> tuple[Optimization, ...]:
    """What to change for this cause: the rows for its mechanism that suit the device, else those for any mechanism."""
    rows = tuple(row for row in table().get(cause, ()) if row.fits(capability))
    exact = tuple(row for row in rows if mechanism is not None and row.mechanism == mechanism)
    return exact or tuple(row for row in rows if row.mechanism is None)
